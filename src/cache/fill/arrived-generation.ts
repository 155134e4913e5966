/**
 * Declares what an open generation offers a flight, and implements the generation of at most one block whose bytes have all
 * arrived. Most misses are of this kind.
 */

import { fillsItsMemory } from '../../bytes/own-memory.ts';
import { type Span, SpanSet } from '../../bytes/span.ts';
import type { BodyStream, NextChunk } from '../../http/message.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { ByteReader, Representation } from '../answer.ts';
import type { Outlook } from './fetch-decision.ts';
import type { Seat } from './readers.ts';

/** A generation that requests can attach to: `Generation`, whose bytes are arriving, or `ArrivedGeneration`, which has all bytes. */
export interface OpenGeneration {
  /** Its name in the store. */
  readonly name: string;
  readonly response: StoredResponse;
  /** The status of the response that began it: 206 for a part. */
  readonly originStatus: number;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  /** Bytes that the origin has sent for it. */
  readonly received: number;
  /** Whether new readers may attach and find every byte. */
  readonly isJoinable: boolean;
  /** Whether the store has been released. */
  readonly isClosed: boolean;
  readonly readerCount: number;
  /** Which bytes are present, coming, or to be requested. */
  readonly outlook: Outlook;
  /** See `Generation.run`. Never rejects. */
  run(waiting: Iterable<Seat>): Promise<void>;
  /** See `Generation.whenTaken`. */
  whenTaken(): Promise<void> | undefined;
  /** Replaces the metadata, for example with those that a 304 has freshened. */
  freshen(metadata: StoredResponse): void;
  /** Stops its fills. Clients that still wait for bytes are disconnected. */
  stop(error: ProxyError): void;
  /** Returns a representation for one request. The generation stays open until the representation is closed. */
  attach(seat: Seat): Representation;
}

/** Options of an arrived generation. */
interface ArrivedOptions {
  readonly name: string;
  readonly response: StoredResponse;
  readonly bytes: Uint8Array;
  /** Whether it was invalidated since its request was sent. It may then be read, but not stored. */
  readonly isRevoked: () => boolean;
  /** Stores the generation, and emits the result as an event. */
  readonly write: (response: StoredResponse) => Promise<void>;
}

/** A generation whose bytes are all in memory. It needs no fill, no scheduler and no list of readers, because nothing waits. */
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

  /** False once it is closed: later requests find it in the store. */
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
      isProbing: false,
      seekAheadBytes: 0,
      seekAheadMs: 0,
      latencyMs: 0,
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

  /** Does nothing: no fill runs. */
  stop(): void {}

  attach(): Representation {
    return new ArrivedRepresentation(this.response, this.name, this.#options.bytes);
  }
}

/** A representation whose bytes are all in memory. */
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

  /** Does nothing: there is nothing to release. */
  close(): void {}
}

/**
 * Returns all bytes of a body of known length, if they have arrived or arrive within one turn of the event loop. Otherwise returns
 * a body that must be read in place of the given one.
 */
export async function gather(body: BodyStream, sizeBytes: number): Promise<Uint8Array | BodyStream> {
  const chunks: Uint8Array[] = [];
  if (takeAll(body, chunks) === 'later') {
    await nextTurn();
    if (takeAll(body, chunks) === 'later') return chunks.length === 0 ? body : new ResumedBody(chunks, body);
  }
  const bytes = joined(chunks);
  return bytes.length === sizeBytes ? bytes : new ResumedBody(chunks, body);
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

/** Joins chunks outside the shared memory pool, so that a kept block retains no other memory. */
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

/** A body whose first chunks were taken already. It gives those chunks first. */
export class ResumedBody implements BodyStream {
  readonly trailers: BodyStream['trailers'];
  readonly #taken: Uint8Array[];
  readonly #body: BodyStream;

  constructor(taken: Uint8Array[], body: BodyStream) {
    this.#taken = taken;
    this.#body = body;
    this.trailers = body.trailers;
  }

  take(wantedBytes?: number): NextChunk {
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
