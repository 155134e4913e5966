/**
 * Chooses the running server that a command is for (by flags, the environment, or the sockets on this machine), asks its admin
 * API, and explains failures.
 */

import { lstat, readdir } from 'node:fs/promises';
import { type ClientRequestArgs, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import {
  adminSocketName,
  runtimeDirectories,
  runtimeSocket,
  type SocketEnvironment,
  storeSocket,
  storesDirectory,
} from '../../config/default-places.ts';
import { parseSecretSource } from '../../config/secret-source.ts';
import { readSecret } from '../../setup/secrets.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { replaceTerminalControls } from '../text-sections.ts';
import {
  type AdminFlags,
  type AdminPlace,
  type AdminServer,
  formatAdminPlace,
  isServedAt,
  type NoServer,
  parseAdminPlace,
} from './flags.ts';

/** The default admin listener. It is asked where a token is given and no socket is found. */
const portPlace = 'http://127.0.0.1:9180';

const placeVariable = 'RANGEWAY_ADMIN';
const tokenVariable = 'RANGEWAY_ADMIN_TOKEN';

/**
 * Chooses the server that the flags name, by its admin listener, its configuration file or its store directory. Without such a
 * flag the environment names it. Without both it is the server of this user whose admin socket is found; of several, the only
 * one that serves the URLs of the command (`asked`). Reads the token from its source. Prints the reason where there is no
 * server. Never rejects.
 */
export async function chooseAdminServer(
  flags: AdminFlags,
  io: CliIo,
  asked: readonly string[] | string = [],
): Promise<AdminServer | NoServer> {
  const { admin, config, dir } = flags;
  const given = [
    admin === undefined ? [] : ['--admin'],
    config === undefined ? [] : ['--config'],
    dir === undefined ? [] : ['--dir'],
  ].flat();
  if (given.length > 1) return none(io, `${given.join(' and ')} exclude each other: say one of them`, exitCode.misused);
  if (config !== undefined) return await serverOfFile(config, io);
  if (dir !== undefined) {
    const path = storeSocket(resolve(dir));
    if (path !== undefined) return socketServer(path);
    return none(io, `--dir: ${dir} has no room for a socket in its path: use --config, or --admin`, exitCode.misused);
  }
  const { [placeVariable]: fromEnvironment = '' } = io.env;
  const stated = admin ?? (fromEnvironment === '' ? undefined : fromEnvironment);
  if (stated === undefined) return await findServer(flags, io, [asked].flat());
  const place = parseAdminPlace(stated);
  if (place !== undefined) return await withToken(place, flags, io);
  const by = admin === undefined ? placeVariable : '--admin';
  const reason = `${by}: expected a URL, [host:]port such as "9180", or "unix:PATH", found ${JSON.stringify(stated)}`;
  return none(io, reason, exitCode.misused);
}

/** Returns the server of a configuration file. The rules for its admin socket are those of the server. */
async function serverOfFile(file: string, io: CliIo): Promise<AdminServer | NoServer> {
  // Only here are the schemas of configurations needed.
  const { resolveConfig, withStoreDirectory } = await import('../serve-config.ts');
  const alone = await resolveConfig(undefined, { config: file });
  // A file without routes belongs to a server that has its origin from the command line.
  const resolved = alone.kind === 'ok' ? alone : await resolveConfig('http://origin.invalid', { config: file });
  if (resolved.kind === 'refused') {
    for (const line of alone.kind === 'refused' ? alone.lines : []) io.stderr.write(`${line}\n`);
    return { kind: 'none', exitCode: exitCode.misused };
  }
  const { admin, listen, store } = withStoreDirectory(resolved.config, io);
  if (admin === 'off') return none(io, `${file} switches the admin listener off ("admin": "off")`, exitCode.failed);
  const inStore = storeSocket(store.type === 'disk' ? store.dir : undefined);
  if (inStore !== undefined) return socketServer(inStore);
  const isChosen = listen[0]?.address.kind === 'tcp' && listen[0].address.port === 0;
  if (isChosen)
    return none(io, `${file} has the system choose the port: say with --admin where its socket is`, exitCode.failed);
  const paths = runtimeDirectories(groundOf(io)).map((directory) => runtimeSocket(directory, listen, 0));
  for (const path of paths) if (await canConnect(path)) return socketServer(path);
  return socketServer(paths[0] as string);
}

async function findServer(flags: AdminFlags, io: CliIo, asked: readonly string[]): Promise<AdminServer | NoServer> {
  const paths = await findAdminSockets(groundOf(io), io.home);
  const [first] = paths;
  if (first === undefined) {
    const hasToken = flags.token !== undefined || (io.env[tokenVariable] ?? '') !== '';
    if (hasToken) return await withToken({ kind: 'url', url: new URL(portPlace) }, flags, io);
    const reason =
      'no Rangeway of this user was found here: start one, or say with --admin, --config or --dir which is meant';
    return none(io, reason, exitCode.failed);
  }
  if (paths.length === 1) return socketServer(first);
  const servers = await Promise.all(paths.map(async (path) => ({ path, addresses: await readAddresses(path) })));
  const meant = servers.filter(({ addresses }) => asked.length > 0 && asked.every((url) => isServedAt(url, addresses)));
  const [only] = meant;
  if (only !== undefined && meant.length === 1) return socketServer(only.path);
  const lines = servers.map(
    ({ path, addresses }) =>
      `  --admin unix:${path}${addresses.length === 0 ? '' : `   serves ${addresses.join(' and ')}`}`,
  );
  const reason = [`${paths.length} servers of this user run here: say which is meant, with one of`, ...lines].join(
    '\n',
  );
  return none(io, replaceTerminalControls(reason), exitCode.misused);
}

/** Resolves with the addresses that a server serves; with none where it does not answer. */
async function readAddresses(path: string): Promise<readonly string[]> {
  const question = { method: 'GET', path: '/api/v1/status', wants: 'addresses', timeoutMs: 5_000 } as const;
  const reply = await askAdmin(socketServer(path), question);
  const { addresses } = (reply.kind === 'answered' ? reply.value : {}) as { readonly addresses?: unknown };
  return Array.isArray(addresses) ? addresses.map(String) : [];
}

/** An admin socket of this user needs no token, so none is sent. */
function socketServer(path: string): AdminServer {
  return { kind: 'server', place: { kind: 'unix', path }, token: undefined };
}

async function withToken(place: AdminPlace, { token }: AdminFlags, io: CliIo): Promise<AdminServer | NoServer> {
  const { [tokenVariable]: tokenThere = '' } = io.env;
  const source = parseSecretSource(token ?? `env:${tokenVariable}`);
  // The message does not repeat the value: it may be the token itself.
  if (source === undefined) return none(io, '--token: expected "env:NAME" or "file:PATH"', exitCode.misused);
  if (token === undefined && tokenThere === '') return { kind: 'server', place, token: undefined };
  try {
    return { kind: 'server', place, token: await readSecret(source, io.env) };
  } catch (error) {
    return none(io, error instanceof Error ? error.message : String(error), exitCode.failed);
  }
}

function none(io: CliIo, reason: string, code: Parameters<typeof fail>[2]): NoServer {
  return { kind: 'none', exitCode: fail(io, reason, code) };
}

function groundOf({ env }: CliIo): SocketEnvironment {
  const { TMPDIR: stated = '' } = env;
  return { environment: env, temporary: stated === '' ? tmpdir() : stated, userId: process.getuid?.() };
}

/** A connection to a Unix socket is made or refused at once, unless the server behind it is stuck. */
const PATIENCE_MS = 2_000;

/**
 * Returns the paths of admin sockets on which a server listens. It looks in the default store directories, in temporary store
 * directories, and in the runtime directories. Temporary and runtime directories count only where they belong to this user and
 * no other user can write to them.
 */
async function findAdminSockets(ground: SocketEnvironment, home: string): Promise<readonly string[]> {
  const { environment, temporary, userId } = ground;
  const stores = storesDirectory(environment, home);
  const isOurs = async (path: string): Promise<boolean> => {
    const found = await lstat(path).catch(() => undefined);
    return found?.isDirectory() === true && isOwn(found, userId) && (found.mode & 0o022) === 0;
  };
  const paths = (await namesIn(stores)).map((name) => join(stores, name, adminSocketName));
  for (const name of await namesIn(temporary)) {
    const directory = join(temporary, name);
    if (name.startsWith('rangeway-') && (await isOurs(directory))) paths.push(join(directory, adminSocketName));
  }
  for (const directory of runtimeDirectories(ground)) {
    if (!(await isOurs(directory))) continue;
    const names = (await namesIn(directory)).filter((name) => name.endsWith('.sock'));
    paths.push(...names.map((name) => join(directory, name)));
  }
  const live = await Promise.all([...new Set(paths)].map((path) => isLive(path, userId)));
  return [...new Set(paths)].filter((_, index) => live[index]);
}

/** Checks whether a server of this user listens on a socket. For root the server may be any user's. */
async function isLive(path: string, userId: number | undefined): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  const isSocket = found?.isSocket() === true;
  if (!isSocket || (userId !== 0 && !isOwn(found, userId))) return false;
  return await canConnect(path);
}

/** Checks whether a server listens on a Unix socket and this user may connect to it. */
export function canConnect(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ path, timeout: PATIENCE_MS });
  socket.once('connect', () => resolve(true));
  socket.once('timeout', () => resolve(false));
  socket.once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

function isOwn({ uid }: { readonly uid: number }, userId: number | undefined): boolean {
  return userId === undefined || uid === userId;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch(() => []);
}

/** A request of the API. */
interface AdminQuestion {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** With its query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: object;
  /** A member that the answer must have: an answer without it is not from a Rangeway. Undefined where a 204 is expected. */
  readonly wants?: string;
  /** A status besides 200 that has such an answer too. */
  readonly otherStatus?: number;
  /** How long the answer may take, in milliseconds; undefined sets no limit. */
  readonly timeoutMs?: number;
  /** Ends the request early. */
  readonly signal?: AbortSignal;
}

/** The outcome of a request. `detail` is a message for people. */
export type AdminReply =
  /** The JSON of the answer; undefined where it has none. */
  | { readonly kind: 'answered'; readonly value: unknown }
  /** Rangeway refused the request; `detail` says why. */
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string }
  /** No Rangeway answered. */
  | { readonly kind: 'failed'; readonly detail: string };

/** Sends a request to the admin API and reads the answer. Never rejects. */
export async function askAdmin(server: AdminServer, question: AdminQuestion): Promise<AdminReply> {
  try {
    const message = await send(server, question);
    const text = await readText(message);
    return readReply(message, text, server, question);
  } catch (thrown) {
    return { kind: 'failed', detail: describeFailure(thrown, server, question) };
  }
}

/** Prints why a request failed or was refused; returns the exit code. */
export function failWith(io: CliIo, reply: Exclude<AdminReply, { readonly kind: 'answered' }>): number {
  return fail(io, replaceTerminalControls(reply.detail), exitCode.failed);
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
  const signals = [
    ...(timeoutMs === undefined ? [] : [AbortSignal.timeout(timeoutMs)]),
    ...(question.signal === undefined ? [] : [question.signal]),
  ];
  const signal = signals.length === 0 ? {} : { signal: AbortSignal.any(signals) };
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
  { wants, otherStatus }: AdminQuestion,
): AdminReply {
  const type = headers['content-type'] ?? '';
  if (statusCode === 204 && wants === undefined) return { kind: 'answered', value: undefined };
  const value = /^application\/(?:problem\+)?json\b/i.test(type) ? parseObject(text) : {};
  const isAnswer = statusCode === 200 || statusCode === otherStatus;
  if (isAnswer && wants !== undefined && Object.hasOwn(value, wants)) return { kind: 'answered', value };
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

/** Returns the detail of a refusal; for 401, how to name the right token. */
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
    return `no server listens at ${where}: ${howToStart}`;
  }
  if (code === 'EACCES' && place.kind === 'unix')
    return `no permission for ${where}: it is for the user that runs Rangeway`;
  if (code === 'ENOTFOUND' && place.kind === 'url') return `the name ${place.url.hostname} is unknown`;
  if (code.startsWith('HPE_') || code === 'EPROTO') return describeStranger(server);
  return `${where} cannot be asked: ${message.split('\n', 1)[0]}`;
}

/** The longest answer that is read, in characters. */
const MAX_LENGTH = 64 * 1024 * 1024;

/** Reads an answer to its end. Throws where it is too long, or breaks off. */
async function readText(message: Readable): Promise<string> {
  let text = '';
  message.setEncoding('utf8');
  for await (const chunk of message) {
    text += chunk;
    if (text.length > MAX_LENGTH) throw new Error('the answer is too long');
  }
  return text;
}
