/** Reads bodies in the chunked transfer coding (RFC 9112 §7.1), strictly. */

import { type Fields, hasField } from '../../http/fields.ts';
import type { ErrorCode } from '../../http/proxy-error.ts';
import { readFieldSection } from './field-lines.ts';
import { chunkSizeGrammar } from './grammar.ts';
import type { HeadLimits } from './request-head.ts';

/** What a decoder makes of bytes. The content that is in them, in order, is part of them: nothing is copied. */
export type ChunkedReading =
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
