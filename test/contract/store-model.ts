/** Compares a store with the simplest model of one, in random steps. */

import fc from 'fast-check';
import { expect } from 'vitest';
import type { BlockSource, EntryReader, EntryWriter, Store, StoredEntry } from '../../src/store/store.ts';
import { blockOf } from '../support/stores/stored-sample.ts';
import { EntryModel, type ModelBody, type ModelEntry, markedMetadata, modelTags } from './entry-model.ts';
import type { CreateStore } from './store-contract.ts';

interface ModelWriter {
  readonly writer: EntryWriter;
  readonly body: ModelBody;
  readonly isLengthKnown: boolean;
  isPublished: boolean;
}

/** An entry that the store has returned, and the body of its generation. */
interface Known {
  readonly entry: StoredEntry;
  readonly body: ModelBody;
}

const stepNames = [
  'open',
  'write',
  'publish',
  'commit',
  'dispose',
  'resume',
  'find',
  'freshen',
  'removeEntry',
  'removeKey',
  'removeTagged',
  'openReader',
  'read',
  'closeReader',
  'wait',
] as const;

/** One step: its action, and two numbers that choose its arguments. */
interface Step {
  readonly name: (typeof stepNames)[number];
  readonly which: number;
  readonly detail: number;
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    // Writes and commits are more frequent than other steps; otherwise little would ever be stored.
    name: fc.constantFrom(...stepNames, 'open', 'write', 'write', 'write', 'commit', 'commit'),
    which: fc.nat(5),
    detail: fc.nat(7),
  }),
  { minLength: 20, maxLength: 80 },
);

/** Runs random steps on stores with enough room. The results of each step must match the model. */
export async function storeModel(create: CreateStore, blockSizeBytes: number, numRuns: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(steps, async (chosen) => {
      const clock = { now: 1_700_000_000_000 };
      const store = await create({ maxSizeBytes: 8192 * blockSizeBytes, blockSizeBytes, now: () => clock.now });
      try {
        const model = new StoreModel(store, clock);
        for (const step of chosen) await model.take(step);
        await model.end();
      } finally {
        await store.close();
      }
    }),
    { numRuns },
  );
}

class StoreModel {
  readonly #store: Store;
  readonly #clock: { now: number };
  readonly #entries: EntryModel;
  readonly #writers: ModelWriter[] = [];
  readonly #known: Known[] = [];
  readonly #readers: (Known & { reader: EntryReader })[] = [];
  #seed = 0;

  constructor(store: Store, clock: { now: number }) {
    this.#store = store;
    this.#clock = clock;
    this.#entries = new EntryModel(clock);
  }

  async take({ name, which, detail }: Step): Promise<void> {
    await this.#steps[name](which, detail);
  }

  /** Checks that the store has exactly the entries of the model; then closes all readers and writers. */
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
      const isLengthKnown = (which + detail) % 3 > 0;
      const writer = await this.#store.openWriter({
        ...place,
        metadata: markedMetadata('unfinished'),
        sizeBytes: isLengthKnown ? sizeBytes : undefined,
      });
      const body = { ...place, present: new Set<number>() };
      this.#writers.push({ writer, body, isLengthKnown, isPublished: false });
    },
    write: async (which, detail) => {
      const chosen = pick(this.#writers, which);
      if (chosen === undefined) return;
      const count = this.#blockCount(chosen.body);
      const next = chosen.isLengthKnown ? detail % Math.max(1, count) : chosen.body.present.size;
      if (next < count) await this.#write(chosen, next);
      await this.#expectBlocks(chosen.writer, chosen.body);
    },
    publish: async (which, detail) => {
      const chosen = pick(this.#writers, which);
      if (chosen === undefined || !chosen.isLengthKnown) return;
      const { writer, body } = chosen;
      const pinPreviousUntil = this.#pinOf(detail);
      await writer.publish(markedMetadata(body.seed), pinPreviousUntil);
      if (chosen.isPublished) return;
      chosen.isPublished = true;
      this.#entries.put(writer.generation, body, false, pinPreviousUntil);
      const entry = (await this.#store.find(body.key))[0] as StoredEntry;
      this.#known.push({ entry, body });
    },
    commit: async (which, detail) => {
      const chosen = pick(this.#writers, which);
      if (chosen === undefined) return;
      const { writer, body, isPublished } = chosen;
      for (let index = 0; index < this.#blockCount(body); index += 1) await this.#write(chosen, index);
      const pinPreviousUntil = this.#pinOf(detail);
      const { sizeBytes } = body;
      const commit = writer.commit({ metadata: markedMetadata(body.seed), sizeBytes, pinPreviousUntil });
      if (isPublished && this.#entries.current(body.key, writer.generation) === undefined) {
        await expect(commit).rejects.toMatchObject({ reason: 'removed' });
      } else {
        this.#known.push({ entry: await commit, body });
        this.#entries.put(writer.generation, body, true, pinPreviousUntil);
      }
      await this.#steps.dispose(which, 0);
    },
    dispose: async (which) => {
      const chosen = pick(this.#writers, which);
      if (chosen === undefined) return;
      this.#writers.splice(this.#writers.indexOf(chosen), 1);
      await chosen.writer[Symbol.asyncDispose]();
    },
    resume: async (which) => {
      const chosen = pick(this.#known, which);
      if (chosen === undefined) return;
      const { entry, body } = chosen;
      if (this.#writers.some(({ writer }) => writer.generation === entry.generation)) return;
      const writer = await this.#store.resume(entry);
      expect(writer?.generation).toBe(this.#entries.current(entry.key, entry.generation)?.generation);
      if (writer !== undefined) this.#writers.push({ writer, body, isLengthKnown: true, isPublished: true });
    },
    find: async (which) => {
      const expected = this.#entries.under(keyOf(which));
      const wanted = expected.map(({ generation, body, isComplete, mark, pinnedUntil }) => ({
        variant: body.variant,
        generation,
        sizeBytes: body.sizeBytes,
        isComplete,
        pinnedUntil,
        metadata: markedMetadata(mark),
      }));
      const found = await this.#store.find(keyOf(which));
      for (const entries of [found, this.#store.peek(keyOf(which)) ?? found]) {
        expect(entries.map(plain)).toEqual(wanted);
      }
      for (const [at, entry] of found.entries()) {
        const { body } = expected[at] as ModelEntry;
        const present = await entry.readPresence();
        const indexes = Array.from({ length: this.#blockCount(body) + 1 }, (_, index) => index);
        expect(indexes.filter((index) => present.has(index))).toEqual(
          indexes.filter((index) => body.present.has(index)),
        );
        const reader = await entry.open();
        await this.#expectBlocks(reader, body);
        reader.close();
      }
    },
    freshen: async (which, detail) => {
      const chosen = pick(this.#known, which);
      if (chosen === undefined) return;
      const current = this.#entries.current(chosen.entry.key, chosen.entry.generation);
      const fresh = await this.#store.replaceMetadata(chosen.entry, markedMetadata(`fresh ${detail}`));
      expect(fresh?.generation).toBe(current?.generation);
      expect(fresh?.isComplete).toBe(current?.isComplete);
      if (current !== undefined) current.mark = `fresh ${detail}`;
    },
    removeEntry: async (which) => {
      const chosen = pick(this.#known, which);
      if (chosen === undefined) return;
      const { key, generation } = chosen.entry;
      await this.#store.removeEntry(chosen.entry);
      this.#entries.remove(key, generation);
    },
    removeKey: async (which) => {
      expect(await this.#store.removeKey(keyOf(which))).toBe(this.#entries.under(keyOf(which)).length);
      this.#entries.removeKey(keyOf(which));
    },
    removeTagged: async (which) => {
      const tag = pick(modelTags, which) ?? '';
      const keys = await this.#store.removeTagged(tag);
      expect([...keys].sort()).toEqual(this.#entries.removeTagged(tag));
    },
    openReader: async (which) => {
      const chosen = pick(this.#known, which);
      if (chosen === undefined) return;
      const { entry } = chosen;
      if (!this.#entries.under(entry.key).some(({ generation }) => generation === entry.generation)) return;
      this.#readers.push({ ...chosen, reader: await entry.open() });
    },
    read: async (which) => {
      const chosen = pick(this.#readers, which);
      if (chosen !== undefined) await this.#expectBlocks(chosen.reader, chosen.body);
    },
    closeReader: async (which) => {
      const chosen = pick(this.#readers, which);
      if (chosen === undefined) return;
      this.#readers.splice(this.#readers.indexOf(chosen), 1);
      chosen.reader.close();
    },
    wait: async (_, detail) => {
      this.#clock.now += detail * 10;
    },
  };

  /** Returns until when to pin a replaced generation: not at all, until now (in vain), or for a while. */
  #pinOf(detail: number): number | undefined {
    return detail < 2 ? undefined : this.#clock.now + (detail - 2) * 20;
  }

  async #write({ writer, body }: ModelWriter, index: number): Promise<void> {
    expect(writer.hasBlock(index)).toBe(body.present.has(index));
    await writer.writeBlock(index, blockOf(body, this.#store.blockSizeBytes, index));
    body.present.add(index);
  }

  /** Checks that a source has exactly the blocks that are present. */
  async #expectBlocks(source: BlockSource, body: ModelBody): Promise<void> {
    for (let index = 0; index <= this.#blockCount(body); index += 1) {
      if (body.present.has(index)) {
        const expected = blockOf(body, this.#store.blockSizeBytes, index);
        expect(Buffer.compare(await source.readBlock(index), expected)).toBe(0);
        expect(Buffer.compare(source.peekBlock(index) ?? expected, expected)).toBe(0);
      } else {
        await expect(source.readBlock(index)).rejects.toMatchObject({ code: 'bytes_gone' });
        expect(source.peekBlock(index)).toBeUndefined();
      }
    }
  }

  #blockCount({ sizeBytes }: ModelBody): number {
    return Math.ceil(sizeBytes / this.#store.blockSizeBytes);
  }
}

function keyOf(which: number): string {
  return `https://example.org/${which % 3}`;
}

/** Returns an item of a list, the `which`-th from the end; undefined when it is empty. */
function pick<T>(list: readonly T[], which: number): T | undefined {
  return list.at(-1 - (which % Math.max(1, list.length)));
}

function plain({ variant, generation, sizeBytes, isComplete, pinnedUntil, metadata }: StoredEntry) {
  return { variant, generation, sizeBytes, isComplete, pinnedUntil, metadata };
}
