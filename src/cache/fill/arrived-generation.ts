/** A generation of one block whose bytes have all come, which most misses are; and what every open generation offers a flight. */

import { fillsItsMemory } from '../../bytes/own-memory.ts';
import { type Span, SpanSet } from '../../bytes/span.ts';
import type { BodyStream, Taken } from '../../http/message.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { ByteReader, Representation } from '../answer.ts';
import type { Outlook } from './fetch-decision.ts';
import type { Seat } from './readers.ts';

/** `Generation`, whose bytes are on their way, or `ArrivedGeneration`, whose bytes are all there. */
export interface OpenGeneration {
  /** Its name in the store. */
  readonly name: string;
  readonly response: StoredResponse;
  /** The status of the response that the origin began it with. */
  readonly originStatus: number;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  /** Bytes that the origin has sent for it. */
  readonly received: number;
  /** Whether new readers may attach and find every byte. */
  readonly isJoinable: boolean;
  /** Whether the store has been let go of. */
  readonly isClosed: boolean;
  readonly readerCount: number;
  /** Which bytes are there, coming, or to be asked for. */
  readonly outlook: Outlook;
  /** See `Generation.run`. Never rejects. */
  run(waiting: Iterable<Seat>): Promise<void>;
  /** See `Generation.whenTaken`. */
  whenTaken(): Promise<void> | undefined;
  /** Takes the metadata that a 304 has freshened. */
  freshen(metadata: StoredResponse): void;
  /** Cuts off what is still coming. */
  stop(error: ProxyError): void;
  /** Holds it for one request of a client until the representation is closed. */
  attach(seat: Seat): Representation;
}

/** What an arrived generation is made with. */
interface ArrivedOptions {
  readonly name: string;
  readonly response: StoredResponse;
  readonly bytes: Uint8Array;
  /** Whether it was invalidated since it was asked for: it may be read, but not be stored. */
  readonly isRevoked: () => boolean;
  /** Stores it, and tells what has come of that. Never rejects. */
  readonly write: (response: StoredResponse) => Promise<void>;
}

/** Most misses are these: no transfer, no scheduler and no list of readers is needed, for nothing is waited for. */
export class ArrivedGeneration implements OpenGeneration {
  readonly name: string;
  readonly readerCount = 0;
  response: StoredResponse;
  isClosed = false;
  readonly #options: ArrivedOptions;

  constructor(options: ArrivedOptions) {
    this.name = options.name;
    this.response = options.response;
    this.#options = options;
  }

  get originStatus(): number {
    return this.response.status;
  }

  get sizeBytes(): number {
    return this.#options.bytes.length;
  }

  get received(): number {
    return this.#options.bytes.length;
  }

  /** Later requests find it in the store. */
  get isJoinable(): boolean {
    return !this.isClosed && !this.#options.isRevoked();
  }

  get outlook(): Outlook {
    return {
      sizeBytes: this.sizeBytes,
      blockSizeBytes: this.sizeBytes,
      present: new SpanSet([{ start: 0, end: 1 }]),
      fills: [],
      mayAskForParts: false,
      seekAheadBytes: 0,
      seekAheadMs: 0,
      growsOpenRanges: false,
    };
  }

  async run(): Promise<void> {
    await this.#options.write(this.response);
    this.isClosed = true;
  }

  whenTaken(): undefined {
    return undefined;
  }

  freshen(metadata: StoredResponse): void {
    this.response = metadata;
  }

  /** Nothing of it is still coming. */
  stop(): void {}

  attach(): Representation {
    return new ArrivedRepresentation(this.response, this.name, this.#options.bytes);
  }
}

/** Bytes in memory, and the head before them. */
class ArrivedRepresentation implements Representation, ByteReader {
  readonly response: StoredResponse;
  readonly generation: string;
  readonly #bytes: Uint8Array;

  constructor(response: StoredResponse, generation: string, bytes: Uint8Array) {
    this.response = response;
    this.generation = generation;
    this.#bytes = bytes;
  }

  get sizeBytes(): number {
    return this.#bytes.length;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    if (offset >= this.#bytes.length) return undefined;
    return offset === 0 && end >= this.#bytes.length ? this.#bytes : this.#bytes.subarray(offset, end);
  }

  async read(offset: number, end: number): Promise<Uint8Array | undefined> {
    return this.peek(offset, end);
  }

  async open(_spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    signal.throwIfAborted();
    return this;
  }

  async whenPresent(_end: number, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    return true;
  }

  /** Holds nothing that would have to be given back. */
  close(): void {}
}

/**
 * All bytes of a body whose length is known, where they have come, or come within a turn of the event loop; otherwise the body
 * that is to be read in place of the given one.
 */
export async function gather(body: BodyStream, sizeBytes: number): Promise<Uint8Array | BodyStream> {
  const chunks: Uint8Array[] = [];
  if (takeAll(body, chunks) === 'later') {
    await nextTurn();
    if (takeAll(body, chunks) === 'later') return chunks.length === 0 ? body : new BegunBody(chunks, body);
  }
  const bytes = joined(chunks);
  return bytes.length === sizeBytes ? bytes : new BegunBody(chunks, body);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function takeAll(body: BodyStream, chunks: Uint8Array[]): 'end' | 'later' {
  for (;;) {
    const taken = body.take?.() ?? 'later';
    if (typeof taken === 'string') return taken;
    chunks.push(taken);
  }
}

/** In memory of its own: a kept block must pin nothing but itself. */
function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks;
  if (only !== undefined && chunks.length === 1 && fillsItsMemory(only)) return only;
  const bytes = Buffer.allocUnsafeSlow(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

/** A body of which some chunks were taken already. */
export class BegunBody implements BodyStream {
  readonly trailers: BodyStream['trailers'];
  readonly #taken: Uint8Array[];
  readonly #body: BodyStream;

  constructor(taken: Uint8Array[], body: BodyStream) {
    this.#taken = taken;
    this.#body = body;
    this.trailers = body.trailers;
  }

  take(wantedBytes?: number): Taken {
    return this.#taken.shift() ?? this.#body.take?.(wantedBytes) ?? 'later';
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (let chunk = this.#taken.shift(); chunk !== undefined; chunk = this.#taken.shift()) yield chunk;
    yield* this.#body;
  }

  close(): void {
    this.#taken.length = 0;
    this.#body.close();
  }
}
