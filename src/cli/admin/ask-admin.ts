/** Asks the admin API of a running Rangeway, and tells its answers from those of others. */

import { type ClientRequestArgs, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { exitCode } from '../exit-code.ts';
import { fail } from '../failure.ts';
import type { CliIo } from '../io.ts';
import { readText } from '../message-text.ts';
import { printable } from '../text-sections.ts';
import { type AdminServer, formatAdminPlace } from './admin-server.ts';

/** A request of the API. */
export interface AdminQuestion {
  readonly method: 'GET' | 'POST';
  /** With its query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: object;
  /** A member that the answer has, if it is one of Rangeway. */
  readonly wants?: string;
  /** How long the answer may take, in milliseconds; undefined where it takes as long as it takes. */
  readonly timeoutMs?: number;
}

/** What came of it. */
export type AdminReply =
  /** The JSON of the answer; undefined where it has none. */
  | { readonly kind: 'answered'; readonly value: unknown }
  /** Rangeway has said no, in its own words. */
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string }
  /** There was no answer of a Rangeway; the detail is for people. */
  | { readonly kind: 'failed'; readonly detail: string };

/** Asks. Never rejects. */
export async function askAdmin(server: AdminServer, question: AdminQuestion): Promise<AdminReply> {
  try {
    const message = await send(server, question);
    const text = await readText(message);
    return readReply(message, text, server, question);
  } catch (thrown) {
    return { kind: 'failed', detail: describeFailure(thrown, server, question) };
  }
}

/** Prints why there is no answer to go on with; gives the exit code. */
export function failWith(io: CliIo, reply: Exclude<AdminReply, { readonly kind: 'answered' }>): number {
  return fail(io, printable(reply.detail), exitCode.failed);
}

function send({ place, token }: AdminServer, question: AdminQuestion): Promise<IncomingMessage> {
  const { method, path, body, timeoutMs } = question;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const headers = {
    accept: 'application/json, application/problem+json',
    connection: 'close',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  };
  const signal = timeoutMs === undefined ? {} : { signal: AbortSignal.timeout(timeoutMs) };
  const options: ClientRequestArgs = { method, headers, agent: false, ...signal };
  return new Promise((resolve, reject) => {
    const sent =
      place.kind === 'unix'
        ? httpRequest({ ...options, socketPath: place.path, path, host: 'localhost' }, resolve)
        : (place.url.protocol === 'https:' ? httpsRequest : httpRequest)(urlOf(place.url, path), options, resolve);
    sent.once('error', reject);
    sent.end(text);
  });
}

function urlOf(base: URL, path: string): URL {
  return new URL(base.pathname.replace(/\/$/, '') + path, base);
}

function readReply(
  { statusCode = 0, headers }: IncomingMessage,
  text: string,
  server: AdminServer,
  { wants }: AdminQuestion,
): AdminReply {
  const type = headers['content-type'] ?? '';
  if (statusCode === 204 && wants === undefined) return { kind: 'answered', value: undefined };
  const value = /^application\/(?:problem\+)?json\b/i.test(type) ? parseObject(text) : {};
  if (statusCode === 200 && wants !== undefined && Object.hasOwn(value, wants)) return { kind: 'answered', value };
  const { detail } = value as { detail?: unknown };
  if (statusCode < 400 || typeof detail !== 'string') return { kind: 'failed', detail: describeStranger(server) };
  return { kind: 'refused', status: statusCode, detail: describeRefusal(statusCode, detail, server) };
}

function parseObject(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** What it says, and what helps. */
function describeRefusal(status: number, detail: string, { place, token }: AdminServer): string {
  if (status !== 401) return detail;
  return token === undefined
    ? `${formatAdminPlace(place)} asks for a token: name it with --token env:NAME or file:PATH, or set RANGEWAY_ADMIN_TOKEN`
    : `${formatAdminPlace(place)} does not take this token: it must be the one that "admin.token" names there`;
}

function describeStranger({ place }: AdminServer): string {
  return `what answers at ${formatAdminPlace(place)} is not the admin listener of a Rangeway`;
}

const howToStart = 'start Rangeway, or say with --admin where its admin listener is';

function describeFailure(thrown: unknown, server: AdminServer, { timeoutMs = 0 }: AdminQuestion): string {
  const { code = '', message = '', name }: Partial<NodeJS.ErrnoException> = thrown instanceof Error ? thrown : {};
  const { place } = server;
  const where = formatAdminPlace(place);
  if (name === 'TimeoutError' || name === 'AbortError') return `no answer from ${where} in ${timeoutMs / 1000} s`;
  if (code === 'ECONNREFUSED' || (code === 'ENOENT' && place.kind === 'unix')) {
    return `nobody listens at ${where}: ${howToStart}`;
  }
  if (code === 'EACCES' && place.kind === 'unix')
    return `no permission for ${where}: it is for the user that runs Rangeway`;
  if (code === 'ENOTFOUND' && place.kind === 'url') return `the name ${place.url.hostname} is unknown`;
  if (code.startsWith('HPE_') || code === 'EPROTO') return describeStranger(server);
  return `${where} cannot be asked: ${message.split('\n', 1)[0]}`;
}
