/**
 * Reads the body of a request from its connection, by length or in the chunked transfer coding (RFC 9112 §6 and §7.1), as a
 * stream that is pulled.
 */

import { type Fields, hasField } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { type ErrorCode, ProxyError } from '../../http/proxy-error.ts';
import type { HeadLimits } from '../request-head.ts';
import type { Pacer } from '../timeouts.ts';
import { chunkSizeGrammar, readFieldSection } from './head-parser.ts';

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
interface RequestBodyOptions {
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

/** What a decoder makes of bytes. The content that is in them, in order, is part of them: nothing is copied. */
type ChunkedReading =
  /** All bytes were used, and the body goes on. */
  | { readonly kind: 'more'; readonly pieces: readonly Buffer[] }
  /** The body is over; the bytes that were not used are no part of it. */
  | {
      readonly kind: 'end';
      readonly pieces: readonly Buffer[];
      readonly usedBytes: number;
      /** The trailer section's fields (RFC 9112 §7.1.2). */
      readonly trailers: Fields;
    }
  /** No body whatever follows. What came before the fault is told, though the body cannot become whole. */
  | { readonly kind: 'fault'; readonly pieces: readonly Buffer[]; readonly code: ErrorCode; readonly detail: string };

const sizeLine = new RegExp(`^${chunkSizeGrammar}$`);

/** Bytes of chunk extensions that a body may have in all (§7.1.1 wants a limit). */
const mostExtensionBytes = 16 * 1024;

const lineEndBytes = 2;

/** The longest size line: as many digits and extensions as there can be, and the line end. */
const longestSizeLine = 16 + mostExtensionBytes + lineEndBytes;

const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/** Where in a body the next byte is: in a size line, the data of a chunk, the line end behind it, or the trailer section. */
type Stage = 'size' | 'data' | 'data end' | 'trailers' | 'over';

interface Fault {
  readonly code: ErrorCode;
  readonly detail: string;
}

/** Decodes one body, in whatever pieces it comes. */
export class ChunkedDecoder {
  readonly #limits: Pick<HeadLimits, 'fieldsBytes' | 'maxFieldCount'>;
  #stage: Stage = 'size';
  /** Bytes that are missing of a chunk's data, or of the line end behind it. */
  #missingBytes = 0;
  /** What has come of a line whose end has not. */
  #line = '';
  #extensionBytes = 0;
  /** The lines of the trailer section that have come. */
  #section = '';
  #trailers: Fields = [];
  #fault: Fault | undefined;

  constructor(limits: Pick<HeadLimits, 'fieldsBytes' | 'maxFieldCount'>) {
    this.#limits = limits;
  }

  /** Reads what has come next. Not to be called again after the end or a fault. */
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
      this.#fail('malformed_request', 'a chunk that does not end where it should');
    }
    this.#missingBytes -= 1;
    if (this.#missingBytes === 0) this.#stage = 'size';
    return at + 1;
  }

  /** Takes a line, or the part of it that is there. */
  #takeLine(bytes: Buffer, at: number): number {
    const found = bytes.indexOf(lineFeed, at);
    const end = found < 0 ? bytes.length : found + 1;
    const isTrailer = this.#stage === 'trailers';
    const limit = isTrailer ? this.#limits.fieldsBytes + lineEndBytes - this.#section.length : longestSizeLine;
    if (this.#line.length + end - at > limit) {
      if (isTrailer) this.#fail('fields_too_large', 'the trailer section');
      else this.#fail('malformed_request', 'too much of chunk extensions');
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
      this.#fail('malformed_request', 'a chunk size that is none');
      return;
    }
    const sizeBytes = Number.parseInt(digits, 16);
    this.#extensionBytes += line.length - digits.length - lineEndBytes;
    if (!Number.isSafeInteger(sizeBytes)) this.#fail('malformed_request', 'a chunk that is too large');
    if (this.#extensionBytes > mostExtensionBytes) this.#fail('malformed_request', 'too much of chunk extensions');
    this.#stage = sizeBytes === 0 ? 'trailers' : 'data';
    this.#missingBytes = sizeBytes;
  }

  #readTrailer(line: string): void {
    this.#section += line;
    if (!line.endsWith('\r\n')) this.#fail('malformed_request', 'a trailer line that does not end where it should');
    else if (line.length === lineEndBytes) this.#readTrailers();
  }

  #readTrailers(): void {
    const section = readFieldSection(this.#section);
    if (section === undefined) {
      this.#fail('malformed_request', 'a trailer line that is none');
      return;
    }
    const { fields, sizeBytes } = section;
    if (fields.length > this.#limits.maxFieldCount || sizeBytes > this.#limits.fieldsBytes) {
      this.#fail('fields_too_large', 'the trailer section');
    }
    // Nobody may heed them there (RFC 9110 §6.5.1), and who does reads another message.
    if (hasField(fields, 'content-length') || hasField(fields, 'transfer-encoding')) {
      this.#fail('malformed_request', 'a field of framing among the trailers');
    }
    this.#trailers = fields;
    this.#stage = 'over';
  }

  #fail(code: ErrorCode, detail: string): void {
    this.#fault ??= { code, detail };
  }
}
