/**
 * The blocks of a generation that is being filled: in the store, on their way to it, or held for readers when the store takes
 * no more. Verifies the digest of the body (RFC 9530) before its last block can be read.
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

/** What a keeper is made with. */
interface BlockKeeperOptions {
  readonly writer: EntryWriter;
  readonly blockSizeBytes: number;
  /** The length of the whole where it is known; the blocks that the writer has already are counted then. */
  readonly sizeBytes: number | undefined;
  readonly source: Pick<PartSource, 'isProvable'>;
  /** How many bytes of each fill are held for readers once the store takes no more. */
  readonly windowBytes: number;
  /** Whether a reader may still ask for some of these bytes. */
  readonly isWanted: (bytes: Span) => boolean;
  /** The lowest offset, of `from` and more, that a reader may ask for next; undefined when there is no such reader. */
  readonly lowestWanted: (from: number) => number | undefined;
  readonly waiters: Waiters;
  /** Told when the store takes no more, once. */
  readonly onStoreFault: (fault: StoreFault) => void;
}

/** Keeps blocks and gives them back. */
export class BlockKeeper implements BlockSource {
  /** The indexes of the blocks that are there. */
  readonly present: SpanSet;
  readonly #options: BlockKeeperOptions;
  readonly #held = new Map<number, Arrived>();
  /** The blocks that are there and came with parts, and what was there at first. */
  readonly #joined: SpanSet;
  /** Blocks that are not to be read before the whole has shown that they are right. */
  #doubted: SpanSet | undefined;
  /** The CRC-32 of each block where nothing proves any: one that is lost can be told from another one then. */
  #sums: Map<number, number> | undefined;
  /** Where a block that is shorter than the others ends: nothing comes after it. */
  #end = Number.POSITIVE_INFINITY;
  #isStoring = true;

  constructor(options: BlockKeeperOptions) {
    this.#options = options;
    const count = Math.ceil((options.sizeBytes ?? 0) / options.blockSizeBytes);
    this.present = SpanSet.where(count, (index) => options.writer.hasBlock(index));
    this.#joined = new SpanSet(this.present);
  }

  /** Whether the store takes what comes. */
  get isStoring(): boolean {
    return this.#isStoring;
  }

  /** Whether the origin was found lying about ranges, so that what parts bring is to be compared with the whole. */
  get isDoubting(): boolean {
    return this.#doubted !== undefined;
  }

  /** Whether there are blocks that were not compared yet. */
  get hasDoubts(): boolean {
    return this.#doubted !== undefined && this.#doubted.size > 0;
  }

  /** What parts have brought counts as absent from now on, until the whole has brought it too. */
  doubt(): void {
    this.#doubted = this.#joined;
    for (const span of this.#joined) this.present.remove(span);
  }

  /** Whether the byte at `offset` is there. */
  has(offset: number): boolean {
    return offset < this.#end && this.present.has(Math.floor(offset / this.#options.blockSizeBytes));
  }

  /** Bytes from `offset` on that are in memory. */
  peek(offset: number, end: number): Uint8Array | undefined {
    const { blockSizeBytes } = this.#options;
    const isHidden = offset >= this.#end || this.#doubted?.has(Math.floor(offset / blockSizeBytes)) === true;
    return isHidden ? undefined : peekBytes(this, blockSizeBytes, offset, end);
  }

  /** A block that is in memory. */
  peekBlock(index: number): Uint8Array | undefined {
    return this.#held.get(index)?.bytes ?? this.#options.writer.peekBlock(index);
  }

  /** A block that is there. Throws `ProxyError` `bytes_gone` when it is damaged: it is absent from then on. */
  async readBlock(index: number): Promise<Uint8Array> {
    try {
      return this.peekBlock(index) ?? (await this.#options.writer.readBlock(index));
    } catch (thrown) {
      if (toProxyError(thrown).code === 'bytes_gone') this.present.remove({ start: index, end: index + 1 });
      throw thrown;
    }
  }

  /**
   * Gives a block to the store, or holds it for the readers when the store takes no more. One that is there stays; where
   * nothing proves that it is the same, it is compared. Throws `ProxyError` `generation_changed` when it is another
   * than is there, or than was there before it was damaged.
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
    if (!this.#isStoring) await this.#waitForReaders(block);
  }

  /**
   * Verifies what is there and the block that is about to be. False when something of it is damaged: all that is, is
   * absent from then on. Throws `ProxyError` when it is not what it should be.
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

  /** Whether all blocks of a representation of this length are there. */
  isWhole(sizeBytes: number): boolean {
    return this.present.hasAll({ start: 0, end: Math.ceil(sizeBytes / this.#options.blockSizeBytes) });
  }

  /** Does a step of storing. Undefined when the store refuses: it takes no more then, and what comes is held for readers. */
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

  /** Compares with what is there. False when that is damaged. */
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

  /** Compares with what was there before, which somebody may have read. */
  #compareSum(index: number, bytes: Uint8Array): void {
    const sum = crc32(bytes);
    this.#sums ??= new Map();
    if ((this.#sums.get(index) ?? sum) !== sum) throw new ProxyError('generation_changed', { detail: 'other bytes' });
    this.#sums.set(index, sum);
  }

  /** With no store behind it, a transfer goes no faster than the slowest of the readers that it has begun before. */
  async #waitForReaders({ index, from }: Arrived): Promise<void> {
    const { waiters, blockSizeBytes, windowBytes, lowestWanted } = this.#options;
    // Who was not to see the block before it was verified does not know of it yet.
    waiters.changed();
    await waiters.wait(() => {
      this.#releaseRead();
      const lowest = lowestWanted(from);
      if (lowest === undefined) throw new ProxyError('client_gone', { detail: 'not storable, and nobody reads it' });
      return (index + 1) * blockSizeBytes - lowest < windowBytes;
    });
  }

  /** Lets go of what all readers have passed; some blocks that a reader goes back to are held, those that came last. */
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

/** Hashes a body as its blocks come, and verifies it before its last block can be read. */
export class BodyCheck {
  readonly #stated: Digest | undefined;
  readonly #known: string | undefined;
  /** Undefined where nobody asks for a digest: most bodies are never hashed. */
  readonly #hashes: BodyHashes | undefined;
  #digest: string | undefined;

  /**
   * `stated` is what the origin says; `known` the SHA-256 of the very bytes, hexadecimal, where they were whole before.
   * `wantsDigest` tells whether the SHA-256 is wanted, whatever is stated.
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

  /** Whether there is nothing to verify or to tell. */
  get isIdle(): boolean {
    return this.#hashes === undefined;
  }

  /** Whether the last block has to be held back until the body is verified. */
  get isVerifying(): boolean {
    return this.#stated !== undefined || this.#known !== undefined;
  }

  /** Takes note of a block that has come. */
  add(index: number, bytes: Uint8Array): void {
    this.#hashes?.add(index, bytes);
  }

  /** Whether blocks up to this one (exclusive) have come in order. */
  hasAll(blockCount: number): boolean {
    return (this.#hashes?.count ?? 0) >= blockCount;
  }

  /** The SHA-256 of the whole, hexadecimal, once it was verified; undefined where it was not wanted. */
  get digest(): string | undefined {
    return this.#digest;
  }

  /**
   * Verifies the whole; once is enough, and more does no harm. Throws `ProxyError` `origin_digest_mismatch`,
   * `generation_changed`, and what `readBlock` throws.
   */
  async verify(blockCount: number, readBlock: (index: number) => Promise<Uint8Array>): Promise<void> {
    if (this.#hashes === undefined) return;
    const hashes = await this.#hashes.finish(blockCount, readBlock);
    const sha256 = hashes.get('sha256');
    if (this.#stated !== undefined && hashes.get(this.#stated.algorithm) !== this.#stated.hex) {
      const detail = `the ${this.#stated.algorithm} of the whole is another`;
      throw new ProxyError('origin_digest_mismatch', { detail });
    }
    if (this.#known !== undefined && sha256 !== this.#known) {
      throw new ProxyError('generation_changed', { detail: 'the whole has another digest than it had' });
    }
    this.#digest = sha256;
  }
}

/** How many blocks are hashed before others have their turn. */
const BLOCKS_IN_A_TURN = 16;

type HashAlgorithm = Digest['algorithm'];

/** Hashes blocks as they come, as long as they come in order; the others are read again at the end. */
export class BodyHashes {
  readonly #hashes: ReadonlyMap<HashAlgorithm, Hash>;
  #next = 0;
  #results: ReadonlyMap<HashAlgorithm, string> | undefined;

  constructor(algorithms: Iterable<HashAlgorithm>) {
    this.#hashes = new Map([...algorithms].map((algorithm) => [algorithm, createHash(algorithm)]));
  }

  /** How many blocks have come in order. */
  get count(): number {
    return this.#next;
  }

  /** Takes note of a block. */
  add(index: number, bytes: Uint8Array): void {
    if (index !== this.#next) return;
    for (const hash of this.#hashes.values()) hash.update(bytes);
    this.#next += 1;
  }

  /**
   * The hashes of `blockCount` blocks, hexadecimal; those that did not come in order are read. To be called until
   * it resolves, by several at once if they like, and nothing added after that. Rejects as `readBlock` does.
   */
  async finish(
    blockCount: number,
    readBlock: (index: number) => Promise<Uint8Array>,
  ): Promise<ReadonlyMap<HashAlgorithm, string>> {
    while (this.#hashes.size > 0 && this.#next < blockCount) {
      this.add(this.#next, await readBlock(this.#next));
      // Blocks in memory come without a pause, and others want their turn.
      if (this.#next % BLOCKS_IN_A_TURN === 0) await setImmediate();
    }
    this.#results ??= new Map([...this.#hashes].map(([algorithm, hash]) => [algorithm, hash.digest('hex')]));
    return this.#results;
  }
}
