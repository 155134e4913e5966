/** From the parsed head of a request to the head that a handler is given, or a refusal. */

import { METHODS } from 'node:http';
import { type Field, type Fields, fieldLines, fieldValue } from '../http/fields.ts';
import type { Peer } from '../http/message.ts';
import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import { allowedMethods } from '../semantics/method.ts';
import type { ParsedHead } from './http1/request-head.ts';
import type { ListenerLimits, RequestHead } from './listener.ts';
import { type RequestFraming, readRequestFraming } from './request-framing.ts';
import { isAuthority, readTarget } from './target.ts';

/** A request whose head was received, or why it goes no further. */
export type Reception =
  | { readonly kind: 'received'; readonly head: RequestHead; readonly framing: RequestFraming }
  | { readonly kind: 'refused'; readonly error: ProxyError };

/** What is known of a request besides the message. */
export interface ReceptionContext {
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  readonly limits: Pick<ListenerLimits, 'targetBytes' | 'fieldsBytes' | 'maxFieldCount'>;
}

/**
 * Known methods that no resource here may be asked with: they would have us tell what we were sent, credentials included
 * (RFC 9110 §9.3.8), and connect to wherever the client wants (§9.3.6).
 */
const forbiddenMethods: ReadonlySet<string> = new Set(['CONNECT', 'TRACE']);

/** Methods that are known and that a request may have here. */
export const servedMethods: ReadonlySet<string> = new Set(METHODS.filter((name) => !forbiddenMethods.has(name)));

/** Per field line: the colon, the space after it, CR and LF. */
const lineOverheadBytes = 4;

/**
 * Reads the head of a request and refuses what RFC 9112 §3 and §6 call invalid, or what is over a limit. The authority is
 * that of an absolute-form target, which also replaces the one in Host (§3.2.2), or else Host's.
 */
export function receiveHead(parsed: ParsedHead, context: ReceptionContext): Reception {
  const { limits, scheme } = context;
  const { method, target: text, version, fields: received } = parsed;
  if (!servedMethods.has(method)) return { kind: 'refused', error: methodError(method) };

  if (text.length > limits.targetBytes) return refused('target_too_long', `${text.length} bytes`);
  if (received.length > limits.maxFieldCount) return refused('fields_too_large', `${received.length} field lines`);
  const sizeBytes = fieldsSize(received);
  if (sizeBytes > limits.fieldsBytes) return refused('fields_too_large', `${sizeBytes} bytes`);

  const reading = readTarget(method, text, scheme);
  if (reading.kind === 'refused') return refused('malformed_request', reading.reason);
  const hosts = fieldLines(received, 'host');
  const fault = hostFault(version, hosts);
  if (fault !== undefined) return refused('malformed_request', fault);
  const framing = readRequestFraming(version, received);
  if (framing.kind === 'refused') return refused('malformed_request', framing.reason);
  if (!isExpectationMet(version, received)) return refused('expectation_failed', fieldValue(received, 'expect') ?? '');

  const authority = reading.authority ?? hosts[0] ?? '';
  const fields = reading.authority === undefined ? received : withHost(received, authority);
  const { peer, receivedAt } = context;
  const head: RequestHead = { method, scheme, authority, target: reading.target, version, fields, peer, receivedAt };
  return { kind: 'received', head, framing };
}

/** Why a method is not served: 405 for one that is known but allowed nowhere (RFC 9110 §15.5.6), else 501 (§15.6.2). */
export function methodError(method: string): ProxyError {
  return forbiddenMethods.has(method)
    ? new ProxyError('method_not_allowed', { detail: method, fields: [['allow', allowedMethods]] })
    : new ProxyError('method_refused', { detail: method });
}

/** Node's alternating names and values as field lines. Its parser has taken the white space around the values off. */
export function parseFields(rawHeaders: readonly string[]): Fields {
  const fields: Field[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    fields.push([(rawHeaders[at] as string).toLowerCase(), rawHeaders[at + 1] as string]);
  }
  return fields;
}

/** The size of a header section as limits count it, in bytes. */
export function fieldsSize(fields: Fields): number {
  let sizeBytes = 0;
  for (const [name, value] of fields) sizeBytes += name.length + value.length + lineOverheadBytes;
  return sizeBytes;
}

/** RFC 9112 §3.2: exactly one valid Host, which only a client of HTTP/1.0 may leave out. */
function hostFault(version: string, hosts: readonly string[]): string | undefined {
  const [host] = hosts;
  if (host === undefined) return version === '1.0' ? undefined : 'no Host';
  if (hosts.length > 1) return 'more than one Host';
  return isAuthority(host) ? undefined : 'the value of Host is invalid';
}

/**
 * RFC 9110 §10.1.1: there is one expectation, and HTTP/1.0 has none. What is nearly that one is refused too, for it is what
 * recipients disagree about: whether a body follows at once.
 */
export function isExpectationMet(version: string, fields: Fields): boolean {
  const expectation = version === '1.0' ? undefined : fieldValue(fields, 'expect');
  return expectation === undefined || expectation.toLowerCase() === '100-continue';
}

function withHost(fields: Fields, authority: string): Fields {
  return [['host', authority], ...fields.filter(([name]) => name !== 'host')];
}

/** A request that goes no further. */
export function refused(code: ErrorCode, detail: string): Reception {
  return { kind: 'refused', error: new ProxyError(code, { detail }) };
}
