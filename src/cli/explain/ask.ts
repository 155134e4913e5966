/** Asks a running Rangeway for an explanation, and tells an explanation from every other answer. */

import { type ClientRequestArgs, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Explanation } from '../../delivery/deliver-explanation.ts';
import { readText } from '../message-text.ts';

/** A request to be explained. */
export interface Question {
  /** Of the running Rangeway. */
  readonly url: URL;
  readonly method: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** Whether any certificate is taken. */
  readonly insecure: boolean;
}

/** What came of asking. */
export type Reply =
  | { readonly kind: 'explained'; readonly explanation: Explanation; readonly text: string }
  /** The request is one that Rangeway would not answer. */
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string }
  | { readonly kind: 'failed'; readonly detail: string };

const TIMEOUT_MS = 30_000;

/** The form that is known here. */
const KNOWN_VERSION: Explanation['version'] = 1;

/** Asks. Never rejects. */
export async function askForExplanation(question: Question): Promise<Reply> {
  try {
    const message = await send(question);
    const reply = await readReply(message);
    message.destroy();
    return reply ?? failed(describeStranger(question.url));
  } catch (thrown) {
    return failed(describeFailure(thrown, question));
  }
}

function send({ url, method, fields, insecure }: Question): Promise<IncomingMessage> {
  const isEncrypted = url.protocol === 'https:';
  const asking = method === 'GET' ? '?1' : `?1;method=${method}`;
  // Connection keeps the question from being passed on to somebody else.
  const ours = [['Connection', 'close, Rangeway-Explain'] as const, ['Rangeway-Explain', asking] as const];
  const headers = valuesByName([...fields, ...ours]);
  const options: ClientRequestArgs = { headers, agent: false, signal: AbortSignal.timeout(TIMEOUT_MS) };
  return new Promise((resolve, reject) => {
    const sent = isEncrypted
      ? httpsRequest(url, { ...options, rejectUnauthorized: !insecure }, resolve)
      : httpRequest(url, options, resolve);
    sent.once('error', reject);
    sent.end();
  });
}

/** As Node wants them: a list only for a field of several lines, which Host must not be. */
function valuesByName(fields: Question['fields']): Record<string, string | string[]> {
  const lines = Map.groupBy(fields, ([name]) => name.toLowerCase());
  return Object.fromEntries(
    [...lines].map(([name, [first, ...more]]) => {
      const [, value = ''] = first ?? [];
      return [name, more.length === 0 ? value : [value, ...more.map(([, other]) => other)]];
    }),
  );
}

/** Undefined for an answer that is none to this question. */
async function readReply(message: IncomingMessage): Promise<Reply | undefined> {
  const { statusCode = 0, headers } = message;
  if (headers['rangeway-explain'] === '?1') {
    const text = await readText(message);
    const explanation = JSON.parse(text) as Explanation;
    if (explanation.version === KNOWN_VERSION) return { kind: 'explained', explanation, text };
    return failed(`the answer is of form ${explanation.version}, and this rangeway knows form ${KNOWN_VERSION} only`);
  }
  const isOurs = String(headers['proxy-status'] ?? '').startsWith('rangeway; error=');
  // Other errors are the origin's: who has met them was not explained, but answered.
  if (!isOurs || !(statusCode < 500 || statusCode === 501 || statusCode === 508)) return undefined;
  const { detail } = JSON.parse(await readText(message)) as { detail: string };
  return { kind: 'refused', status: statusCode, detail };
}

function failed(detail: string): Reply {
  return { kind: 'failed', detail };
}

function describeStranger({ origin }: URL): string {
  return `no explanation came from ${origin}: no Rangeway answers there, or it explains nothing to this address (see explain.peers)`;
}

function describeFailure(thrown: unknown, { url }: Question): string {
  const { code = '', message = '', name }: Partial<NodeJS.ErrnoException> = thrown instanceof Error ? thrown : {};
  if (name === 'TimeoutError' || name === 'AbortError') return `no answer from ${url.origin} in ${TIMEOUT_MS / 1000} s`;
  if (code === 'ECONNREFUSED') return `nothing listens at ${url.origin}: the connection was refused`;
  if (code === 'ENOTFOUND') return `the name ${url.hostname} is unknown`;
  const isCertificate = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code);
  const advice = isCertificate ? '; --insecure takes any certificate' : '';
  return `${url.origin} cannot be asked: ${message.split('\n', 1)[0]}${advice}`;
}
