/**
 * Turns a parsed request head into a request for a handler, or a refusal. Checks target and authority (RFC 9112 §3.2), Host,
 * Expect, and the framing of the body (RFC 9112 §6). Input that two recipients could read differently is refused.
 */

import { METHODS } from 'node:http';
import { isIPv6 } from 'node:net';
import type { ClientConnection } from '../http/client-connection.ts';
import { type Field, type Fields, fieldLines, fieldValue } from '../http/fields.ts';
import type { BodyStream, InterimResponse, Peer, ProxyRequest } from '../http/message.ts';
import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import { allowedMethods } from '../semantics/method.ts';
import type { ListenerLimits, RequestHead } from './listener.ts';
import type { ParsedHead } from './request-head.ts';

/** A valid request head with its framing, or the error that refuses it. */
export type Reception =
  | { readonly kind: 'received'; readonly head: RequestHead; readonly framing: RequestFraming }
  | { readonly kind: 'refused'; readonly error: ProxyError };

/** Facts about a request that are not in its message. */
export interface ReceptionContext {
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  readonly limits: Pick<ListenerLimits, 'targetBytes' | 'fieldsBytes' | 'maxFieldCount' | 'methods'>;
}

/**
 * Known methods that are never served. TRACE would echo the request, credentials included (RFC 9110 §9.3.8). CONNECT would open
 * a connection to any host that the client names (§9.3.6).
 */
const forbiddenMethods: ReadonlySet<string> = new Set(['CONNECT', 'TRACE']);

/** The known methods that are served. */
export const servedMethods: ReadonlySet<string> = new Set(METHODS.filter((name) => !forbiddenMethods.has(name)));

/** Per field line: the colon, the space after it, CR and LF. */
const lineOverheadBytes = 4;

/**
 * Validates the head of a request. Refuses what RFC 9112 §3 and §6 call invalid, and what exceeds a limit. The authority is that
 * of an absolute-form target, which also replaces Host (§3.2.2); otherwise it is the value of Host.
 */
export function receiveHead(parsed: ParsedHead, context: ReceptionContext): Reception {
  const { limits, scheme } = context;
  const { method, target: text, version, fields: received } = parsed;
  if (!isServed(method, context)) return { kind: 'refused', error: methodError(method) };

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

/** Checks whether a method is passed on: a registered one, or one that the operator names. */
export function isServed(method: string, { limits }: Pick<ReceptionContext, 'limits'>): boolean {
  return servedMethods.has(method) || limits.methods?.has(method) === true;
}

/** Returns the error for a method that is not served: 405 for CONNECT and TRACE (RFC 9110 §15.5.6), otherwise 501 (§15.6.2). */
export function methodError(method: string): ProxyError {
  return forbiddenMethods.has(method)
    ? new ProxyError('method_not_allowed', { detail: method, fields: [['allow', allowedMethods]] })
    : new ProxyError('method_refused', { detail: method });
}

/** Converts Node's alternating names and values into field lines. Node's parser has already trimmed the values. */
export function parseFields(rawHeaders: readonly string[]): Fields {
  const fields: Field[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    fields.push([(rawHeaders[at] as string).toLowerCase(), rawHeaders[at + 1] as string]);
  }
  return fields;
}

/** Returns the size of a header section in bytes, counted as in `ListenerLimits`. */
export function fieldsSize(fields: Fields): number {
  let sizeBytes = 0;
  for (const [name, value] of fields) sizeBytes += name.length + value.length + lineOverheadBytes;
  return sizeBytes;
}

/** RFC 9112 §3.2: exactly one valid Host; only an HTTP/1.0 client may omit it. */
function hostFault(version: string, hosts: readonly string[]): string | undefined {
  const [host] = hosts;
  if (host === undefined) return version === '1.0' ? undefined : 'no Host';
  if (hosts.length > 1) return 'more than one Host';
  return isAuthority(host) ? undefined : 'the value of Host is invalid';
}

/**
 * Checks Expect (RFC 9110 §10.1.1): `100-continue` is the only expectation, and HTTP/1.0 has none. Variants of `100-continue`
 * are refused too, because recipients could disagree on whether the body follows at once.
 */
export function isExpectationMet(version: string, fields: Fields): boolean {
  const expectation = version === '1.0' ? undefined : fieldValue(fields, 'expect');
  return expectation === undefined || expectation.toLowerCase() === '100-continue';
}

function withHost(fields: Fields, authority: string): Fields {
  return [['host', authority], ...fields.filter(([name]) => name !== 'host')];
}

/** Makes the result for a refused request. */
export function refused(code: ErrorCode, detail: string): Reception {
  return { kind: 'refused', error: new ProxyError(code, { detail }) };
}

/** A target in origin-form or `*`, with the authority of an absolute-form target; or the reason for a refusal. */
type TargetReading =
  | { readonly kind: 'target'; readonly target: string; readonly authority: string | undefined }
  | { readonly kind: 'refused'; readonly reason: string };

/** Path and query (RFC 3986 §3.3, §3.4), but with any visible character except `#`: some clients encode too few. */
const originForm = /^\/[\x21\x22\x24-\x7e]*$/;
const visible = /^[\x21-\x7e]+$/;
const absoluteForm = /^(?<scheme>[a-z][a-z0-9+.-]*):\/\/(?<authority>[^/?]*)(?<rest>.*)$/i;
/** The common case: a name without percent-encoding and without a port. */
const plainName = /^[\w.-]+$/;
/** A host and an optional port of at most 65535. */
const hostAndPort =
  /^(?:\[(?:[0-9a-f:.]+|v[0-9a-f]+\.[\w.~!$&'()*+,;=:-]+)\]|(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})+)(?::(?:[0-9]{0,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$/i;

/**
 * Parses a request target: origin-form, absolute-form with the given scheme, or asterisk-form for OPTIONS. Another scheme is
 * refused, because a connection serves only the resources of its own scheme (RFC 9110 §7.4). An absent path in the absolute-form
 * becomes `/`, or `*` for OPTIONS (RFC 9112 §3.2.4).
 */
export function readTarget(method: string, text: string, scheme: 'http' | 'https'): TargetReading {
  if (originForm.test(text)) return { kind: 'target', target: text, authority: undefined };
  if (!visible.test(text)) return refusedTarget('the target has characters that a URI cannot have');
  if (text.includes('#')) return refusedTarget('the target has a fragment');
  if (text === '*') {
    return method === 'OPTIONS'
      ? { kind: 'target', target: '*', authority: undefined }
      : refusedTarget('* is for OPTIONS only');
  }
  const parts = absoluteForm.exec(text)?.groups;
  if (parts === undefined) return refusedTarget('the target is neither a path nor a URI');
  const { scheme: givenScheme = '', authority = '', rest = '' } = parts;
  if (givenScheme.toLowerCase() !== scheme) return refusedTarget(`the scheme of the target is not ${scheme}`);
  if (!isAuthority(authority)) return refusedTarget('the target has no valid authority');
  if (rest.startsWith('/')) return { kind: 'target', target: rest, authority };
  return { kind: 'target', target: rest === '' && method === 'OPTIONS' ? '*' : `/${rest}`, authority };
}

/**
 * Checks that a text is a host with an optional port (RFC 9110 §7.2, RFC 3986 §3.2.2). Refuses an empty host, which an http URI
 * cannot have (RFC 9110 §4.2.1), and user information, which is treated as an attack (§4.2.4).
 */
export function isAuthority(text: string): boolean {
  if (plainName.test(text)) return true;
  if (!hostAndPort.test(text)) return false;
  // `hostAndPort` has checked IPvFuture completely; IPv6 needs `isIPv6`.
  return !text.startsWith('[') || /^\[v/i.test(text) || isIPv6(text.slice(1, text.indexOf(']')));
}

function refusedTarget(reason: string): TargetReading {
  return { kind: 'refused', reason };
}

/** The framing of a request body, or the reason for a refusal. */
export type RequestFraming =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly sizeBytes: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'refused'; readonly reason: string };

const codingName = 'transfer-encoding';
const lengthName = 'content-length';

/** Some old gateways treat `_` and other punctuation in a field name as `-`. */
const framingLike = /^(?:transfer[^a-z0-9-]encoding|content[^a-z0-9-]length)$/;

const unframed: RequestFraming = { kind: 'none' };

/**
 * Reads the framing of a request body (RFC 9112 §6.1, §6.3). Refuses what two recipients could read differently: Content-Length
 * together with Transfer-Encoding or repeated, a length that is not a plain number, any coding but `chunked`, Transfer-Encoding
 * in HTTP/1.0, and field names that some recipients treat as one of these two.
 */
export function readRequestFraming(version: string, fields: Fields): RequestFraming {
  const codings: string[] = [];
  const lengths: string[] = [];
  for (const [name, value] of fields) {
    // Comparing lengths first skips almost all fields.
    if (name.length !== codingName.length && name.length !== lengthName.length) continue;
    if (name === codingName) codings.push(value);
    else if (name === lengthName) lengths.push(value);
    else if (framingLike.test(name)) return refusedFraming(`${name} looks like a framing field`);
  }
  if (codings.length > 0) return readCodings(version, codings, lengths);
  return lengths.length > 0 ? readLengths(lengths) : unframed;
}

function readCodings(version: string, codings: readonly string[], lengths: readonly string[]): RequestFraming {
  if (lengths.length > 0) return refusedFraming('Content-Length beside Transfer-Encoding');
  if (version === '1.0') return refusedFraming('Transfer-Encoding in HTTP/1.0');
  const isChunked = codings.length === 1 && codings[0]?.toLowerCase() === 'chunked';
  return isChunked ? { kind: 'chunked' } : refusedFraming('Transfer-Encoding is not chunked');
}

function readLengths([length = '', another]: readonly string[]): RequestFraming {
  if (another !== undefined) return refusedFraming('more than one Content-Length');
  const sizeBytes = Number(length);
  const isNumber = /^[0-9]+$/.test(length) && Number.isSafeInteger(sizeBytes);
  return isNumber ? { kind: 'length', sizeBytes } : refusedFraming('Content-Length is not a number of bytes');
}

function refusedFraming(reason: string): RequestFraming {
  return { kind: 'refused', reason };
}

/** The exchange of a request, as the request uses it. */
export interface RequestOwner {
  /** Created on first use: most requests are answered without it. */
  readonly signal: AbortSignal;
  /** As `ProxyRequest.connection`. */
  readonly connection?: ClientConnection | undefined;
  sendInterim(interim: InterimResponse): void;
}

/** A received request. A class, because a getter in an object literal would give every request its own V8 hidden class. */
export class ReceivedRequest implements ProxyRequest {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly authority: string;
  readonly target: string;
  readonly version: string;
  readonly fields: Fields;
  readonly body: BodyStream | undefined;
  readonly bodySizeBytes: number | undefined;
  readonly peer: Peer;
  readonly receivedAt: number;
  readonly takesMovable: boolean;
  readonly #owner: RequestOwner;

  constructor(
    head: RequestHead,
    body: BodyStream | undefined,
    bodySizeBytes: number | undefined,
    owner: RequestOwner,
    takesMovable = false,
  ) {
    this.method = head.method;
    this.scheme = head.scheme;
    this.authority = head.authority;
    this.target = head.target;
    this.version = head.version;
    this.fields = head.fields;
    this.body = body;
    this.bodySizeBytes = bodySizeBytes;
    this.peer = head.peer;
    this.receivedAt = head.receivedAt;
    this.takesMovable = takesMovable;
    this.#owner = owner;
  }

  get signal(): AbortSignal {
    return this.#owner.signal;
  }

  get connection(): ClientConnection | undefined {
    return this.#owner.connection;
  }

  sendInterim(interim: InterimResponse): void {
    this.#owner.sendInterim(interim);
  }
}
