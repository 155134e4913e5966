/** Bytes as another process sends them: read at their places, in their order, as they come. */

import type { ByteReader, Relay } from '../cache/representation.ts';
import type { Fields } from '../http/fields.ts';
import type { BodyStream } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { ToldRelay } from './peer-answer.ts';
import { reviveFailure, type ToldFailure } from './peer-answer.ts';
import { type DataFrame, frameKinds, readData, readValue } from './peer-frames.ts';
import type { PeerLine } from './peer-line.ts';

/** What the end of the bytes tells. Plain data. */
export interface ToldEnd {
  /** The length of the representation, where it is known by now. */
  readonly sizeBytes: number | undefined;
  readonly trailers: Fields | undefined;
  readonly originBytes: number;
}

/** The bytes of one answer. */
export class PeerBytes {
  readonly #line: PeerLine;
  readonly #closing = new AbortController();
  #data: DataFrame | undefined;
  /** Up to where of it was given. */
  #givenTo = 0;
  /** What was told at the end, once that has come. */
  end: ToldEnd | undefined;
  /** Bytes of body that the origin has sent because of this request. */
  originBytes = 0;

  constructor(line: PeerLine) {
    this.#line = line;
  }

  /** Bytes from `offset` on that have come. */
  peek(offset: number, end: number): Uint8Array | undefined {
    this.#moveTo(offset);
    const chunk = this.#data === undefined ? undefined : cut(this.#data, offset, end);
    if (chunk !== undefined) this.#givenTo = offset + chunk.length;
    return chunk;
  }

  /** Undefined at the end. Rejects with `ProxyError`, or with `HolderLost`. */
  async read(offset: number, end: number): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.peek(offset, end);
      if (chunk !== undefined) return chunk;
      if (this.end !== undefined) return undefined;
      await this.#receive();
    }
  }

  /** The next bytes, whichever they are; undefined at the end. Rejects as `read` does. */
  async next(): Promise<Uint8Array | undefined> {
    while (this.#data === undefined && this.end === undefined) await this.#receive();
    const bytes = this.#data?.bytes;
    this.#data = undefined;
    return bytes;
  }

  close(): void {
    this.#closing.abort(new ProxyError('client_gone'));
    this.#line.close();
  }

  /** Drops what was given, where the next place that is asked for is not in it: the next span may lie anywhere. */
  #moveTo(offset: number): void {
    if (this.#data === undefined) return;
    const dataEnd = this.#data.offset + this.#data.bytes.length;
    const isIn = this.#data.offset <= offset && offset < dataEnd;
    if (!isIn && (offset >= dataEnd || this.#givenTo >= dataEnd)) this.#data = undefined;
  }

  async #receive(): Promise<void> {
    const frame = await this.#line.next(this.#closing.signal);
    switch (frame.kind) {
      case frameKinds.data:
        this.#data = readData(frame);
        this.#givenTo = 0;
        this.originBytes = this.#data.originBytes;
        break;
      case frameKinds.end:
        this.end = readValue<ToldEnd>(frame);
        this.originBytes = this.end.originBytes;
        break;
      case frameKinds.failed:
        throw reviveFailure(readValue<ToldFailure>(frame));
      default:
      // What was asked for before, and is not waited for any more.
    }
  }
}

function cut({ offset, bytes }: DataFrame, from: number, end: number): Uint8Array {
  if (from < offset) throw new ProxyError('internal', { detail: `byte ${from} was asked for, and ${offset} came` });
  return bytes.subarray(from - offset, end - offset);
}

/** Reads a representation until it is closed. */
export function createPeerReader(bytes: PeerBytes): ByteReader {
  return {
    peek: (offset, end) => bytes.peek(offset, end),
    read: (offset, end) => bytes.read(offset, end),
    close: () => bytes.close(),
  };
}

/** A response that is passed on from another process, which passes it on from the origin. */
export function createPeerRelay({ response, hasTrailers, ...told }: ToldRelay, bytes: PeerBytes): Relay {
  const body: BodyStream = {
    trailers: hasTrailers ? () => bytes.end?.trailers ?? [] : undefined,
    close: () => bytes.close(),
    [Symbol.asyncIterator]: () => chunksOf(bytes),
  };
  return { ...told, response: { ...response, body } };
}

async function* chunksOf(bytes: PeerBytes): AsyncGenerator<Uint8Array, void> {
  for (let chunk = await bytes.next(); chunk !== undefined; chunk = await bytes.next()) yield chunk;
}
