/** The body of a message that Node receives, as a pull stream with backpressure; and how much of all bodies may be kept unread. */

import type { Readable } from 'node:stream';
import { clientName } from '../guard/client.ts';
import type { BodyStream } from '../http/message.ts';
import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import type { ClientProgress } from './timeouts.ts';

/** What all connections of a process may keep of request content that is not read. In bytes. */
const mostUnreadBytes = 256 * 1024 * 1024;

/**
 * Bounds what connections keep of request content that is not read: a client gets at most as much as stays free, so that another
 * always finds some. Addresses count as in the limits per client.
 */
export class UnreadContent {
  readonly #mostBytes: number;
  readonly #heldBytes = new Map<string, number>();
  #totalBytes = 0;

  constructor(mostBytes = mostUnreadBytes) {
    this.#mostBytes = mostBytes;
  }

  /** Charges a client for what it may send, where all that it holds stays within this share of what is free. Returns whether it does. */
  take(address: string, sizeBytes: number, share: number): boolean {
    const client = clientName(address);
    const heldBytes = (this.#heldBytes.get(client) ?? 0) + sizeBytes;
    if (heldBytes > share * (this.#mostBytes - this.#totalBytes)) return false;
    this.#heldBytes.set(client, heldBytes);
    this.#totalBytes += sizeBytes;
    return true;
  }

  /** Gives back what a client was charged. */
  giveBack(address: string, sizeBytes: number): void {
    const client = clientName(address);
    const heldBytes = (this.#heldBytes.get(client) ?? 0) - sizeBytes;
    if (heldBytes > 0) this.#heldBytes.set(client, heldBytes);
    else this.#heldBytes.delete(client);
    this.#totalBytes -= sizeBytes;
  }
}

/** Of this process. */
export const unreadContent = new UnreadContent();

/** An HTTP/1 message or an HTTP/2 stream of Node. */
export interface Message extends Readable {
  /** Whether the whole message has been received. HTTP/2 streams lack it; their `end` event tells. */
  readonly complete?: boolean;
}

/** Options of a message body. */
export interface MessageBodyOptions {
  /** The value of Content-Length; undefined when the length is not known beforehand. */
  readonly sizeBytes: number | undefined;
  /** The error code of a body that ends before it is complete. */
  readonly brokenOff: ErrorCode;
  /** Returns whether an ended message is complete. When absent, every ended message is. */
  readonly isWhole?: (() => boolean) | undefined;
  /** Called with the length of each chunk that is read from the message. */
  readonly onChunk?: ((sizeBytes: number) => void) | undefined;
  /** Called once, before the first byte is read. */
  readonly onStart?: (() => void) | undefined;
  /** Called once, when the body is closed before its end. */
  readonly onClose?: (() => void) | undefined;
}

interface Waiting {
  resolve(result: IteratorResult<Uint8Array, undefined>): void;
  reject(error: ProxyError): void;
}

/**
 * The message flows only while a reader waits, so that a slow reader slows the sender. When the body breaks off, or is closed
 * during a read, the reader gets an error: the body never looks complete.
 */
export class MessageBody implements BodyStream, AsyncIterator<Uint8Array, undefined>, ClientProgress {
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

  /** Whether no reader has begun to read, or the reader has closed the body. */
  get isUnwanted(): boolean {
    return this.#isClosed || this.#state === 'unread';
  }

  /** Bytes that were read from the message. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Whether the whole message was read. */
  get isEnded(): boolean {
    return this.#state === 'ended';
  }

  /** Bytes that are still to be received; Infinity when the length is not known. */
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

  /** Makes the reader fail with this error, after the bytes that have been received before. */
  fail(error: ProxyError): void {
    if (this.#state === 'ended') return;
    this.#error ??= error;
    this.#waiting?.reject(this.#error);
    this.#waiting = undefined;
  }

  /** Reads and drops the rest of the message, so that the next message on the connection can be read. */
  discard(): void {
    this.#isClosed = true;
    this.#chunks.length = 0;
    this.#message.resume();
  }

  #start(): void {
    this.#state = 'reading';
    this.#options.onStart?.();
    // The `end` event of an empty body comes with the message, before this body listens for it.
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
    // An aborted message emits `error` only if it has a listener, and `close` in any case.
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
