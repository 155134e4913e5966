/** The body of a request: from the bytes of its connection to a stream that is pulled. */

import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Pacer } from '../pace.ts';
import { ChunkedDecoder } from './chunked-decoder.ts';
import type { HeadLimits } from './request-head.ts';

/** So much is kept for a slow reader before its client is held back, in bytes; what one read of a socket gives comes on top. */
const keptBytes = 64 * 1024;

/** More pieces than this, out of one read of a socket, are joined: a client can make them as small as one byte. */
const separatePieces = 16;

/** What a body needs of its exchange. */
export interface BodyOwner {
  /** The first byte is asked for. */
  askForBody(): void;
  /** Nothing more is to be received for now. */
  holdBack(): void;
  /** More is wanted. */
  goOn(): void;
}

/** What a body is received with. */
export interface RequestBodyOptions {
  readonly owner: BodyOwner;
  /** What Content-Length says, at least 1; undefined where the body is chunked. */
  readonly sizeBytes: number | undefined;
  readonly limits: HeadLimits;
}

interface Waiting {
  resolve(result: IteratorResult<Uint8Array, undefined>): void;
  reject(error: ProxyError): void;
}

/**
 * A slow reader holds the client back. A body that breaks off, or is closed while somebody reads it, makes its reader throw:
 * it never looks whole.
 */
export class RequestBody implements BodyStream, AsyncIterator<Uint8Array, undefined>, Pacer {
  readonly #owner: BodyOwner;
  readonly #decoder: ChunkedDecoder | undefined;
  /** Bytes of content that have yet to come; Infinity where that is not known. */
  #missingBytes: number;
  #receivedBytes = 0;
  readonly #kept: Uint8Array[] = [];
  #keptBytes = 0;
  #hasStarted = false;
  #isClosed = false;
  #isDiscarded = false;
  #error: ProxyError | undefined;
  #waiting: Waiting | undefined;

  constructor({ owner, sizeBytes, limits }: RequestBodyOptions) {
    this.#owner = owner;
    this.#decoder = sizeBytes === undefined ? new ChunkedDecoder(limits) : undefined;
    this.#missingBytes = sizeBytes ?? Number.POSITIVE_INFINITY;
  }

  /** Whether a reader waits for bytes. */
  get isBehind(): boolean {
    return this.#waiting !== undefined;
  }

  /** Bytes of content that have come, as far as they were not dropped. */
  get takenBytes(): number {
    return this.#receivedBytes;
  }

  /** Whether nobody has begun to read, or a reader has given up. */
  get isUnwanted(): boolean {
    return this.#isClosed || !this.#hasStarted;
  }

  /** Bytes that have yet to be received: none, a number, or Infinity when it is not known. */
  get missingBytes(): number {
    return this.#missingBytes;
  }

  /** Whether all of it has come, read or not. */
  get isComplete(): boolean {
    return this.#missingBytes === 0;
  }

  /** Takes what is of this body, and returns what comes after it, or why there is no body. */
  receive(bytes: Buffer): Buffer | ProxyError {
    const rest = this.#decoder === undefined ? this.#takeCounted(bytes) : this.#takeChunks(bytes, this.#decoder);
    if (this.isComplete) this.#end();
    else if (this.#keptBytes >= keptBytes || this.#isClosed) this.#holdBack();
    return rest;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#start();
    const chunk = this.#kept.shift();
    if (chunk !== undefined) {
      this.#keptBytes -= chunk.length;
      return Promise.resolve({ done: false, value: chunk });
    }
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.isComplete) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#owner.goOn();
    });
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const isRead = this.isComplete && this.#kept.length === 0;
    this.#drop();
    if (!isRead) this.fail(new ProxyError('request_body_incomplete', { detail: 'the body was closed before its end' }));
  }

  /** No more bytes will come, and some are missing. What has come before is read first. */
  fail(error: ProxyError): void {
    this.#error ??= error;
    this.#waiting?.reject(this.#error);
    this.#waiting = undefined;
  }

  /** Lets what is left go by, so that the next request on the connection can be read. */
  discard(): void {
    if (this.isComplete) return;
    this.#isDiscarded = true;
    this.close();
    this.#owner.goOn();
  }

  #start(): void {
    if (this.#hasStarted || this.#error !== undefined) return;
    this.#hasStarted = true;
    this.#owner.askForBody();
  }

  #takeCounted(bytes: Buffer): Buffer {
    const ownBytes = Math.min(bytes.length, this.#missingBytes);
    this.#missingBytes -= ownBytes;
    this.#give(bytes.subarray(0, ownBytes));
    return bytes.subarray(ownBytes);
  }

  #takeChunks(bytes: Buffer, decoder: ChunkedDecoder): Buffer | ProxyError {
    const reading = decoder.read(bytes);
    const { pieces } = reading;
    if (pieces.length > separatePieces) this.#give(Buffer.concat(pieces));
    else for (const piece of pieces) this.#give(piece);
    if (reading.kind === 'fault') return new ProxyError(reading.code, { detail: reading.detail });
    if (reading.kind === 'more') return bytes.subarray(bytes.length);
    this.#missingBytes = 0;
    return bytes.subarray(reading.usedBytes);
  }

  #give(piece: Uint8Array): void {
    if (this.#isClosed || piece.length === 0) return;
    this.#receivedBytes += piece.length;
    if (this.#waiting === undefined) {
      this.#kept.push(piece);
      this.#keptBytes += piece.length;
    } else {
      this.#waiting.resolve({ done: false, value: piece });
      this.#waiting = undefined;
    }
  }

  #end(): void {
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  /** Not where what comes is dropped: the end of it is waited for. */
  #holdBack(): void {
    if (!this.#isDiscarded) this.#owner.holdBack();
  }

  #drop(): void {
    this.#kept.length = 0;
    this.#keptBytes = 0;
  }
}
