/** The body of a message that Node receives, as a stream to be pulled. */

import type { Readable } from 'node:stream';
import type { BodyStream } from '../http/message.ts';
import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import type { Pacer } from './timeouts.ts';

/** A message of HTTP/1, or a stream of HTTP/2. */
export interface Message extends Readable {
  /** Whether all of it has come. Where it is not told, that is known from its end. */
  readonly complete?: boolean;
}

/** How a body is read. */
export interface MessageBodyOptions {
  /** What Content-Length says; undefined when it is not known beforehand. */
  readonly sizeBytes: number | undefined;
  /** What it is called when the body ends before it is whole. */
  readonly brokenOff: ErrorCode;
  /** Whether a message that has ended is whole; it is when this is absent. */
  readonly isWhole?: (() => boolean) | undefined;
  /** Called for each chunk that is taken from the message, with its length. */
  readonly onChunk?: ((sizeBytes: number) => void) | undefined;
  /** Called once, before the first byte is asked for. */
  readonly onStart?: (() => void) | undefined;
  /** Called once, when the body is closed before its end. */
  readonly onClose?: (() => void) | undefined;
}

interface Waiting {
  resolve(result: IteratorResult<Uint8Array, undefined>): void;
  reject(error: ProxyError): void;
}

/**
 * The message flows only while a reader waits, so that a slow reader holds the sender back. A body that breaks off, or is
 * closed while somebody reads it, makes its reader throw: it never looks whole.
 */
export class MessageBody implements BodyStream, AsyncIterator<Uint8Array, undefined>, Pacer {
  readonly #message: Message;
  readonly #options: MessageBodyOptions;
  readonly #chunks: Uint8Array[] = [];
  #state: 'unread' | 'reading' | 'ended' = 'unread';
  #isClosed = false;
  #error: ProxyError | undefined;
  #waiting: Waiting | undefined;
  #takenBytes = 0;

  constructor(message: Message, options: MessageBodyOptions) {
    this.#message = message;
    this.#options = options;
  }

  /** Whether a reader waits for bytes. */
  get isBehind(): boolean {
    return this.#waiting !== undefined;
  }

  /** Whether nobody has begun to read, or a reader has given up. */
  get isUnwanted(): boolean {
    return this.#isClosed || this.#state === 'unread';
  }

  /** Bytes that have been read. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Whether all of it was read. */
  get isEnded(): boolean {
    return this.#state === 'ended';
  }

  /** Bytes that have yet to be received: none, a number, or Infinity when it is not known. */
  get missingBytes(): number {
    if (this.#message.complete === true) return 0;
    const { sizeBytes } = this.#options;
    return sizeBytes === undefined
      ? Number.POSITIVE_INFINITY
      : sizeBytes - this.#takenBytes - this.#message.readableLength;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.#state === 'unread' && this.#error === undefined) this.#start();
    const chunk = this.#chunks.shift();
    if (chunk !== undefined) return Promise.resolve({ done: false, value: chunk });
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.#state === 'ended') return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#message.resume();
    });
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#chunks.length = 0;
    if (this.#state === 'ended') return;
    this.fail(new ProxyError(this.#options.brokenOff, { detail: 'the body was closed before its end' }));
    this.#options.onClose?.();
  }

  /** No more bytes will come, and some are missing. What has come before is read first. */
  fail(error: ProxyError): void {
    if (this.#state === 'ended') return;
    this.#error ??= error;
    this.#waiting?.reject(this.#error);
    this.#waiting = undefined;
  }

  /** Lets what is left of the message go by, so that the next one on its connection can be read. */
  discard(): void {
    this.#isClosed = true;
    this.#chunks.length = 0;
    this.#message.resume();
  }

  #start(): void {
    this.#state = 'reading';
    this.#options.onStart?.();
    // Its end was told before anything listened for it: of an empty body, as soon as it came.
    if (this.#message.readableEnded) {
      this.#end();
      return;
    }
    if (this.#message.destroyed) {
      this.#breakOff();
      return;
    }
    this.#message.on('data', (chunk: Uint8Array) => this.#take(chunk));
    this.#message.on('end', () => this.#end());
    // An aborted message emits an error only where somebody listens for it, and is closed in any case.
    this.#message.on('close', () => this.#breakOff());
    this.#message.on('error', () => this.#breakOff());
  }

  #take(chunk: Uint8Array): void {
    this.#takenBytes += chunk.length;
    this.#options.onChunk?.(chunk.length);
    if (this.#isClosed) return;
    this.#message.pause();
    if (this.#waiting === undefined) this.#chunks.push(chunk);
    else this.#waiting.resolve({ done: false, value: chunk });
    this.#waiting = undefined;
  }

  #end(): void {
    if (this.#options.isWhole?.() === false) {
      this.#breakOff();
      return;
    }
    if (this.#error === undefined) this.#state = 'ended';
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  #breakOff(): void {
    this.fail(new ProxyError(this.#options.brokenOff, { detail: 'the connection was lost' }));
  }
}
