/** A store without blocks in memory: every block is read, and a test can count and hold up the reads. */

import type { BlockSource, EntryReader, EntryWriter, Store, StoredEntry } from '../../../src/store/store.ts';

export interface ReadingStore extends Store {
  /** Returns the indexes of the blocks that were read since the last call, in order. */
  takeReads(): number[];
  /** Holds up the completion of reads from now on, until the returned function is called. */
  holdReads(): () => void;
}

/** Wraps another store. */
export function createReadingStore(below: Store): ReadingStore {
  let reads: number[] = [];
  let gate: Promise<void> | undefined;

  const unheld = (source: BlockSource): BlockSource => ({
    peekBlock: () => undefined,
    readBlock: async (index) => {
      reads.push(index);
      const held = gate;
      try {
        return await source.readBlock(index);
      } finally {
        await held;
      }
    },
  });
  const wrapWriter = (writer: EntryWriter): EntryWriter => ({
    ...unheld(writer),
    generation: writer.generation,
    hasBlock: (index) => writer.hasBlock(index),
    writeBlock: (index, bytes) => writer.writeBlock(index, bytes),
    publish: (metadata, pinPreviousUntil) => writer.publish(metadata, pinPreviousUntil),
    commit: async (final) => wrapEntry(await writer.commit(final)),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  });
  const wrapReader = (reader: EntryReader): EntryReader => ({ ...unheld(reader), close: () => reader.close() });
  const wrapEntry = (entry: StoredEntry): StoredEntry => ({
    ...entry,
    peekBlock: () => undefined,
    open: async () => wrapReader(await entry.open()),
  });

  return {
    blockSizeBytes: below.blockSizeBytes,
    maxEntryBytes: below.maxEntryBytes,
    peek: (key) => below.peek(key)?.map(wrapEntry),
    find: async (key) => (await below.find(key)).map(wrapEntry),
    openWriter: async (entry) => wrapWriter(await below.openWriter(entry)),
    resume: async (entry) => {
      const writer = await below.resume(entry);
      return writer === undefined ? undefined : wrapWriter(writer);
    },
    replaceMetadata: async (entry, metadata) => {
      const replaced = await below.replaceMetadata(entry, metadata);
      return replaced === undefined ? undefined : wrapEntry(replaced);
    },
    removeEntry: (entry) => below.removeEntry(entry),
    removeKey: (key) => below.removeKey(key),
    removeTagged: (tag) => below.removeTagged(tag),
    list: async (choice, limit, after) => {
      const { entries, next } = await below.list(choice, limit, after);
      return { entries: entries.map(wrapEntry), next };
    },
    removePrefixed: (prefix) => below.removePrefixed(prefix),
    listRanked: (...given) => below.listRanked(...given),
    usedAt: (generation) => below.usedAt(generation),
    blocksInMemory: (...given) => below.blocksInMemory(...given),
    readUsage: () => below.readUsage(),
    applyChange: (change) => below.applyChange(change),
    close: () => below.close(),
    takeReads: () => {
      const taken = reads;
      reads = [];
      return taken;
    },
    holdReads: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return () => {
        gate = undefined;
        resolve();
      };
    },
  };
}
