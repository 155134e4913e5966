/** The body of a response between the connection that pushes it and the reader that pulls it. */

import type { Fields } from '../http/fields.ts';
import type { BodyStream, Taken } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';

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
