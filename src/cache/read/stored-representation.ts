/**
 * Presents a stored entry to delivery as a representation. When a block turns out to be damaged, the rest is read through a reader
 * that fetches the block again. `read-ahead.ts` reads the blocks.
 */

import type { Span } from '../../bytes/span.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { EntryReader, StoredEntry } from '../../store/store.ts';
import type { ByteReader, Representation } from '../answer.ts';
import { MAX_SAME_TICK_BYTES, peekBytes, peekKeptBytes, ReadAhead, type ReadAheadRules } from './read-ahead.ts';

/**
 * Opens the rest of the same bytes through another reader, because a block is damaged. `hasBegun`: the response may have been sent in part.
 * Rejects with `ProxyError`.
 */
export type Mend = (rest: readonly Span[], hasBegun: boolean) => Promise<ByteReader>;

/** Creates a representation of a stored entry. */
export function createStoredRepresentation(entry: StoredEntry, rules: ReadAheadRules, mend: Mend): Representation {
  return new StoredRepresentation(entry, rules, mend);
}

/** A class, because there is one for every hit. */
class StoredRepresentation implements Representation {
  readonly response: StoredResponse;
  readonly generation: string;
  readonly sizeBytes: number;
  readonly #entry: StoredEntry;
  readonly #rules: ReadAheadRules;
  readonly #mend: Mend;

  constructor(entry: StoredEntry, rules: ReadAheadRules, mend: Mend) {
    this.response = entry.metadata;
    this.generation = entry.generation;
    this.sizeBytes = entry.sizeBytes;
    this.#entry = entry;
    this.#rules = rules;
    this.#mend = mend;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return peekBytes(this.#entry, this.#rules.blockSizeBytes, offset, end);
  }

  peekKept(offset: number, end: number): Uint8Array | undefined {
    return peekKeptBytes(this.#entry, this.#rules.blockSizeBytes, offset, end);
  }

  canMove({ start, end }: Span): boolean {
    return this.#entry.canMove?.(start, end) === true;
  }

  move(socket: number, head: Uint8Array, { start, end }: Span): number {
    return this.#entry.move?.(socket, head, start, end) ?? 0;
  }

  giveBack(chunks: readonly Uint8Array[]): void {
    for (const chunk of chunks) this.#entry.giveBack?.(chunk);
  }

  async open(spans: readonly Span[]): Promise<ByteReader> {
    const [begin] = spans;
    const source = await this.#entry.open(begin && Math.floor(begin.start / this.#rules.blockSizeBytes));
    const reader = new StoredReader(source, this.sizeBytes, spans, this.#rules, this.#mend);
    try {
      // Find damage at the first byte now, while another answer is still possible.
      if (begin !== undefined && !this.#isSoundAt(begin)) await reader.begin(begin);
      return reader;
    } catch (error) {
      reader.close();
      throw error;
    }
  }

  /** Whether the first byte can be moved, and so was checked lately: most likely the span is moved, and need not be read. */
  #isSoundAt({ start, end }: Span): boolean {
    return start < end && start < this.sizeBytes && this.canMove({ start, end: start + 1 });
  }

  async whenPresent(): Promise<boolean> {
    return true;
  }

  close(): void {}
}

/** Reads a stored entry; without waiting where bytes are in memory or can be read in the same tick. Goes on elsewhere after damage. */
class StoredReader implements ByteReader {
  readonly #source: EntryReader;
  readonly #sizeBytes: number;
  readonly #spans: readonly Span[];
  readonly #blocks: ReadAhead;
  readonly #mend: Mend;
  /** The bytes that `begin` has read, until they are requested. */
  #first: { readonly offset: number; readonly bytes: Uint8Array } | undefined;
  /** Whether the last bytes had to be waited for. Blocks are read ahead only then, or where the source has no `readNow`. */
  #hasWaited = false;
  #hasBegun = false;
  #mended: ByteReader | undefined;
  #isClosed = false;

  constructor(source: EntryReader, sizeBytes: number, spans: readonly Span[], rules: ReadAheadRules, mend: Mend) {
    this.#source = source;
    this.#sizeBytes = sizeBytes;
    this.#spans = spans;
    this.#mend = mend;
    const mayReadAhead = () => this.#hasWaited || source.readNow === undefined;
    this.#blocks = new ReadAhead(source, sizeBytes, rules, mayReadAhead);
  }

  /** Reads the first bytes, and holds them if they were read in the same tick. Throws `ProxyError`, as `read` does. */
  async begin({ start, end }: Span): Promise<void> {
    const bytes = this.peek(start, end);
    if (bytes !== undefined) this.#first = { offset: start, bytes };
    else await this.read(start, end);
    this.#hasBegun = true;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    if (this.#mended !== undefined) return this.#mended.peek(offset, end);
    if (this.#isClosed || offset >= this.#sizeBytes) return undefined;
    const first = this.#takeFirst(offset, end) ?? this.#blocks.peek(offset, end);
    if (first !== undefined) return first;
    const bytes = this.#source.readNow?.(offset, Math.min(end, offset + MAX_SAME_TICK_BYTES));
    if (bytes !== undefined) this.#hasWaited = false;
    return bytes;
  }

  move(socket: number, head: Uint8Array, offset: number, end: number): number {
    if (this.#mended !== undefined) return this.#mended.move?.(socket, head, offset, end) ?? 0;
    return this.#isClosed ? 0 : (this.#source.move?.(socket, head, offset, end) ?? 0);
  }

  giveBack(bytes: Uint8Array): void {
    this.#source.giveBack?.(bytes);
  }

  async read(offset: number, end: number): Promise<Uint8Array | undefined> {
    if (this.#mended !== undefined) return await this.#mended.read(offset, end);
    if (this.#isClosed) throw new ProxyError('client_gone');
    if (offset >= this.#sizeBytes) return undefined;
    const first = this.#takeFirst(offset, end);
    if (first !== undefined) return first;
    try {
      this.#hasWaited = true;
      return await this.#blocks.read(offset, end);
    } catch (thrown) {
      if (toProxyError(thrown).code !== 'bytes_gone') throw thrown;
    }
    return await this.#goOnElsewhere(offset, end);
  }

  close(): void {
    this.#isClosed = true;
    this.#blocks.close();
    this.#mended?.close();
    this.#dropFirst();
    this.#source.close();
  }

  #takeFirst(offset: number, end: number): Uint8Array | undefined {
    const first = this.#first;
    if (first === undefined) return undefined;
    if (first.offset === offset && first.bytes.length <= end - offset) {
      this.#first = undefined;
      return first.bytes;
    }
    this.#dropFirst();
    return undefined;
  }

  #dropFirst(): void {
    if (this.#first !== undefined) this.giveBack(this.#first.bytes);
    this.#first = undefined;
  }

  async #goOnElsewhere(offset: number, end: number): Promise<Uint8Array | undefined> {
    const at = this.#spans.findIndex((span) => span.start <= offset && end === span.end);
    const mended = await this.#mend([{ start: offset, end }, ...this.#spans.slice(at + 1)], this.#hasBegun);
    this.#blocks.close();
    this.#source.close();
    this.#mended = mended;
    if (this.#isClosed) mended.close();
    return await mended.read(offset, end);
  }
}
