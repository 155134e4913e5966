/** The eviction of the disk store: SIEVE over the rows of its index, what it keeps over a restart, and whom it spares. */

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

/** An index that entries of one byte are put into, with the eviction over it. */
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
    this.#eviction = new Eviction({ connection, index: this.#index, instances, isHeld });
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

  /** Takes steps until an entry has left or none may; gives the names of those that are left of these. */
  evict(names: readonly string[]): string[] {
    const before = this.allocatedBytes;
    while (this.allocatedBytes === before && this.#eviction.step(1));
    return names.filter((name) => this.#index.has(name));
  }

  /** Takes so many steps, or fewer where none is worth it any more; tells how many. */
  steps(most: number): number {
    for (let steps = 1; steps < most; steps += 1) if (!this.#eviction.step(1)) return steps;
    return most;
  }

  /** Writes what is in use. */
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

it('takes whom the model takes, whatever comes and is used, over restarts too', async () => {
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
  it('that is held stays, and the hand goes on', async () => {
    const { index } = await openIndex();
    for (const name of letters) index.put(name);
    for (const name of ['a', 'b']) index.held.add(name);
    expect(index.evict(letters)).toEqual([...'abdefgh']);
    index.held.clear();
    expect(index.evict(letters)).toEqual([...'abefgh']);
  });

  it('leaves though all are used all the time', async () => {
    const { index } = await openIndex();
    for (const name of letters) index.put(name);
    const touched: string[] = [];
    // Whoever is asked for is used again at once.
    index.held.has = (name) => {
      touched.push(name);
      index.touch(name);
      return false;
    };
    expect(index.evict(letters)).toHaveLength(7);
    expect(touched.length).toBeLessThan(5 * letters.length);
  });

  it('does not leave when all are held, and the search comes to an end', async () => {
    const { index } = await openIndex();
    for (const name of letters) {
      index.put(name);
      index.held.add(name);
    }
    expect(index.evict(letters)).toEqual(letters);
    index.held.delete('g');
    expect(index.evict(letters)).toEqual([...'abcdefh']);
  });

  it('of an earlier generation leaves no trace in the order', async () => {
    const { index } = await openIndex();
    for (const name of letters) index.put(name);
    index.touch('a');
    index.put('a');
    expect(index.evict(letters)).toEqual([...'acdefgh']);
  });
});

it('of many entries that are used, a few at a time are passed', async () => {
  const { index } = await openIndex();
  const names = Array.from({ length: 300 }, (_, at) => `n${at}`);
  for (const name of names) index.put(name);
  for (const name of names) if (name !== 'n250') index.touch(name);
  expect(index.evict(names)).toEqual(names.filter((name) => name !== 'n250'));
  expect(index.evict(names)).toEqual(names.filter((name) => name !== 'n250' && name !== 'n0'));
});

it('comes to an end while another process keeps the index locked, although all are in use', async () => {
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

it('more uses than are kept in memory are not forgotten', async () => {
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
