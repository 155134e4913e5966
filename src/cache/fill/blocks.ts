/**
 * Keeps the blocks of a generation that is being filled: in the store, on their way to it, or in memory for readers when the
 * store takes no more. Verifies the digest of the body (RFC 9530) before its last block can be read.
 */

import { createHash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { type Span, SpanSet } from '../../bytes/span.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { Digest } from '../../semantics/digest.ts';
import { type BlockSource, type EntryWriter, StoreFault } from '../../store/store.ts';
import { peekBytes } from '../read/read-ahead.ts';
import type { Arrived } from './fill.ts';
import type { PartSource } from './part-source.ts';
import type { Waiters } from './readers.ts';

/** Options of a block keeper. */
interface BlockKeeperOptions {
  readonly writer: EntryWriter;
  readonly blockSizeBytes: number;
  /** The length of the whole; undefined while it is not known. The blocks that the writer has already count only where it is known. */
  readonly sizeBytes: number | undefined;
  readonly source: Pick<PartSource, 'isProvable'>;
  /** Bytes of each fill that are held for readers once the store takes no more. */
  readonly windowBytes: number;
  /** Whether a reader may still ask for some of these bytes. */
  readonly isWanted: (bytes: Span) => boolean;
  /** The lowest offset, `from` or more, that a reader may ask for next; undefined when there is no such reader. */
  readonly lowestWanted: (from: number) => number | undefined;
  readonly waiters: Waiters;
  /** Called once, when the store takes no more. */
  readonly onStoreFault: (fault: StoreFault) => void;
}

/** Keeps the blocks of one generation. */
export class BlockKeeper implements BlockSource {
  /** Indexes of the present blocks. */
  readonly present: SpanSet;
  readonly #options: BlockKeeperOptions;
  readonly #held = new Map<number, Arrived>();
  /** The blocks that came with parts, and those that were present at first. */
  readonly #joined: SpanSet;
  /** Blocks that must not be read before the whole has confirmed them. */
  #doubted: SpanSet | undefined;
  /** The CRC-32 of each block where no strong validator proves any. It shows whether a lost block comes back with other bytes. */
  #sums: Map<number, number> | undefined;
  /** The end (exclusive) of a block that is shorter than the others: it is the last one. */
  #end = Number.POSITIVE_INFINITY;
  #isStoring = true;
  /** Whether other processes wait for blocks to be in the store. */
  #isStoreWatched = false;

  constructor(options: BlockKeeperOptions) {
    this.#options = options;
    const count = Math.ceil((options.sizeBytes ?? 0) / options.blockSizeBytes);
    this.present = SpanSet.where(count, (index) => options.writer.hasBlock(index));
    this.#joined = new SpanSet(this.present);
  }

  /** Whether the store still takes blocks. */
  get isStoring(): boolean {
    return this.#isStoring;
  }

  /** Whether the origin was found lying about ranges, so that the blocks of parts are compared with the whole. */
  get isDoubting(): boolean {
    return this.#doubted !== undefined;
  }

  /** Whether there are doubted blocks that have not been compared yet. */
  get hasDoubts(): boolean {
    return this.#doubted !== undefined && this.#doubted.size > 0;
  }

  /** Counts the blocks of parts as absent from now on, until the whole has brought them too. */
  doubt(): void {
    this.#doubted = this.#joined;
    for (const span of this.#joined) this.present.remove(span);
  }

  /** Checks whether the byte at `offset` is present. */
  has(offset: number): boolean {
    return offset < this.#end && this.present.has(Math.floor(offset / this.#options.blockSizeBytes));
  }

  /** Returns the end (exclusive) of the bytes from `offset` on that the store has; `offset` where it does not have the first one. */
  storedTo(offset: number): number {
    this.#isStoreWatched = true;
    const { blockSizeBytes } = this.#options;
    const index = Math.floor(offset / blockSizeBytes);
    const writing = [...this.#held.keys()].filter((held) => held >= index);
    const end = Math.min(this.present.endOfRun(index), ...writing) * blockSizeBytes;
    return Math.max(offset, Math.min(end, this.#end));
  }

  /** Returns bytes from `offset` on, up to `end` (exclusive), that are in memory; undefined where there are none. */
  peek(offset: number, end: number): Uint8Array | undefined {
    const { blockSizeBytes } = this.#options;
    const isHidden = offset >= this.#end || this.#doubted?.has(Math.floor(offset / blockSizeBytes)) === true;
    return isHidden ? undefined : peekBytes(this, blockSizeBytes, offset, end);
  }

  /** Returns a block that is in memory; undefined where it is not. */
  peekBlock(index: number): Uint8Array | undefined {
    return this.#held.get(index)?.bytes ?? this.#options.writer.peekBlock(index);
  }

  /** Returns a present block. Throws `ProxyError` `bytes_gone` when it is damaged; the block is absent from then on. */
  async readBlock(index: number): Promise<Uint8Array> {
    try {
      return this.peekBlock(index) ?? (await this.#options.writer.readBlock(index));
    } catch (thrown) {
      if (toProxyError(thrown).code === 'bytes_gone') this.present.remove({ start: index, end: index + 1 });
      throw thrown;
    }
  }

  /**
   * Gives a block to the store, or holds it for readers when the store takes no more. A present block stays; the new block is
   * compared with it unless a strong validator proves the new block. Throws `ProxyError` `generation_changed` when the new block
   * differs from the present one, or from the one that was there before it was damaged.
   */
  async keep(block: Arrived): Promise<void> {
    const { index, bytes, isProven, isOfWhole, onKept } = block;
    if (this.present.has(index) && (isProven || (await this.#confirm(index, bytes)))) return;
    if (isOfWhole && this.#doubted?.has(index) === true) {
      const isKept = await this.#confirm(index, bytes);
      this.#doubted.remove({ start: index, end: index + 1 });
      if (isKept) {
        this.present.add({ start: index, end: index + 1 });
        return;
      }
    }
    if (!this.#options.source.isProvable) this.#compareSum(index, bytes);
    if (bytes.length < this.#options.blockSizeBytes) this.#end = index * this.#options.blockSizeBytes + bytes.length;
    this.#held.set(index, block);
    if (!isOfWhole) this.#joined.add({ start: index, end: index + 1 });
    if (isOfWhole || !this.isDoubting) this.present.add({ start: index, end: index + 1 });
    onKept();
    const storing = this.#isStoring ? await this.store(() => this.#options.writer.writeBlock(index, bytes)) : undefined;
    if (storing !== undefined) this.#held.delete(index);
    if (storing !== undefined && this.#isStoreWatched) this.#options.waiters.changed();
    if (!this.#isStoring) await this.#waitForReaders(block);
  }

  /**
   * Verifies the digest of the present blocks and of `last`, which is kept afterwards. False when a block is damaged; all damaged
   * blocks are absent from then on. Throws `ProxyError` when the digest differs.
   */
  async verify(check: BodyCheck, blockCount: number, last?: Arrived): Promise<boolean> {
    if (check.isIdle) return true;
    try {
      await check.verify(blockCount, async (index) =>
        index === last?.index ? last.bytes : await this.readBlock(index),
      );
      return true;
    } catch (thrown) {
      if (toProxyError(thrown).code !== 'bytes_gone') throw thrown;
      for (let index = 0; index < blockCount; index += 1) {
        if (this.present.has(index)) await this.readBlock(index).catch(() => {});
      }
      return false;
    }
  }

  /** Checks whether all blocks of a representation of this length are present. */
  isWhole(sizeBytes: number): boolean {
    return this.present.hasAll({ start: 0, end: Math.ceil(sizeBytes / this.#options.blockSizeBytes) });
  }

  /** Runs a storing step. Undefined when the store refuses: it takes no more from then on, and later blocks are held for readers. */
  async store<T>(step: () => Promise<T>): Promise<{ readonly value: T } | undefined> {
    try {
      return { value: await step() };
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
      this.#refuse(thrown);
      return undefined;
    }
  }

  #refuse(fault: StoreFault): void {
    if (!this.#isStoring) return;
    this.#isStoring = false;
    this.#options.onStoreFault(fault);
    this.#options.waiters.changed();
  }

  /** Compares bytes with the stored block. False when that block is damaged. */
  async #confirm(index: number, bytes: Uint8Array): Promise<boolean> {
    let known: Uint8Array;
    try {
      known = await this.readBlock(index);
    } catch (thrown) {
      if (toProxyError(thrown).code !== 'bytes_gone') throw thrown;
      return false;
    }
    if (Buffer.compare(known, bytes) !== 0) throw new ProxyError('generation_changed', { detail: 'other bytes' });
    return true;
  }

  /** Compares a block with the one that was there before it was damaged, which readers may have read. */
  #compareSum(index: number, bytes: Uint8Array): void {
    const sum = crc32(bytes);
    this.#sums ??= new Map();
    if ((this.#sums.get(index) ?? sum) !== sum) throw new ProxyError('generation_changed', { detail: 'other bytes' });
    this.#sums.set(index, sum);
  }

  /** Where the store takes no more, a fill goes no faster than the slowest reader that is at or after the start of the fill. */
  async #waitForReaders({ index, from }: Arrived): Promise<void> {
    const { waiters, blockSizeBytes, windowBytes, lowestWanted } = this.#options;
    // Readers that were not allowed to see the block before it was verified can read it now.
    waiters.changed();
    await waiters.wait(() => {
      this.#releaseRead();
      const lowest = lowestWanted(from);
      if (lowest === undefined) throw new ProxyError('client_gone', { detail: 'not storable, and no client reads it' });
      return (index + 1) * blockSizeBytes - lowest < windowBytes;
    });
  }

  /** Drops the held blocks that all readers have passed; up to `windowBytes` of them stay for a reader that may go back, the newest. */
  #releaseRead(): void {
    const { blockSizeBytes, windowBytes, isWanted, lowestWanted } = this.#options;
    const passed = [...this.#held.values()].filter(({ index, from }) => {
      const lowest = lowestWanted(from);
      return lowest === undefined || (index + 1) * blockSizeBytes <= lowest;
    });
    let spareBytes = windowBytes;
    for (const { index } of passed.reverse()) {
      const start = index * blockSizeBytes;
      if (spareBytes >= blockSizeBytes && isWanted({ start, end: start + blockSizeBytes })) {
        spareBytes -= blockSizeBytes;
        continue;
      }
      this.#held.delete(index);
      this.present.remove({ start: index, end: index + 1 });
    }
  }
}

/** Hashes a body as its blocks arrive, and verifies it before its last block can be read. */
export class BodyCheck {
  readonly #stated: Digest | undefined;
  readonly #known: string | undefined;
  /** Undefined where no digest is wanted or stated: most bodies are never hashed. */
  readonly #hashes: BodyHashes | undefined;
  #digest: string | undefined;

  /**
   * `stated` is the digest that the origin states. `known` is the SHA-256 (hexadecimal) of the body, where it was whole before.
   * `wantsDigest`: the SHA-256 is computed whatever is stated.
   */
  constructor(stated: Digest | undefined, wantsDigest: boolean, known?: string) {
    const isWanted = wantsDigest || known !== undefined;
    this.#stated = stated;
    this.#known = known;
    if (isWanted || stated !== undefined) {
      const wanted = isWanted ? (['sha256'] as const) : [];
      this.#hashes = new BodyHashes(new Set([...wanted, ...(stated === undefined ? [] : [stated.algorithm])]));
    }
  }

  /** Whether there is nothing to verify or to compute. */
  get isIdle(): boolean {
    return this.#hashes === undefined;
  }

  /** Whether the last block has to be held back until the body is verified. */
  get isVerifying(): boolean {
    return this.#stated !== undefined || this.#known !== undefined;
  }

  /** Takes an arrived block, which is hashed if it is the next one in order. */
  add(index: number, bytes: Uint8Array): void {
    this.#hashes?.add(index, bytes);
  }

  /** Checks whether all blocks before `blockCount` have arrived in order. */
  hasAll(blockCount: number): boolean {
    return (this.#hashes?.count ?? 0) >= blockCount;
  }

  /** The SHA-256 of the whole, hexadecimal, once it was verified; undefined where it was not computed. */
  get digest(): string | undefined {
    return this.#digest;
  }

  /**
   * Verifies the whole; may be called more than once. Throws `ProxyError` `origin_digest_mismatch` or `generation_changed`, and the
   * errors of `readBlock`.
   */
  async verify(blockCount: number, readBlock: (index: number) => Promise<Uint8Array>): Promise<void> {
    if (this.#hashes === undefined) return;
    const hashes = await this.#hashes.finish(blockCount, readBlock);
    const sha256 = hashes.get('sha256');
    if (this.#stated !== undefined && hashes.get(this.#stated.algorithm) !== this.#stated.hex) {
      const detail = `the ${this.#stated.algorithm} of the whole differs`;
      throw new ProxyError('origin_digest_mismatch', { detail });
    }
    if (this.#known !== undefined && sha256 !== this.#known) {
      throw new ProxyError('generation_changed', { detail: 'the whole has another digest than before' });
    }
    this.#digest = sha256;
  }
}

/** Number of blocks that are hashed before other work gets a turn of the event loop. */
const BLOCKS_IN_A_TURN = 16;

type HashAlgorithm = Digest['algorithm'];

/** Hashes blocks as they arrive, as long as they arrive in order; the others are read again at the end. */
export class BodyHashes {
  readonly #hashes: ReadonlyMap<HashAlgorithm, Hash>;
  #next = 0;
  #results: ReadonlyMap<HashAlgorithm, string> | undefined;

  constructor(algorithms: Iterable<HashAlgorithm>) {
    this.#hashes = new Map([...algorithms].map((algorithm) => [algorithm, createHash(algorithm)]));
  }

  /** Number of blocks that have arrived in order. */
  get count(): number {
    return this.#next;
  }

  /** Hashes a block if it is the next one in order. */
  add(index: number, bytes: Uint8Array): void {
    if (index !== this.#next) return;
    for (const hash of this.#hashes.values()) hash.update(bytes);
    this.#next += 1;
  }

  /**
   * Returns the hashes of `blockCount` blocks, hexadecimal. Blocks that did not arrive in order are read. Rejects as `readBlock`
   * does, and may then be called again. Calls may overlap. No block may be added after it has resolved.
   */
  async finish(
    blockCount: number,
    readBlock: (index: number) => Promise<Uint8Array>,
  ): Promise<ReadonlyMap<HashAlgorithm, string>> {
    while (this.#hashes.size > 0 && this.#next < blockCount) {
      this.add(this.#next, await readBlock(this.#next));
      // Blocks in memory are read without a pause, and other work needs its turn.
      if (this.#next % BLOCKS_IN_A_TURN === 0) await setImmediate();
    }
    this.#results ??= new Map([...this.#hashes].map(([algorithm, hash]) => [algorithm, hash.digest('hex')]));
    return this.#results;
  }
}
