/** The listener's own request reader without connections: heads, framing and bodies. */

import { HeadParser } from '../../../src/listener/http1/head-parser.ts';
import { ChunkedDecoder } from '../../../src/listener/http1/request-body.ts';
import { readRequestFraming, readTarget, servedMethods } from '../../../src/listener/receive.ts';
import { type HeadLimits, type ParsedHead, toParsedHead } from '../../../src/listener/request-head.ts';
import type { RequestReading, StreamReading } from './llhttp.ts';

const defaultLimits: HeadLimits = { targetBytes: 8192, fieldsBytes: 32_768, maxFieldCount: 256 };

type Request = { -readonly [Key in keyof RequestReading]: RequestReading[Key] };

/** Reads bytes in these pieces. */
export function readAsListener(pieces: readonly Buffer[], limits = defaultLimits): StreamReading {
  const reader = new OwnReader(limits);
  for (const piece of pieces) reader.take(piece);
  return reader.reading;
}

class OwnReader {
  readonly #limits: HeadLimits;
  readonly #parser: HeadParser;
  readonly #requests: Request[] = [];
  /** The bytes of an incomplete head. */
  #head: Buffer = Buffer.alloc(0);
  /** Reads the next bytes of the current body; undefined between bodies. */
  #readBody: ((bytes: Buffer, request: Request) => Buffer) | undefined;
  #fault: string | undefined;

  constructor(limits: HeadLimits) {
    this.#limits = limits;
    this.#parser = new HeadParser(limits);
  }

  get reading(): StreamReading {
    return { requests: this.#requests, fault: this.#fault };
  }

  take(piece: Buffer): void {
    let rest = piece;
    while (rest.length > 0 && this.#fault === undefined) {
      const request = this.#requests.at(-1);
      rest =
        this.#readBody === undefined || request === undefined ? this.#takeHead(rest) : this.#readBody(rest, request);
    }
  }

  #takeHead(piece: Buffer): Buffer {
    const bytes = Buffer.concat([this.#head, piece]);
    const reading = this.#head.length === 0 ? this.#parser.readFirst(bytes) : this.#parser.read(bytes);
    if (reading.kind === 'head' || reading.kind === 'plain') {
      this.#head = Buffer.alloc(0);
      this.#begin(reading.kind === 'plain' ? toParsedHead(reading.head) : reading.head);
      return bytes.subarray(reading.sizeBytes);
    }
    if (reading.kind === 'fault') this.#fault = reading.code;
    this.#head = bytes;
    return Buffer.alloc(0);
  }

  #begin(head: ParsedHead): void {
    const framing = readRequestFraming(head.version, head.fields);
    const target = readTarget(head.method, head.target, 'http');
    if (!servedMethods.has(head.method)) this.#fault = 'the method is not served';
    else if (target.kind === 'refused') this.#fault = target.reason;
    else if (framing.kind === 'refused') this.#fault = framing.reason;
    if (this.#fault !== undefined || framing.kind === 'refused') return;
    const isComplete = framing.kind === 'none' || (framing.kind === 'length' && framing.sizeBytes === 0);
    this.#requests.push({ ...head, body: '', isComplete, trailers: [] });
    if (isComplete) return;
    this.#readBody = framing.kind === 'length' ? this.#counted(framing.sizeBytes) : this.#chunked();
  }

  #counted(sizeBytes: number): (bytes: Buffer, request: Request) => Buffer {
    return (bytes, request) => {
      const missing = sizeBytes - request.body.length;
      request.body += bytes.toString('latin1', 0, missing);
      if (request.body.length === sizeBytes) this.#end(request);
      return bytes.subarray(missing);
    };
  }

  #chunked(): (bytes: Buffer, request: Request) => Buffer {
    const decoder = new ChunkedDecoder(this.#limits);
    return (bytes, request) => {
      const reading = decoder.read(bytes);
      request.body += Buffer.concat(reading.pieces).toString('latin1');
      if (reading.kind === 'end') {
        request.trailers = reading.trailers;
        this.#end(request);
        return bytes.subarray(reading.usedBytes);
      }
      if (reading.kind === 'fault') this.#fault = reading.code;
      return Buffer.alloc(0);
    };
  }

  #end(request: Request): void {
    request.isComplete = true;
    this.#readBody = undefined;
  }
}
