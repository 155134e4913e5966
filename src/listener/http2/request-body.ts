/** The content of a request on an HTTP/2 stream, as a pull stream with flow control (RFC 9113 §5.2). */

import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { ClientProgress } from '../timeouts.ts';

/** Smaller pieces are copied together, because each piece takes memory besides its bytes. In bytes. */
const smallBytes = 4 * 1024;

/** Sizes of the buffers for small pieces: the first, and the largest. Each is four times as large as what is kept. In bytes. */
const firstSlabBytes = 64;
const mostSlabBytes = 16 * 1024;

/** The exchange of a body, as the body uses it. */
interface BodyOwner {
  /** Called once, before the first byte is read. */
  askForBody(): void;
  /** The reader has taken content, so that the client may send more. */
  noteRead(sizeBytes: number): void;
  /** Content was dropped: the client may send more on other streams. */
  noteDropped(sizeBytes: number): void;
}

interface Waiting {
  resolve(result: IteratorResult<Uint8Array, undefined>): void;
  reject(error: ProxyError): void;
}

/**
 * Keeps received content until it is read; the windows of the stream and the connection limit how much that can be. A body that
 * breaks off never looks complete: its reader gets an error.
 */
export class Http2RequestBody implements BodyStream, AsyncIterator<Uint8Array, undefined>, ClientProgress {
  readonly #owner: BodyOwner;
  readonly #chunks: Uint8Array[] = [];
  /** The last chunk where it takes further small pieces, and how much of it is used. */
  #slab: Buffer | undefined;
  #slabUsed = 0;
  #keptBytes = 0;
  #receivedBytes = 0;
  #hasStarted = false;
  #isComplete = false;
  #isClosed = false;
  #error: ProxyError | undefined;
  #waiting: Waiting | undefined;

  constructor(owner: BodyOwner) {
    this.#owner = owner;
  }

  /** Whether a reader waits for bytes. */
  get isBehind(): boolean {
    return this.#waiting !== undefined;
  }

  /** Bytes that were received and not read. */
  get keptBytes(): number {
    return this.#keptBytes;
  }

  /** Received bytes of content. */
  get takenBytes(): number {
    return this.#receivedBytes;
  }

  /** Takes content. Returns whether it was dropped, because the reader has closed the body. */
  receive(bytes: Buffer): boolean {
    this.#receivedBytes += bytes.length;
    if (this.#isClosed || this.#error !== undefined) return true;
    const waiting = this.#waiting;
    if (waiting !== undefined) {
      this.#waiting = undefined;
      this.#owner.noteRead(bytes.length);
      waiting.resolve({ done: false, value: bytes });
    } else this.#keep(bytes);
    return false;
  }

  /** The client has ended the stream. */
  complete(): void {
    this.#isComplete = true;
    if (this.#error !== undefined || this.#keptBytes > 0) return;
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (!this.#hasStarted && this.#error === undefined) {
      this.#hasStarted = true;
      this.#owner.askForBody();
    }
    const chunk = this.#shift();
    if (chunk !== undefined) {
      this.#owner.noteRead(chunk.length);
      return Promise.resolve({ done: false, value: chunk });
    }
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.#isComplete) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  close(): void {
    this.#isClosed = true;
    if (!this.#isComplete || this.#keptBytes > 0) {
      this.fail(new ProxyError('request_body_incomplete', { detail: 'the body was closed before its end' }));
    }
    const droppedBytes = this.drop();
    if (droppedBytes > 0) this.#owner.noteDropped(droppedBytes);
  }

  /** Makes the reader fail with this error, after the bytes that were received before. */
  fail(error: ProxyError): void {
    if (this.#isComplete && this.#keptBytes === 0) return;
    this.#error ??= error;
    this.#waiting?.reject(this.#error);
    this.#waiting = undefined;
  }

  /** Drops the bytes that were not read. Returns their number. */
  drop(): number {
    const droppedBytes = this.#keptBytes;
    this.#isClosed = true;
    this.#chunks.length = 0;
    this.#slab = undefined;
    this.#keptBytes = 0;
    return droppedBytes;
  }

  /** Copies content: the received bytes are a part of what was read from the socket, which would stay as a whole. */
  #keep(bytes: Buffer): void {
    if (bytes.length > smallBytes) {
      const own = Buffer.allocUnsafeSlow(bytes.length);
      bytes.copy(own);
      this.#closeSlab();
      this.#chunks.push(own);
      this.#keptBytes += bytes.length;
      return;
    }
    if (this.#slab === undefined || this.#slabUsed + bytes.length > this.#slab.length) {
      this.#closeSlab();
      const slabBytes = Math.max(firstSlabBytes, bytes.length, Math.min(4 * this.#keptBytes, mostSlabBytes));
      this.#slab = Buffer.allocUnsafeSlow(slabBytes);
      this.#chunks.push(this.#slab);
    }
    this.#keptBytes += bytes.length;
    this.#slab.set(bytes, this.#slabUsed);
    this.#slabUsed += bytes.length;
  }

  #shift(): Uint8Array | undefined {
    if (this.#chunks.length === 1) this.#closeSlab();
    const chunk = this.#chunks.shift();
    this.#keptBytes -= chunk?.length ?? 0;
    return chunk;
  }

  /** Cuts the last chunk to the bytes that were put into it, where it is a slab. */
  #closeSlab(): void {
    if (this.#slab !== undefined) this.#chunks[this.#chunks.length - 1] = this.#slab.subarray(0, this.#slabUsed);
    this.#slab = undefined;
    this.#slabUsed = 0;
  }
}
