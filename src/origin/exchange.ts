/**
 * One exchange with an origin: takes the callbacks of the connection, and gives the response and its body as promises. Reads from
 * the head how the end of the body is known (RFC 9112 §6.3), keeps the trailer fields that may be kept, and holds received bytes
 * until the reader pulls them.
 */

import { type Field, type Fields, fieldLines, trimWhitespace } from '../http/fields.ts';
import type { BodyStream, Taken } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { withoutConnectionFields } from '../semantics/message-forwarding.ts';
import type { Framing, OriginRequest, OriginResponse } from './origin.ts';
import { originError, type Stage } from './origin-error.ts';
import { TlsTruncation } from './tls-closure.ts';

/** Steers the connection that an exchange has got. */
export interface Control extends Flow {
  /** The field lines of the head that has arrived, names and values in turn. */
  readonly rawHeaders?: unknown;
  /** Those of the trailer section, once the body has ended. */
  readonly rawTrailers?: unknown;
}

/** What carries an exchange. */
interface Carrier {
  readonly isTls: boolean;
  /** As Via writes it (RFC 9110 §7.6.3). */
  readonly version: '1.1' | '2';
}

/** An origin that sends more interim responses than this for one request never means to answer it. */
const maxInterims = 32;

/**
 * The callbacks have the names and the order that undici's dispatch gives them: a start, heads (interim ones first), data,
 * and an end or an error. The promise settles with the final head; afterwards the body tells what becomes of the rest.
 */
export class OriginExchange {
  /** Resolves with the final head, or rejects with a `ProxyError`. */
  readonly response: Promise<OriginResponse>;
  readonly #request: OriginRequest;
  readonly #carrier: Carrier;
  readonly #onOver: () => void;
  readonly #settle: PromiseWithResolvers<OriginResponse>;
  readonly #onAbort = (): void => this.#abort(goneError(this.#request.signal));
  #stage: Stage = 'connecting';
  #interims = 0;
  #framing: Framing | undefined;
  #control: Control | undefined;
  #body: ReceivedBody | undefined;
  /** Why the exchange has failed. */
  #error: ProxyError | undefined;

  /** `onOver` is called when nothing of it is under way any more; perhaps more than once, and at once for an aborted request. */
  constructor(request: OriginRequest, carrier: Carrier, onOver: () => void = () => {}) {
    this.#request = request;
    this.#carrier = carrier;
    this.#onOver = onOver;
    this.#settle = Promise.withResolvers();
    this.response = this.#settle.promise;
    request.signal.addEventListener('abort', this.#onAbort, { once: true });
    if (request.signal.aborted) this.#onAbort();
  }

  /** A connection is there and the request is about to be written to it. */
  onRequestStart(control: Control): void {
    this.#control = control;
    this.#stage = 'waiting';
    if (this.#error !== undefined) control.abort(this.#error);
  }

  /** A head has arrived, interim or final. */
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
    this.#body?.end(keptTrailers(fieldsOf(control.rawTrailers)));
  }

  onResponseError(_control: Control | null, error: unknown): void {
    // Any other framing tells by itself what is missing.
    const isEnd = error instanceof TlsTruncation && this.#framing === 'close';
    const detail = 'no close_notify (RFC 9112 §9.8); origin.closeDelimited "relay" passes such responses on';
    if (isEnd) this.#fail(new ProxyError('origin_tls_truncated', { cause: error, detail }));
    else this.#fail(originError(error, this.#stage, this.#carrier.isTls));
  }

  #inform(status: number, fields: Fields): void {
    this.#interims++;
    // No upgrade was asked for, and a status below 100 has no class (RFC 9110 §15).
    if (status < 100 || status === 101) this.#abort(illFramed(`status ${status}`));
    else if (this.#interims > maxInterims) this.#abort(illFramed(`more than ${maxInterims} interim responses`));
    // A 100 says that a body may be sent, which was not asked (RFC 9110 §15.2.1).
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
      this.#body = new ReceivedBody(sizeBytes, {
        pause: () => this.#control?.pause(),
        resume: () => this.#control?.resume(),
        abort: (reason) => this.#abort(reason),
      });
      // The parser does not tell the minor version: an HTTP/1.0 origin is written down as 1.1 too.
      this.#settle.resolve({ status, fields, version, framing, sizeBytes, body: this.#body });
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

/** A reason that is already a `ProxyError` is kept: whoever gave up a fill says why. Any other abort is a client that left. */
export function goneError(signal: AbortSignal): ProxyError {
  const reason: unknown = signal.reason;
  return reason instanceof ProxyError ? reason : new ProxyError('client_gone', { cause: reason });
}

function illFramed(detail: string): ProxyError {
  return new ProxyError('origin_ill_framed', { detail });
}

/**
 * Raw names and values in turn, as bytes. Decoding as latin1 keeps each byte (RFC 9110 §5.5, obs-text); the parser leaves the
 * white space behind a value, which is no part of it (RFC 9112 §5.1).
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

/** Holds back and ends the transfer that a body comes from. */
export interface Flow {
  pause(): void;
  resume(): void;
  /** Ends the transfer, which then fails with this error. */
  abort(reason: ProxyError): void;
}

/** What may be kept unread before the connection is held back; it flows again below half of it. */
const bufferedBytes = 128 * 1024;

/** What a chunk costs beside its bytes, so that an origin that sends tiny ones cannot fill the memory with them. */
const chunkBytes = 256;

/** A rest of at most so many bytes is read and dropped, because a new connection costs more than that. */
const drainedBytes = 16 * 1024;

interface Waiting {
  resolve(result: IteratorResult<Uint8Array, undefined>): void;
  reject(error: ProxyError): void;
}

/**
 * A queue of chunks with backpressure. The connection calls `push`, then `end` or `fail`; the reader iterates once.
 * What was received before a failure is read first, then the failure is thrown. A body that its reader has closed before
 * its end throws `client_gone` to whoever goes on reading it.
 */
export class ReceivedBody implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly #flow: Flow;
  readonly #chunks: Uint8Array[] = [];
  /** What `#chunks` cost. */
  #unreadBytes = 0;
  /** Bytes that the framing still promises; NaN when it promises no number. */
  #missingBytes: number;
  #state: 'flowing' | 'paused' | 'ended' = 'flowing';
  #error: ProxyError | undefined;
  #waiting: Waiting | undefined;
  #isTaken = false;
  #isClosed = false;
  #trailers: Fields = [];
  /** Those that came behind the last byte; none before it was read. */
  readonly trailers = (): Fields => this.#trailers;

  constructor(sizeBytes: number | undefined, flow: Flow) {
    this.#missingBytes = sizeBytes ?? Number.NaN;
    this.#flow = flow;
  }

  /** Takes a chunk over from the connection. */
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

  /** The last byte was pushed; these fields came behind it. Where the framing promises more, the body is short. */
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

  /** No more bytes will be pushed, and some are missing. */
  fail(error: ProxyError): void {
    this.#state = 'ended';
    this.#error ??= error;
    this.#waiting?.reject(this.#error);
    this.#waiting = undefined;
  }

  /** Throws `internal` when it is called again: the bytes are there once. */
  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    if (this.#isTaken) throw new ProxyError('internal', { detail: 'the body of a response was read twice' });
    this.#isTaken = true;
    return this;
  }

  take(): Taken {
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

  /** Drops what is unread, and the connection with it unless only a little is missing. */
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

  /** A transfer that has ended is left alone: its connection may already carry another response. */
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
 * RFC 9112 §6.3, for a client that sends no TE: `chunked` is then the only transfer coding it can undo (§6.1). Stricter than
 * §6.3 where a response has Content-Length beside Transfer-Encoding or twice: either is a sign of response splitting.
 * A response to HEAD, a 204 and a 304 have no body, whatever their fields say of one; `sizeBytes` is undefined for them.
 *
 * In HTTP/2 END_STREAM ends a body as surely as a last chunk does, and Transfer-Encoding has no place (RFC 9113 §8.1, §8.2.2).
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

/** Bytes that cannot be counted exactly are refused rather than rounded. */
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
 * What a trailer section must not say (RFC 9110 §6.5.1), because it is needed before: for framing, for routing, for
 * authentication, to control caches and the response, or to read its content.
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
