/** A store driven by random steps beside the simplest model of one: lists of entries in a map. */

import fc from 'fast-check';
import { expect } from 'vitest';
import type { EntryReader, EntryWriter, Store, StoredEntry } from '../../src/store/store.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { readEntry, sampleMetadata } from '../support/stored-sample.ts';
import type { CreateStore } from './store-contract.ts';

interface ModelEntry {
  readonly variant: string;
  readonly generation: string;
  readonly seed: number;
  readonly sizeBytes: number;
  mark: number | string;
}

interface ModelWriter {
  readonly writer: EntryWriter;
  readonly key: string;
  readonly variant: string;
  readonly seed: number;
  readonly sizeBytes: number;
  written: number;
}

interface Committed {
  readonly entry: StoredEntry;
  readonly seed: number;
}

const stepNames = [
  'open',
  'write',
  'commit',
  'dispose',
  'find',
  'freshen',
  'removeEntry',
  'removeKey',
  'openReader',
  'read',
  'closeReader',
] as const;

/** One step: what to do, and two numbers that choose with what. */
interface Step {
  readonly name: (typeof stepNames)[number];
  readonly which: number;
  readonly detail: number;
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    // Writing and committing more often than the rest, or little would ever be stored.
    name: fc.constantFrom(...stepNames, 'open', 'write', 'write', 'write', 'commit', 'commit'),
    which: fc.nat(5),
    detail: fc.nat(7),
  }),
  { minLength: 20, maxLength: 80 },
);

/** Runs random steps on stores with room enough; after each step the store tells what the model does. */
export async function storeModel(create: CreateStore, blockSizeBytes: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(steps, async (chosen) => {
      const store = await create({ maxSizeBytes: 8192 * blockSizeBytes, blockSizeBytes });
      try {
        const model = new StoreModel(store);
        for (const step of chosen) await model.take(step);
        await model.end();
      } finally {
        await store.close();
      }
    }),
    { numRuns: 30 },
  );
}

class StoreModel {
  readonly #store: Store;
  readonly #entries = new Map<string, ModelEntry[]>();
  readonly #writers: ModelWriter[] = [];
  readonly #committed: Committed[] = [];
  readonly #readers: (Committed & { reader: EntryReader })[] = [];
  #seed = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  async take({ name, which, detail }: Step): Promise<void> {
    await this.#steps[name](which, detail);
  }

  /** Everything that the model knows is there, and nothing else; then gives all back. */
  async end(): Promise<void> {
    for (let which = 0; which < 3; which += 1) await this.#steps.find(which, 0);
    for (const { reader } of this.#readers) reader.close();
    for (const { writer } of this.#writers) await writer[Symbol.asyncDispose]();
  }

  readonly #steps: Record<Step['name'], (which: number, detail: number) => Promise<void>> = {
    open: async (which, detail) => {
      this.#seed += 1;
      const block = this.#store.blockSizeBytes;
      const sizeBytes = [0, 1, block - 1, block, block + 1, 2 * block, 3 * block - 1, 4 * block][detail] ?? 0;
      const place = { key: keyOf(which), variant: which > 2 ? 'b' : 'a', seed: this.#seed, sizeBytes };
      const writer = await this.#store.openWriter({
        ...place,
        metadata: sampleMetadata('unfinished'),
        sizeBytes: detail % 2 === 0 ? sizeBytes : undefined,
      });
      this.#writers.push({ ...place, writer, written: 0 });
    },
    write: async (which) => {
      const chosen = pick(this.#writers, which);
      if (chosen !== undefined) await this.#writeNext(chosen);
    },
    commit: async (which) => {
      const chosen = pick(this.#writers, which);
      if (chosen === undefined) return;
      const { writer, key, variant, seed, sizeBytes } = chosen;
      while (chosen.written < sizeBytes) await this.#writeNext(chosen);
      const entry = await writer.commit({ metadata: sampleMetadata(seed), sizeBytes });
      const others = this.#under(key).filter((other) => other.variant !== variant);
      this.#entries.set(key, [{ variant, generation: entry.generation, seed, sizeBytes, mark: seed }, ...others]);
      this.#committed.push({ entry, seed });
      await this.#steps.dispose(which, 0);
    },
    dispose: async (which) => {
      const chosen = pick(this.#writers, which);
      if (chosen === undefined) return;
      this.#writers.splice(this.#writers.indexOf(chosen), 1);
      await chosen.writer[Symbol.asyncDispose]();
    },
    find: async (which) => {
      const expected = this.#under(keyOf(which));
      const told = expected.map(({ variant, generation, sizeBytes, mark }) => ({
        variant,
        generation,
        sizeBytes,
        metadata: sampleMetadata(mark),
      }));
      const found = await this.#store.find(keyOf(which));
      for (const entries of [found, this.#store.peek(keyOf(which)) ?? found]) {
        expect(entries.map(plain)).toEqual(told);
      }
      for (const [at, entry] of found.entries()) {
        const { sizeBytes, seed } = expected[at] as ModelEntry;
        expect(await readEntry(this.#store, entry)).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
      }
    },
    freshen: async (which, detail) => {
      const chosen = pick(this.#committed, which);
      if (chosen === undefined) return;
      const current = this.#current(chosen.entry);
      const fresh = await this.#store.replaceMetadata(chosen.entry, sampleMetadata(`fresh ${detail}`));
      expect(fresh?.generation).toBe(current?.generation);
      if (current !== undefined) current.mark = `fresh ${detail}`;
    },
    removeEntry: async (which) => {
      const chosen = pick(this.#committed, which);
      if (chosen === undefined) return;
      const { key } = chosen.entry;
      const current = this.#current(chosen.entry);
      await this.#store.removeEntry(chosen.entry);
      this.#entries.set(
        key,
        this.#under(key).filter((other) => other !== current),
      );
    },
    removeKey: async (which) => {
      expect(await this.#store.removeKey(keyOf(which))).toBe(this.#under(keyOf(which)).length);
      this.#entries.delete(keyOf(which));
    },
    openReader: async (which) => {
      const chosen = pick(this.#committed, which);
      if (chosen === undefined || this.#current(chosen.entry) === undefined) return;
      this.#readers.push({ ...chosen, reader: await chosen.entry.open() });
    },
    read: async (which, detail) => {
      const chosen = pick(this.#readers, which);
      if (chosen === undefined) return;
      const block = this.#store.blockSizeBytes;
      const { sizeBytes } = chosen.entry;
      const start = Math.floor(detail / 2) * block;
      if (start >= sizeBytes) return;
      const bytes = await chosen.reader.readBlock(Math.floor(detail / 2));
      const expected = patternBytes(start, Math.min(start + block, sizeBytes), chosen.seed);
      expect(Buffer.compare(bytes, expected)).toBe(0);
    },
    closeReader: async (which) => {
      const chosen = pick(this.#readers, which);
      if (chosen === undefined) return;
      this.#readers.splice(this.#readers.indexOf(chosen), 1);
      chosen.reader.close();
    },
  };

  async #writeNext(chosen: ModelWriter): Promise<void> {
    const { writer, sizeBytes, seed, written } = chosen;
    const block = this.#store.blockSizeBytes;
    if (written >= sizeBytes) return;
    const end = Math.min(written + block, sizeBytes);
    await writer.writeBlock(written / block, patternBytes(written, end, seed));
    chosen.written = end;
  }

  #under(key: string): ModelEntry[] {
    return this.#entries.get(key) ?? [];
  }

  #current(entry: StoredEntry): ModelEntry | undefined {
    return this.#under(entry.key).find((other) => other.generation === entry.generation);
  }
}

function keyOf(which: number): string {
  return `https://example.org/${which % 3}`;
}

/** One of a list, the last ones more likely; undefined when it is empty. */
function pick<T>(list: readonly T[], which: number): T | undefined {
  return list.at(-1 - (which % Math.max(1, list.length)));
}

function plain({ variant, generation, sizeBytes, metadata }: StoredEntry) {
  return { variant, generation, sizeBytes, metadata };
}
