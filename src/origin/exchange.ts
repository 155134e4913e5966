/**
 * One exchange with an origin: turns the callbacks of a connection into a promise of the response, and a body to iterate. Reads the
 * framing from the head (RFC 9112 §6.3), drops trailer fields that must not be passed on, and buffers bytes until they are read.
 */

import { type Field, type Fields, fieldLines, trimWhitespace } from '../http/fields.ts';
import type { BodyStream, NextChunk } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { isConnectionBinding } from '../semantics/connection-auth.ts';
import { withoutConnectionFields } from '../semantics/message-forwarding.ts';
import type { Framing, OriginRequest, OriginResponse } from './origin.ts';
import { originError, type Stage } from './origin-error.ts';
import { TlsTruncation } from './tls-closure.ts';

/** Controls the connection of an exchange. */
export interface Control extends Flow {
  /** The field lines of the received head: names and values in turn. */
  readonly rawHeaders?: unknown;
  /** The field lines of the trailer section, once the body has ended. */
  readonly rawTrailers?: unknown;
}

/** The kind of connection that carries an exchange. */
interface Carrier {
  readonly isTls: boolean;
  /** As Via writes it (RFC 9110 §7.6.3). */
  readonly version: '1.1' | '2';
}

/** The maximum number of interim responses to one request: an origin that sends more does not intend to answer. */
const maxInterims = 32;

/**
 * One exchange. The callbacks have the names and the order of undici's dispatch: a start, heads (interim ones first), data, and an
 * end or an error. The promise settles with the final head. Later failures are thrown by the body.
 */
export class OriginExchange {
  /** Resolves with the final head, or rejects with a `ProxyError`. */
  readonly response: Promise<OriginResponse>;
  readonly #request: OriginRequest;
  readonly #carrier: Carrier;
  readonly #onOver: () => void;
  readonly #settle: PromiseWithResolvers<OriginResponse>;
  readonly #onAbort = (): void => this.#abort(abortError(this.#request.signal));
  #stage: Stage = 'connecting';
  #interims = 0;
  #framing: Framing | undefined;
  #control: Control | undefined;
  #body: ReceivedBody | undefined;
  /** Why the exchange has failed. */
  #error: ProxyError | undefined;
  /** Set by the connection that carries the exchange. */
  connection: { retire(): void; readonly mended?: readonly string[] | undefined } | undefined;
  /** Whether the origin authenticates the connection, so that no other client may use it. */
  #isBinding = false;

  /** `onOver` is called when the exchange is over; perhaps more than once, and within the constructor for an aborted request. */
  constructor(request: OriginRequest, carrier: Carrier, onOver: () => void = () => {}) {
    this.#request = request;
    this.#carrier = carrier;
    this.#onOver = onOver;
    this.#settle = Promise.withResolvers();
    this.response = this.#settle.promise;
    request.signal.addEventListener('abort', this.#onAbort, { once: true });
    if (request.signal.aborted) this.#onAbort();
  }

  /** Called when there is a connection, before the request is written to it. */
  onRequestStart(control: Control): void {
    this.#control = control;
    this.#stage = 'waiting';
    if (this.#error !== undefined) control.abort(this.#error);
  }

  /** Called with each head, interim or final. */
  onResponseStart(control: Control, status: number): void {
    const fields = fieldsOf(control.rawHeaders);
    if (status >= 200) this.#start(status, fields);
    else this.#inform(status, fields);
  }

  onResponseData(_control: Control, chunk: Uint8Array): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(control: Control): void {
    this.#leave();
    if (this.#isBinding) this.connection?.retire();
    this.#body?.end(keptTrailers(fieldsOf(control.rawTrailers)));
  }

  onResponseError(_control: Control | null, error: unknown): void {
    // With any other framing, the framing shows whether bytes are missing.
    const isEnd = error instanceof TlsTruncation && this.#framing === 'close';
    const detail = 'no close_notify (RFC 9112 §9.8); origin.closeDelimited "relay" passes such responses on';
    if (isEnd) this.#fail(new ProxyError('origin_tls_truncated', { cause: error, detail }));
    else this.#fail(originError(error, this.#stage, this.#carrier.isTls));
  }

  #inform(status: number, fields: Fields): void {
    this.#interims++;
    // No upgrade was requested, and a status below 100 has no class (RFC 9110 §15).
    if (status < 100 || status === 101) this.#abort(illFramed(`status ${status}`));
    else if (this.#interims > maxInterims) this.#abort(illFramed(`more than ${maxInterims} interim responses`));
    // A 100 is dropped: it answers Expect (RFC 9110 §15.2.1), which was not sent.
    else if (status > 100) this.#request.onInterim?.({ status, fields });
  }

  #start(status: number, fields: Fields): void {
    const { version } = this.#carrier;
    const reading = readFraming(this.#request.method, status, fields, version);
    if (status > 599) this.#abort(illFramed(`status ${status}`));
    else if (reading.kind === 'ill_framed') this.#abort(illFramed(reading.reason));
    else {
      const { framing, sizeBytes } = reading;
      this.#stage = 'reading';
      this.#framing = framing;
      this.#isBinding = this.#request.owner === undefined && isConnectionBinding(fields);
      this.#body = new ReceivedBody(sizeBytes, {
        pause: () => this.#control?.pause(),
        resume: () => this.#control?.resume(),
        abort: (reason) => this.#abort(reason),
      });
      // The parser does not report the minor version, so HTTP/1.0 is noted as 1.1.
      const { mended } = this.connection ?? {};
      this.#settle.resolve({ status, fields, version, framing, sizeBytes, mended, body: this.#body });
    }
  }

  /** Fails the exchange at once, and gives up its connection or, without one yet, its place in the queue. */
  #abort(reason: ProxyError): void {
    this.#fail(reason);
    this.#control?.abort(reason);
  }

  #fail(error: ProxyError): void {
    if (this.#error !== undefined) return;
    this.#error = error;
    this.#leave();
    this.#body?.fail(error);
    this.#settle.reject(error);
  }

  #leave(): void {
    this.#request.signal.removeEventListener('abort', this.#onAbort);
    this.#request.body?.close();
    this.#onOver();
  }
}

/** Returns the reason of an abort where it is a `ProxyError`, as of a fill that was given up; any other abort is `client_gone`. */
export function abortError(signal: AbortSignal): ProxyError {
  const reason: unknown = signal.reason;
  return reason instanceof ProxyError ? reason : new ProxyError('client_gone', { cause: reason });
}

function illFramed(detail: string): ProxyError {
  return new ProxyError('origin_ill_framed', { detail });
}

/**
 * Decodes raw names and values in turn. Decoding as latin1 keeps each byte (RFC 9110 §5.5, obs-text). The parser leaves white space
 * after a value, which is not part of it (RFC 9112 §5.1).
 */
function fieldsOf(rawHeaders: unknown): Fields {
  const fields: Field[] = [];
  if (!Array.isArray(rawHeaders)) return fields;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    fields.push([latin1(rawHeaders[at]).toLowerCase(), trimWhitespace(latin1(rawHeaders[at + 1]))]);
  }
  return fields;
}

function latin1(bytes: unknown): string {
  return Buffer.isBuffer(bytes) ? bytes.toString('latin1') : String(bytes);
}

/** Pauses, resumes and ends the transfer of a body. */
export interface Flow {
  pause(): void;
  resume(): void;
  /** Ends the transfer, which fails with this error. */
  abort(reason: ProxyError): void;
}

/** The unread bytes of a body at which its connection is paused; at half of them it resumes. */
const bufferedBytes = 128 * 1024;

/** The bytes that a chunk counts for beside its content, so that an origin cannot fill the memory with tiny chunks. */
const chunkBytes = 256;

/** A rest of at most so many bytes is received and dropped, because a new connection costs more. */
const drainedBytes = 16 * 1024;

interface Waiting {
  resolve(result: IteratorResult<Uint8Array, undefined>): void;
  reject(error: ProxyError): void;
}

/**
 * A queue of chunks with backpressure. The connection calls `push`, then `end` or `fail`; the reader iterates once. Bytes received
 * before a failure are read first, then the failure is thrown. Reading on after `close` before the end throws `client_gone`.
 */
export class ReceivedBody implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly #flow: Flow;
  readonly #chunks: Uint8Array[] = [];
  /** The bytes of `#chunks`, and `chunkBytes` for each. */
  #unreadBytes = 0;
  /** Bytes that the framing still promises; NaN where it states no number. */
  #missingBytes: number;
  #state: 'flowing' | 'paused' | 'ended' = 'flowing';
  #error: ProxyError | undefined;
  #waiting: Waiting | undefined;
  #isTaken = false;
  #isClosed = false;
  #trailers: Fields = [];
  /** Returns the trailer fields; empty until `end` has been called. */
  readonly trailers = (): Fields => this.#trailers;

  constructor(sizeBytes: number | undefined, flow: Flow) {
    this.#missingBytes = sizeBytes ?? Number.NaN;
    this.#flow = flow;
  }

  /** Takes over a chunk from the connection. */
  push(chunk: Uint8Array): void {
    this.#missingBytes -= chunk.length;
    if (this.#isClosed) return;
    if (this.#waiting !== undefined) {
      this.#waiting.resolve({ done: false, value: chunk });
      this.#waiting = undefined;
      return;
    }
    this.#chunks.push(chunk);
    this.#unreadBytes += chunk.length + chunkBytes;
    if (this.#state === 'flowing' && this.#unreadBytes >= bufferedBytes) {
      this.#state = 'paused';
      this.#flow.pause();
    }
  }

  /** Called after the last chunk, with the trailer fields. Where the framing promises more, the body fails (`origin_body_short`). */
  end(trailers: Fields = []): void {
    if (this.#missingBytes > 0) {
      this.fail(new ProxyError('origin_body_short'));
      return;
    }
    this.#state = 'ended';
    this.#trailers = trailers;
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  /** Called when no more bytes will be pushed, and some are missing. */
  fail(error: ProxyError): void {
    this.#state = 'ended';
    this.#error ??= error;
    this.#waiting?.reject(this.#error);
    this.#waiting = undefined;
  }

  /** Throws `internal` when it is called again: the bytes can be read once. */
  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    if (this.#isTaken) throw new ProxyError('internal', { detail: 'the body of a response was read twice' });
    this.#isTaken = true;
    return this;
  }

  take(): NextChunk {
    const chunk = this.#chunks.shift();
    if (chunk !== undefined) {
      this.#unreadBytes -= chunk.length + chunkBytes;
      this.#letFlow();
      return chunk;
    }
    return this.#error === undefined && this.#state === 'ended' ? 'end' : 'later';
  }

  /** One call at a time, as `for await` makes them. */
  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const taken = this.take();
    if (taken === 'end') return Promise.resolve({ done: true, value: undefined });
    if (taken !== 'later') return Promise.resolve({ done: false, value: taken });
    if (this.#error !== undefined) return Promise.reject(this.#error);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Drops the unread bytes, and the connection too unless only a few bytes are missing (`drainedBytes`). */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#chunks.length = 0;
    this.#unreadBytes = 0;
    if (this.#state === 'ended') return;
    const gone = new ProxyError('client_gone', { detail: 'the body was closed before its end' });
    this.#error = gone;
    this.#waiting?.reject(gone);
    this.#waiting = undefined;
    if (this.#missingBytes <= drainedBytes) this.#letFlow();
    else this.#flow.abort(gone);
  }

  /** Leaves a transfer alone that has ended: its connection may already carry another response. */
  #letFlow(): void {
    if (this.#state !== 'paused' || this.#unreadBytes > bufferedBytes / 2) return;
    this.#state = 'flowing';
    this.#flow.resume();
  }
}

/** A response's framing, or why it is ambiguous. */
type FramingReading =
  | { readonly kind: 'framed'; readonly framing: Framing; readonly sizeBytes: number | undefined }
  | { readonly kind: 'ill_framed'; readonly reason: string };

/**
 * Returns the framing of a response by RFC 9112 §6.3, for a client that sends no TE: `chunked` is then the only transfer coding that
 * it can undo (§6.1). Stricter than §6.3 about Content-Length beside Transfer-Encoding, or twice: either is a sign of response
 * splitting. A response to HEAD, a 204 and a 304 have no body, whatever their fields state; `sizeBytes` is undefined for them.
 *
 * In HTTP/2 END_STREAM ends a body as reliably as a last chunk, and Transfer-Encoding is not allowed (RFC 9113 §8.1, §8.2.2).
 */
export function readFraming(method: string, status: number, fields: Fields, version: '1.1' | '2'): FramingReading {
  const codings = fieldLines(fields, 'transfer-encoding');
  const lengths = fieldLines(fields, 'content-length');
  if (codings.length > 0 && lengths.length > 0) return illFramedReading('Content-Length beside Transfer-Encoding');
  if (codings.length > (version === '2' ? 0 : 1) || (codings[0] ?? 'chunked').toLowerCase() !== 'chunked') {
    return illFramedReading(`Transfer-Encoding: ${codings.join(', ')}`);
  }
  const sizeBytes = parseLength(lengths);
  if (lengths.length > 0 && sizeBytes === undefined) return illFramedReading(`Content-Length: ${lengths.join(', ')}`);

  if (method === 'HEAD' || status === 204 || status === 304) return framed('none', undefined);
  if (codings.length > 0) return framed('chunked', undefined);
  if (sizeBytes !== undefined) return framed('length', sizeBytes);
  return framed(version === '2' ? 'chunked' : 'close', undefined);
}

/** A length that cannot be counted exactly is refused, not rounded. */
function parseLength(lines: readonly string[]): number | undefined {
  const [line] = lines;
  if (lines.length !== 1 || line === undefined || !/^\d+$/.test(line)) return undefined;
  const sizeBytes = Number(line);
  return Number.isSafeInteger(sizeBytes) ? sizeBytes : undefined;
}

function framed(framing: Framing, sizeBytes: number | undefined): FramingReading {
  return { kind: 'framed', framing, sizeBytes };
}

function illFramedReading(reason: string): FramingReading {
  return { kind: 'ill_framed', reason };
}

/**
 * Fields that a trailer section must not have (RFC 9110 §6.5.1), because they are needed before the content: for framing, routing
 * and authentication, to control caches and the response, or to read the content.
 */
const headOnly: ReadonlySet<string> = new Set([
  'age',
  'authorization',
  'cache-control',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'date',
  'expires',
  'host',
  'location',
  'proxy-authenticate',
  'retry-after',
  'set-cookie',
  'vary',
  'warning',
  'www-authenticate',
]);

/** The fields of a trailer section that may be passed on. */
function keptTrailers(fields: Fields): Fields {
  if (fields.length === 0) return fields;
  return withoutConnectionFields(fields).filter(([name]) => !headOnly.has(name) && !name.startsWith(':'));
}
