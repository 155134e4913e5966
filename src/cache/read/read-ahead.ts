/**
 * Reads bytes at any offset out of blocks. Blocks are read ahead, so that the disk works while earlier bytes are being sent. All
 * readers share a budget for that.
 */

import { type Span, spanOfBlock, spanSize } from '../../bytes/span.ts';
import type { BlockSource, StoredEntry } from '../../store/store.ts';

/** How blocks are read ahead. */
export interface ReadAheadRules {
  readonly blockSizeBytes: number;
  /** Bytes that all readers together may have read ahead. A reader that gets nothing of it reads block by block. */
  readonly budget: ByteBudget;
}

/** The largest number of blocks that one reader has read ahead. */
const MAX_DEPTH = 4;

/** A block that is read ahead. Its bytes count against the budget until it is dropped. */
interface Ahead {
  readonly sizeBytes: number;
  readonly reading: Promise<Uint8Array>;
  block: Uint8Array | undefined;
  /** Whether the block was dropped: its turn has come, or never will. */
  isOver: boolean;
}

/**
 * Reads one generation for one reader, and holds its current block. While that block is read or sent, the next one is read ahead.
 * Each time the reader has to wait for a block that is read ahead, the depth grows by one: a reader slower than the disk keeps a
 * depth of one. Blocks in memory are neither read nor held. Nothing is read past an absent block. A read-ahead that fails before
 * its turn is dropped: the block is read again in its turn.
 */
export class ReadAhead {
  readonly #source: BlockSource;
  readonly #rules: ReadAheadRules;
  readonly #sizeBytes: number;
  readonly #mayRead: (index: number) => boolean;
  readonly #ahead = new Map<number, Ahead>();
  #current: { readonly index: number; readonly block: Uint8Array } | undefined;
  /** The index of the last requested block. */
  #position: number | undefined;
  #depth = 1;
  #isClosed = false;

  /** `sizeBytes` is the length of the whole, Infinity where it is unknown; `mayRead` tells whether a block may be read ahead now. */
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

  /** Returns bytes from `offset` that are in memory, at most to the end of their block; reads ahead up to `end` (exclusive). */
  peek(offset: number, end: number): Uint8Array | undefined {
    const index = this.#indexOf(offset);
    const block = this.#blockInMemory(index);
    if (block === undefined) return undefined;
    this.#readOn(index, end);
    return this.#slice(block, index, offset, end);
  }

  /**
   * Returns bytes from `offset`, at most to the end of their block; reads ahead up to `end` (exclusive). Rejects with
   * `ProxyError` `bytes_gone`.
   */
  async read(offset: number, end: number): Promise<Uint8Array> {
    const index = this.#indexOf(offset);
    const block = this.#blockInMemory(index) ?? (await this.#wait(index, end));
    this.#readOn(index, end);
    return this.#slice(block, index, offset, end);
  }

  /** Notes that the bytes at `offset` come from elsewhere; reads ahead up to `end` (exclusive). */
  pass(offset: number, end: number): void {
    this.#readOn(this.#indexOf(offset), end);
  }

  /** Drops all blocks. A block that is being read counts against the budget until it has been read. */
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

  /** Reads the next blocks ahead, as far as they hold bytes before `end` and may be read. Drops those that are not ahead any more. */
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

  /** Starts to read a block ahead; false when the budget does not allow it. */
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

/** Spans longer than this, in bytes, are not read from disk in the same tick: that would hold up other requests. */
export const MAX_SAME_TICK_BYTES = 256 * 1024;

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

/** Returns all bytes of a span of an entry in the same tick; undefined where some of them would have to be waited for. */
export function bytesInSameTick(
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

/** Returns bytes from `offset` that are in the memory of this process, at most to the end of their block. */
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

/** Returns bytes from `offset` in the same tick, at most to the end of their block: from memory, or by `StoredEntry.readNow`. */
export function peekBytes(
  entry: Pick<StoredEntry, 'peekBlock' | 'readNow'>,
  blockSizeBytes: number,
  offset: number,
  end: number,
): Uint8Array | undefined {
  const kept = peekKeptBytes(entry, blockSizeBytes, offset, end);
  return kept ?? (end - offset > MAX_SAME_TICK_BYTES ? undefined : entry.readNow?.(offset, end));
}

/** A shared budget of bytes. Bytes that are taken are unavailable to others until they are given back. */
export class ByteBudget {
  readonly #maxBytes: number;
  #takenBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Takes bytes, or none where fewer are left; returns whether it took them. */
  take(bytes: number): boolean {
    if (this.#takenBytes + bytes > this.#maxBytes) return false;
    this.#takenBytes += bytes;
    return true;
  }

  /** Gives back bytes that were taken. */
  giveBack(bytes: number): void {
    this.#takenBytes -= bytes;
  }
}
