/** The body of an HTTP/1 request as a pull stream, delimited by Content-Length or by chunked transfer coding (RFC 9112 §6, §7.1). */

import { type Fields, hasField } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { type ErrorCode, ProxyError } from '../../http/proxy-error.ts';
import type { HeadLimits } from '../request-head.ts';
import type { ClientProgress } from '../timeouts.ts';
import { chunkSizeGrammar, readFieldSection } from './head-parser.ts';

/** At this many buffered bytes the client is held back. One more socket read may be buffered on top. */
const keptBytes = 64 * 1024;

/** More pieces than this from one socket read are joined: a client can send chunks of one byte. */
const separatePieces = 16;

/** The exchange of a body, as the body uses it. */
export interface BodyOwner {
  /** The reader wants the first byte: the exchange sends 100 (Continue) if the client waits for it. */
  askForBody(): void;
  /** Stops receiving. */
  holdBack(): void;
  /** Continues receiving. */
  goOn(): void;
}

/** Options of a request body. */
interface RequestBodyOptions {
  readonly owner: BodyOwner;
  /** The value of Content-Length, at least 1; undefined for a chunked body. */
  readonly sizeBytes: number | undefined;
  readonly limits: HeadLimits;
}

interface Waiting {
  resolve(result: IteratorResult<Uint8Array, undefined>): void;
  reject(error: ProxyError): void;
}

/**
 * A request body with backpressure. When the body breaks off, or is closed during a read, the reader gets an error: the body never
 * looks complete.
 */
export class RequestBody implements BodyStream, AsyncIterator<Uint8Array, undefined>, ClientProgress {
  readonly #owner: BodyOwner;
  readonly #decoder: ChunkedDecoder | undefined;
  /** Bytes of content still to be received; Infinity while a chunked body goes on. */
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

  /** Received bytes of content, without dropped ones. */
  get takenBytes(): number {
    return this.#receivedBytes;
  }

  /** Whether no reader has begun to read, or the reader has closed the body. */
  get isUnwanted(): boolean {
    return this.#isClosed || !this.#hasStarted;
  }

  /** Bytes still to be received; Infinity while a chunked body goes on. */
  get missingBytes(): number {
    return this.#missingBytes;
  }

  /** Whether all bytes have been received, read or not. */
  get isComplete(): boolean {
    return this.#missingBytes === 0;
  }

  /** Takes the bytes of this body. Returns the bytes after it, or the error of an invalid body. */
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

  /** Makes the reader fail with this error, after the bytes that were received before. */
  fail(error: ProxyError): void {
    this.#error ??= error;
    this.#waiting?.reject(this.#error);
    this.#waiting = undefined;
  }

  /** Receives and drops the rest, so that the next request on the connection can be read. */
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

  /** Holds the client back, except when the rest is dropped: then its end is awaited. */
  #holdBack(): void {
    if (!this.#isDiscarded) this.#owner.holdBack();
  }

  #drop(): void {
    this.#kept.length = 0;
    this.#keptBytes = 0;
  }
}

/** The result of decoding bytes. `pieces` is the content in order, as views of the input: nothing is copied. */
type ChunkedReading =
  /** The body continues. All bytes were used. */
  | { readonly kind: 'more'; readonly pieces: readonly Buffer[] }
  /** The body is complete. Bytes after the first `usedBytes` do not belong to it. */
  | {
      readonly kind: 'end';
      readonly pieces: readonly Buffer[];
      readonly usedBytes: number;
      /** The fields of the trailer section (RFC 9112 §7.1.2). */
      readonly trailers: Fields;
    }
  /** The body is invalid, regardless of the bytes that follow. `pieces` is the content before the fault. */
  | { readonly kind: 'fault'; readonly pieces: readonly Buffer[]; readonly code: ErrorCode; readonly detail: string };

const sizeLine = new RegExp(`^${chunkSizeGrammar}$`);

/** Maximum total bytes of chunk extensions in a body (RFC 9112 §7.1.1 requires a limit). */
const mostExtensionBytes = 16 * 1024;

const lineEndBytes = 2;

/** Maximum length of a size line: 16 digits, all extensions, and the line end. */
const longestSizeLine = 16 + mostExtensionBytes + lineEndBytes;

const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/** The position of the next byte: in a size line, in chunk data, in the line end after the data, or in the trailer section. */
type Stage = 'size' | 'data' | 'data end' | 'trailers' | 'over';

interface Fault {
  readonly code: ErrorCode;
  readonly detail: string;
}

/** Decodes one chunked body, independent of how it is split into reads. */
export class ChunkedDecoder {
  readonly #limits: Pick<HeadLimits, 'fieldsBytes' | 'maxFieldCount'>;
  #stage: Stage = 'size';
  /** Missing bytes of the chunk data, or of the line end after it. */
  #missingBytes = 0;
  /** The received part of an incomplete line. */
  #line = '';
  #extensionBytes = 0;
  /** The received lines of the trailer section. */
  #section = '';
  #trailers: Fields = [];
  #fault: Fault | undefined;

  constructor(limits: Pick<HeadLimits, 'fieldsBytes' | 'maxFieldCount'>) {
    this.#limits = limits;
  }

  /** Decodes the next bytes. Not to be called again after the end or a fault. */
  read(bytes: Buffer): ChunkedReading {
    const pieces: Buffer[] = [];
    let at = 0;
    while (at < bytes.length && this.#fault === undefined && this.#stage !== 'over') {
      if (this.#stage === 'data') at = this.#takeData(bytes, at, pieces);
      else if (this.#stage === 'data end') at = this.#takeDataEnd(bytes, at);
      else at = this.#takeLine(bytes, at);
    }
    if (this.#fault !== undefined) return { kind: 'fault', pieces, ...this.#fault };
    if (this.#stage === 'over') return { kind: 'end', pieces, usedBytes: at, trailers: this.#trailers };
    return { kind: 'more', pieces };
  }

  #takeData(bytes: Buffer, at: number, pieces: Buffer[]): number {
    const end = Math.min(bytes.length, at + this.#missingBytes);
    pieces.push(bytes.subarray(at, end));
    this.#missingBytes -= end - at;
    if (this.#missingBytes === 0) {
      this.#stage = 'data end';
      this.#missingBytes = lineEndBytes;
    }
    return end;
  }

  #takeDataEnd(bytes: Buffer, at: number): number {
    if (bytes[at] !== (this.#missingBytes === lineEndBytes ? carriageReturn : lineFeed)) {
      this.#fail('malformed_request', 'chunk data without CR LF after it');
    }
    this.#missingBytes -= 1;
    if (this.#missingBytes === 0) this.#stage = 'size';
    return at + 1;
  }

  /** Takes a line, or its received part. */
  #takeLine(bytes: Buffer, at: number): number {
    const found = bytes.indexOf(lineFeed, at);
    const end = found < 0 ? bytes.length : found + 1;
    const isTrailer = this.#stage === 'trailers';
    const limit = isTrailer ? this.#limits.fieldsBytes + lineEndBytes - this.#section.length : longestSizeLine;
    if (this.#line.length + end - at > limit) {
      if (isTrailer) this.#fail('fields_too_large', 'the trailer section');
      else this.#fail('malformed_request', 'the chunk extensions are too long');
      return end;
    }
    this.#line += bytes.toString('latin1', at, end);
    if (found < 0) return end;
    const line = this.#line;
    this.#line = '';
    if (isTrailer) this.#readTrailer(line);
    else this.#readSize(line);
    return end;
  }

  #readSize(line: string): void {
    const digits = sizeLine.exec(line)?.[1];
    if (digits === undefined) {
      this.#fail('malformed_request', 'a malformed chunk size');
      return;
    }
    const sizeBytes = Number.parseInt(digits, 16);
    this.#extensionBytes += line.length - digits.length - lineEndBytes;
    if (!Number.isSafeInteger(sizeBytes)) this.#fail('malformed_request', 'a chunk that is too large');
    if (this.#extensionBytes > mostExtensionBytes) this.#fail('malformed_request', 'the chunk extensions are too long');
    this.#stage = sizeBytes === 0 ? 'trailers' : 'data';
    this.#missingBytes = sizeBytes;
  }

  #readTrailer(line: string): void {
    this.#section += line;
    if (!line.endsWith('\r\n')) this.#fail('malformed_request', 'a trailer line that does not end with CR LF');
    else if (line.length === lineEndBytes) this.#readTrailers();
  }

  #readTrailers(): void {
    const section = readFieldSection(this.#section);
    if (section === undefined) {
      this.#fail('malformed_request', 'a malformed trailer line');
      return;
    }
    const { fields, sizeBytes } = section;
    if (fields.length > this.#limits.maxFieldCount || sizeBytes > this.#limits.fieldsBytes) {
      this.#fail('fields_too_large', 'the trailer section');
    }
    // Framing fields must not be applied from trailers (RFC 9110 §6.5.1). A recipient that does would read a different message.
    if (hasField(fields, 'content-length') || hasField(fields, 'transfer-encoding')) {
      this.#fail('malformed_request', 'a framing field in the trailer section');
    }
    this.#trailers = fields;
    this.#stage = 'over';
  }

  #fail(code: ErrorCode, detail: string): void {
    this.#fault ??= { code, detail };
  }
}
