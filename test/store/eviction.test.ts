/** The eviction of the disk store: SIEVE over the rows of its index, also over restarts, with entries that are held. */

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DiskIndex } from '../../src/store/disk/index/disk-index.ts';
import { IndexConnection } from '../../src/store/disk/index/index-connection.ts';
import { Instances } from '../../src/store/disk/index/instances.ts';
import { Eviction } from '../../src/store/disk/space/eviction.ts';
import type { Sharing } from '../../src/store/store.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { SieveModel } from '../support/stores/eviction-models.ts';
import { sampleMetadata } from '../support/stores/stored-sample.ts';

/** An index of entries of one byte each, and its eviction. */
class EvictedIndex {
  readonly held = new Set<string>();
  readonly #connection: IndexConnection;
  readonly #index: DiskIndex;
  readonly #eviction: Eviction;

  constructor(dir: string, sharing?: Pick<Sharing, 'instance' | 'isFirst' | 'fallen'>) {
    const emit = () => {};
    const none = () => {};
    const isHeld = (generation: string) => this.held.has(generation);
    this.#connection = new IndexConnection({ dir, blockSizeBytes: 1024, emit, isShared: sharing !== undefined });
    const connection = this.#connection;
    const instances = new Instances(connection, sharing);
    this.#index = new DiskIndex({ connection, now: () => 1, emit, onRemoved: none, onFilesUnneeded: none });
    this.#eviction = new Eviction({ connection, index: this.#index, instances, isHeld, now: () => 0 });
  }

  get allocatedBytes(): number {
    return this.#index.allocatedBytes;
  }

  put(name: string): void {
    const place = { key: name, variant: '', generation: name, sizeBytes: 0, isInline: true, isComplete: true };
    this.#index.put({ entry: { ...place, metadata: sampleMetadata() }, metadata: '{}', allocatedBytes: 1 });
    this.#index.release(name);
  }

  touch(name: string): void {
    this.#eviction.touch(name);
  }

  /** Takes steps until an entry is evicted or none can be; returns which of `names` are left. */
  evict(names: readonly string[]): string[] {
    const before = this.allocatedBytes;
    while (this.allocatedBytes === before && this.#eviction.step(1));
    return names.filter((name) => this.#index.has(name));
  }

  /** Takes at most `most` steps, until one reports that nothing is left to do; returns how many. */
  steps(most: number): number {
    for (let steps = 1; steps < most; steps += 1) if (!this.#eviction.step(1)) return steps;
    return most;
  }

  /** Writes the uses to the index. */
  flush(): void {
    this.#eviction.flush();
  }

  close(): void {
    this.#eviction.flush();
    this.#connection.close();
  }
}

async function openIndex(): Promise<{ dir: string; index: EvictedIndex }> {
  const dir = await temporaryDirectory();
  const index = new EvictedIndex(dir);
  onTestFinished(() => index.close());
  return { dir, index };
}

const letters = [...'abcdefgh'];

it('the eviction takes the same entries as the model in random use, over restarts too', async () => {
  const steps = fc.array(fc.oneof(fc.constant('restart' as const), fc.nat(9)), { minLength: 5, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 7 }), async (chosen, capacity) => {
      const dir = await temporaryDirectory();
      let index = new EvictedIndex(dir);
      const model = new SieveModel(capacity);
      for (const step of chosen) {
        if (step === 'restart') {
          index.close();
          index = new EvictedIndex(dir);
          continue;
        }
        const name = `n${step}`;
        const before = model.names;
        const { isHit, evicted } = model.use(name);
        if (isHit) index.touch(name);
        else if (evicted !== undefined) expect(index.evict(before)).toEqual(before.filter((each) => each !== evicted));
        if (!isHit) index.put(name);
        expect(index.allocatedBytes).toBe(model.names.length);
      }
      index.close();
    }),
    { numRuns: 30 },
  );
});

describe('an entry', () => {
  it('that is held is not evicted, and the hand goes on', async () => {
    const { index } = await openIndex();
    for (const name of letters) index.put(name);
    for (const name of ['a', 'b']) index.held.add(name);
    expect(index.evict(letters)).toEqual([...'abdefgh']);
    index.held.clear();
    expect(index.evict(letters)).toEqual([...'abefgh']);
  });

  it('is evicted although all are in constant use', async () => {
    const { index } = await openIndex();
    for (const name of letters) index.put(name);
    const touched: string[] = [];
    // Each entry that the eviction looks at is used again at once.
    index.held.has = (name) => {
      touched.push(name);
      index.touch(name);
      return false;
    };
    expect(index.evict(letters)).toHaveLength(7);
    expect(touched.length).toBeLessThan(5 * letters.length);
  });

  it('is not evicted when all are held, and the search ends', async () => {
    const { index } = await openIndex();
    for (const name of letters) {
      index.put(name);
      index.held.add(name);
    }
    expect(index.evict(letters)).toEqual(letters);
    index.held.delete('g');
    expect(index.evict(letters)).toEqual([...'abcdefh']);
  });

  it('that is put again goes to the end of the order', async () => {
    const { index } = await openIndex();
    for (const name of letters) index.put(name);
    index.touch('a');
    index.put('a');
    expect(index.evict(letters)).toEqual([...'acdefgh']);
  });
});

it('the hand passes many used entries over several steps', async () => {
  const { index } = await openIndex();
  const names = Array.from({ length: 300 }, (_, at) => `n${at}`);
  for (const name of names) index.put(name);
  for (const name of names) if (name !== 'n250') index.touch(name);
  expect(index.evict(names)).toEqual(names.filter((name) => name !== 'n250'));
  expect(index.evict(names)).toEqual(names.filter((name) => name !== 'n250' && name !== 'n0'));
});

it('an eviction ends while another process keeps the index locked, although all entries are in use', async () => {
  const dir = await temporaryDirectory();
  const index = new EvictedIndex(dir, { instance: 'w1', isFirst: true, fallen: [] });
  onTestFinished(() => index.close());
  const names = Array.from({ length: 200 }, (_, at) => `n${at}`);
  for (const name of names) index.put(name);
  for (const name of names) index.touch(name);
  index.flush();
  const other = new DatabaseSync(join(dir, 'index.sqlite'));
  onTestFinished(() => other.close());
  other.exec('BEGIN IMMEDIATE');
  expect(index.steps(100)).toBeLessThan(100);
  other.exec('ROLLBACK');
  expect(index.evict(names).length).toBeLessThan(names.length);
});

it('ten thousand uses are kept over a restart', async () => {
  const { dir, index } = await openIndex();
  const names = Array.from({ length: 10_000 }, (_, at) => `n${at}`);
  for (const name of names) index.put(name);
  for (const name of names.slice(0, -1)) index.touch(name);
  index.close();
  const reopened = new EvictedIndex(dir);
  onTestFinished(() => reopened.close());
  expect(reopened.evict(names)).toHaveLength(9999);
  expect(reopened.evict(['n9999', 'n0'])).toEqual([]);
});
