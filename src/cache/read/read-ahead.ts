/**
 * Reads bytes at any offset out of blocks. Blocks are read before they are asked for, so that the disk works while the bytes
 * before them are being sent; all readers together share a budget for that.
 */

import { type Span, spanOfBlock, spanSize } from '../../bytes/span.ts';
import type { BlockSource, StoredEntry } from '../../store/store.ts';

/** How blocks are read ahead. */
export interface ReadAheadRules {
  readonly blockSizeBytes: number;
  /** What all readers together may have read ahead. Who gets nothing of it reads block by block. */
  readonly budget: ByteBudget;
}

/** One reader has read at most so many blocks ahead. */
const MAX_DEPTH = 4;

/** A block that was asked of the source before its turn. Its bytes count against the budget until it is let go of. */
interface Ahead {
  readonly sizeBytes: number;
  readonly reading: Promise<Uint8Array>;
  block: Uint8Array | undefined;
  /** Whether its turn has come, or never will. */
  isOver: boolean;
}

/**
 * Reads one generation for one reader, and holds the block that it is at. While that one is being read or sent, the next
 * one is read; and one more at a time each time that the reader has had to wait for one of them: a reader that is slower
 * than the disk never has more than one. What is in memory anyway is neither read nor held, and nothing is read past a block
 * that is absent. A block that could not be read ahead is read again when its turn comes, and only then it fails.
 */
export class ReadAhead {
  readonly #source: BlockSource;
  readonly #rules: ReadAheadRules;
  readonly #sizeBytes: number;
  readonly #mayRead: (index: number) => boolean;
  readonly #ahead = new Map<number, Ahead>();
  #current: { readonly index: number; readonly block: Uint8Array } | undefined;
  /** The index that was asked for last. */
  #position: number | undefined;
  #depth = 1;
  #isClosed = false;

  /** `sizeBytes` is the length of the whole, Infinity where it is not known; `mayRead` tells whether a block is there now. */
  constructor(
    source: BlockSource,
    sizeBytes: number,
    rules: ReadAheadRules,
    mayRead: (index: number) => boolean = () => true,
  ) {
    this.#source = source;
    this.#sizeBytes = sizeBytes;
    this.#rules = rules;
    this.#mayRead = mayRead;
  }

  /** Bytes from `offset` on that are in memory, at most to the end of their block; reads on up to `end` (exclusive). */
  peek(offset: number, end: number): Uint8Array | undefined {
    const index = this.#indexOf(offset);
    const block = this.#blockInMemory(index);
    if (block === undefined) return undefined;
    this.#readOn(index, end);
    return this.#slice(block, index, offset, end);
  }

  /**
   * Bytes from `offset` on, at most to the end of their block; reads on up to `end` (exclusive). Throws `ProxyError`
   * `bytes_gone`.
   */
  async read(offset: number, end: number): Promise<Uint8Array> {
    const index = this.#indexOf(offset);
    const block = this.#blockInMemory(index) ?? (await this.#wait(index, end));
    this.#readOn(index, end);
    return this.#slice(block, index, offset, end);
  }

  /** Takes note that the bytes at `offset` come from elsewhere; reads on up to `end` (exclusive). */
  pass(offset: number, end: number): void {
    this.#readOn(this.#indexOf(offset), end);
  }

  /** Lets go of everything. What is being read counts until it has been read. */
  close(): void {
    this.#isClosed = true;
    this.#current = undefined;
    for (const index of this.#ahead.keys()) this.#letGo(index);
  }

  #blockInMemory(index: number): Uint8Array | undefined {
    if (this.#current?.index === index) return this.#current.block;
    const block = this.#ahead.get(index)?.block;
    if (block === undefined) return this.#source.peekBlock(index);
    this.#hold(index, block);
    return block;
  }

  async #wait(index: number, end: number): Promise<Uint8Array> {
    const ahead = this.#ahead.get(index);
    if (ahead !== undefined) this.#depth = Math.min(this.#depth + 1, MAX_DEPTH);
    const reading = ahead?.reading ?? this.#source.readBlock(index);
    this.#readOn(index, end);
    const block = await reading;
    this.#hold(index, block);
    return block;
  }

  #hold(index: number, block: Uint8Array): void {
    if (!this.#isClosed) this.#current = { index, block };
  }

  /** Asks for the blocks after this one, as far as they are there and hold bytes before `end`; lets go of all others. */
  #readOn(index: number, end: number): void {
    if (this.#isClosed) return;
    if (index !== this.#position && index - 1 !== this.#position) this.#depth = 1;
    this.#position = index;
    if (this.#current?.index !== index) this.#current = undefined;
    const last = Math.min(index + this.#depth, this.#indexOf(Math.min(end, this.#sizeBytes) - 1));
    for (const held of this.#ahead.keys()) if (held <= index || held > index + MAX_DEPTH) this.#letGo(held);
    for (let next = index + 1; next <= last; next += 1) {
      if (this.#ahead.has(next) || this.#source.peekBlock(next) !== undefined) continue;
      if (!this.#mayRead(next) || !this.#ask(next)) return;
    }
  }

  /** Asks for a block before its turn; false when the budget does not allow it. */
  #ask(index: number): boolean {
    const { blockSizeBytes, budget } = this.#rules;
    const sizeBytes = spanSize(spanOfBlock(index, blockSizeBytes, this.#sizeBytes));
    if (!budget.take(sizeBytes)) return false;
    const ahead: Ahead = { sizeBytes, reading: this.#source.readBlock(index), block: undefined, isOver: false };
    this.#ahead.set(index, ahead);
    ahead.reading.then(
      (block) => {
        ahead.block = block;
        if (ahead.isOver) budget.giveBack(sizeBytes);
      },
      () => {
        budget.giveBack(sizeBytes);
        if (!ahead.isOver) this.#ahead.delete(index);
      },
    );
    return true;
  }

  #letGo(index: number): void {
    const ahead = this.#ahead.get(index);
    if (ahead === undefined) return;
    this.#ahead.delete(index);
    ahead.isOver = true;
    if (ahead.block !== undefined) this.#rules.budget.giveBack(ahead.sizeBytes);
  }

  #slice(block: Uint8Array, index: number, offset: number, end: number): Uint8Array {
    return sliceOfBlock(block, index, this.#rules.blockSizeBytes, offset, end);
  }

  #indexOf(offset: number): number {
    return Math.floor(offset / this.#rules.blockSizeBytes);
  }
}

/** More bytes than these, where they are not in memory, are not read in the same tick: others wait for their turn. */
export const MAX_NOW_BYTES = 256 * 1024;

/** The part of a block that lies in `[offset, end)`, without a copy. */
function sliceOfBlock(
  block: Uint8Array,
  index: number,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array {
  const blockStart = index * blockSizeBytes;
  if (offset === blockStart && end >= blockStart + block.length) return block;
  return block.subarray(offset - blockStart, Math.min(end - blockStart, block.length));
}

/** All bytes of a span, chunk by chunk from wherever `peek` has them; undefined where it has none of some. */
export function chunksOf(
  { start, end }: Span,
  peek: (offset: number, end: number) => Uint8Array | undefined,
): Uint8Array[] | undefined {
  const chunks: Uint8Array[] = [];
  for (let offset = start; offset < end; ) {
    const chunk = peek(offset, end);
    if (chunk === undefined) return undefined;
    chunks.push(chunk);
    offset += chunk.length;
  }
  return chunks;
}

/** All bytes of a span of an entry that can be had in the same tick; undefined where some of them cannot. */
export function bytesAtOnce(
  entry: Pick<StoredEntry, 'peekBlock' | 'readNow'>,
  blockSizeBytes: number,
  { start, end }: Span,
): readonly Uint8Array[] | undefined {
  const chunks: Uint8Array[] = [];
  for (let offset = start; offset < end; ) {
    const chunk = peekBytes(entry, blockSizeBytes, offset, end);
    if (chunk === undefined) return undefined;
    chunks.push(chunk);
    offset += chunk.length;
  }
  return chunks;
}

/** Bytes from `offset` on that this process has in memory, at most to the end of their block. */
export function peekKeptBytes(
  entry: Pick<StoredEntry, 'peekBlock'>,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array | undefined {
  const index = Math.floor(offset / blockSizeBytes);
  const block = entry.peekBlock(index);
  return block && sliceOfBlock(block, index, blockSizeBytes, offset, end);
}

/** Bytes from `offset` on that an entry has in the same tick, at most to the end of their block: in memory, or nearly so. */
export function peekBytes(
  entry: Pick<StoredEntry, 'peekBlock' | 'readNow'>,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array | undefined {
  const kept = peekKeptBytes(entry, blockSizeBytes, offset, end);
  return kept ?? (end - offset > MAX_NOW_BYTES ? undefined : entry.readNow?.(offset, end));
}

/** A number of bytes that many share: what one takes, the others cannot have until it is given back. */
export class ByteBudget {
  readonly #maxBytes: number;
  #takenBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** What is taken now, in bytes. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Takes so many bytes, or none of them where there are fewer left; tells whether it did. */
  take(bytes: number): boolean {
    if (this.#takenBytes + bytes > this.#maxBytes) return false;
    this.#takenBytes += bytes;
    return true;
  }

  /** Gives back what was taken. */
  giveBack(bytes: number): void {
    this.#takenBytes -= bytes;
  }
}
