/** Random steps on a store that other processes change at the same time, and checks of every read. */

import { ProxyError } from '../../../src/http/proxy-error.ts';
import { type Store, type StoredEntry, StoreFault } from '../../../src/store/store.ts';
import { sharedBlockBytes, sharedSizeBytes } from '../processes/sharing-messages.ts';
import { blockOf, storeTagged, taggedMetadata } from './stored-sample.ts';

const sizes = [0, 700, 30_000, 33_000, 70_000, 150_000];
const keyCount = 24;

/** Takes random steps on a store. The metadata of each entry has the seed of its bytes, so that reads can be verified. */
export class StoreHammer {
  readonly faults: Record<string, number> = {};
  steps = 0;
  readonly #store: Store;
  readonly #wrong: string[];
  #random: number;
  #seeds: number;

  constructor(store: Store, seed: number, wrong: string[]) {
    this.#store = store;
    this.#wrong = wrong;
    this.#random = seed;
    this.#seeds = seed * 1_000_000;
  }

  async step(): Promise<void> {
    this.steps += 1;
    const key = `https://example.org/${this.#below(keyCount)}`;
    const often = [this.#fill, this.#fill, this.#fill, this.#read, this.#read, this.#part, this.#resume];
    const seldom = [this.#freshen, this.#remove, this.#list];
    const steps = this.#below(6) === 0 ? seldom : often;
    const chosen = steps[this.#below(steps.length)] ?? this.#read;
    try {
      await chosen.call(this, key);
    } catch (error) {
      const reason =
        error instanceof StoreFault ? error.reason : error instanceof ProxyError ? error.code : 'unexpected';
      this.faults[reason] = (this.faults[reason] ?? 0) + 1;
      const isExpected =
        reason === 'no_room' ||
        reason === 'removed' ||
        reason === 'bytes_gone' ||
        /another process/.test(String(error));
      if (!isExpected) this.#wrong.push(`${chosen.name} ${error instanceof Error ? error.stack : String(error)}`);
    }
    const { usedBytes, entryCount } = this.#store.readUsage();
    if (usedBytes > sharedSizeBytes || entryCount < 0) this.#wrong.push(`the store takes ${usedBytes} bytes`);
  }

  async #fill(key: string): Promise<void> {
    const sample = { key, sizeBytes: this.#size(), seed: this.#nextSeed() };
    await storeTagged(this.#store, sample, [`tag-${this.#below(8)}`], this.#below(2) * (Date.now() + 200));
  }

  async #part(key: string): Promise<void> {
    const sample = { key, sizeBytes: 150_000, seed: this.#nextSeed() };
    const metadata = taggedMetadata(sample.seed, []);
    await using writer = await this.#store.openWriter({ ...sample, variant: '', metadata });
    for (let count = 0; count < 3; count += 1) {
      const index = this.#below(9);
      await writer.writeBlock(index, blockOf(sample, sharedBlockBytes, index));
      await writer.publish(metadata);
    }
  }

  async #resume(key: string): Promise<void> {
    const entry = (await this.#store.find(key)).find(({ isComplete }) => !isComplete);
    if (entry === undefined) return;
    await using writer = await this.#store.resume(entry);
    if (writer === undefined) return;
    const sample = sampleOf(entry);
    for (let index = 0; index * sharedBlockBytes < entry.sizeBytes; index += 1) {
      await writer.writeBlock(index, blockOf(sample, sharedBlockBytes, index));
      const bytes = await writer.readBlock(index);
      if (!isBlock(entry, index, bytes)) this.#wrong.push(`a resumed block of ${key} is wrong`);
    }
    await writer.commit({ metadata: entry.metadata, sizeBytes: entry.sizeBytes });
  }

  async #read(key: string): Promise<void> {
    for (const entry of await this.#store.find(key)) {
      if (entry.key !== key) this.#wrong.push(`${entry.key} was found under ${key}`);
      const reader = await entry.open();
      try {
        for (let index = 0; index * sharedBlockBytes < entry.sizeBytes; index += 1) {
          const bytes = reader.peekBlock(index) ?? (await reader.readBlock(index));
          if (!isBlock(entry, index, bytes)) this.#wrong.push(`a block of ${key} is wrong`);
        }
      } finally {
        reader.close();
      }
    }
  }

  async #freshen(key: string): Promise<void> {
    const [entry] = await this.#store.find(key);
    if (entry === undefined) return;
    await this.#store.replaceMetadata(entry, taggedMetadata(sampleOf(entry).seed, [`tag-${this.#below(8)}`, key]));
  }

  async #remove(key: string): Promise<void> {
    const way = this.#below(6);
    if (way === 0) await this.#store.removeTagged(`tag-${this.#below(8)}`);
    else if (way === 1) await this.#store.removePrefixed(key);
    else await this.#store.removeKey(key);
  }

  async #list(key: string): Promise<void> {
    const prefix = key.slice(0, -1);
    const { entries } = await this.#store.list({ kind: 'prefix', prefix }, 10);
    if (entries.some((entry) => !entry.key.startsWith(prefix))) this.#wrong.push('a page has what was not chosen');
  }

  #size(): number {
    return sizes[this.#below(sizes.length)] ?? 0;
  }

  #nextSeed(): number {
    this.#seeds += 1;
    return this.#seeds;
  }

  /** Returns a random integer below `count`, with a step of mulberry32. */
  #below(count: number): number {
    this.#random = (this.#random + 0x6d2b_79f5) | 0;
    let mixed = Math.imul(this.#random ^ (this.#random >>> 15), 1 | this.#random);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % count;
  }
}

function sampleOf({ key, sizeBytes, metadata }: StoredEntry) {
  const [, tag = ''] = metadata.fields.find(([name]) => name === 'etag') ?? [];
  return { key, sizeBytes, seed: Number(tag.replaceAll('"', '')) };
}

function isBlock(entry: StoredEntry, index: number, bytes: Uint8Array): boolean {
  return Buffer.compare(bytes, blockOf(sampleOf(entry), sharedBlockBytes, index)) === 0;
}
