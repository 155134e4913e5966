/** A store whose steps a test can hold up or make fail. A disposed writer returns no bytes. */

import { ProxyError } from '../../../src/http/proxy-error.ts';
import { createMemoryStore } from '../../../src/store/memory/memory-store.ts';
import type { EntryReader, EntryWriter, NewEntry, Store, StoredEntry } from '../../../src/store/store.ts';
import { StoreFault } from '../../../src/store/store.ts';

export type Step =
  | 'openWriter'
  | 'writeBlock'
  | 'commit'
  | 'committed'
  | 'removeKey'
  | 'removeTagged'
  | 'removePrefixed'
  | 'publish'
  | 'replaceMetadata'
  | 'resume';

export interface Held {
  /** Resolves when a call is held up at the step. */
  readonly reached: Promise<void>;
  release(): void;
}

export interface SteeredStore extends Store {
  /** Holds up the next call of a step before it takes effect; at `committed` a commit that has taken effect. */
  hold(step: Step): Held;
  /** Makes all later calls of a step throw. */
  fail(step: Step, error: Error): void;
  /** Damages a block of every committed entry. A read of the block finds the damage, and removes the entry. */
  damageBlock(index: number): void;
  /** Loses a block of every open writer: it is absent until it is written again. */
  loseBlock(index: number): void;
  /** Number of open writers and readers. */
  readonly held: number;
}

export interface SteeredStoreOptions {
  readonly blockSizeBytes?: number;
  readonly maxSizeBytes?: number;
  readonly now?: () => number;
  /** The wrapped store. The other options apply only without it. */
  readonly below?: Store;
}

/** Wraps a store: `below`, or a new one in memory. */
export function createSteeredStore({
  blockSizeBytes = 1024,
  maxSizeBytes = 16 * 1024 * 1024,
  now = () => 0,
  below = createNumberingStore({ maxSizeBytes, blockSizeBytes, now }),
}: SteeredStoreOptions = {}): SteeredStore {
  const gates = new Map<Step, { reached: () => void; open: Promise<void> }>();
  const failures = new Map<Step, Error>();
  const damaged = new Map<string, number>();
  const open = new Set<object>();
  const committed = new Set<string>();
  const losses = new Set<(index: number) => void>();

  async function pass(step: Step): Promise<void> {
    const gate = gates.get(step);
    gates.delete(step);
    gate?.reached();
    await gate?.open;
    const failure = failures.get(step);
    if (failure !== undefined) throw failure;
  }

  function wrapWriter(writer: EntryWriter): EntryWriter {
    let isDisposed = false;
    open.add(writer);
    const lost = new Set<number>();
    const lose = (index: number) => {
      if (writer.hasBlock(index)) lost.add(index);
    };
    losses.add(lose);
    return {
      generation: writer.generation,
      hasBlock: (index) => !lost.has(index) && writer.hasBlock(index),
      publish: async (metadata, pinPreviousUntil) => {
        await pass('publish');
        await writer.publish(metadata, pinPreviousUntil);
      },
      peekBlock: (index) => (isDisposed || lost.has(index) ? undefined : writer.peekBlock(index)),
      readBlock: async (index) => {
        if (isDisposed) throw new ProxyError('bytes_gone', { detail: 'the writer was disposed' });
        if (lost.has(index)) throw new ProxyError('bytes_gone', { detail: 'lost' });
        return await writer.readBlock(index);
      },
      writeBlock: async (index, bytes) => {
        await pass('writeBlock');
        lost.delete(index);
        await writer.writeBlock(index, bytes);
      },
      commit: async (final) => {
        await pass('commit');
        if (lost.size > 0) throw new StoreFault('io', 'a block was lost');
        committed.add(writer.generation);
        const entry = await writer.commit(final);
        await pass('committed');
        return entry;
      },
      [Symbol.asyncDispose]: async () => {
        isDisposed = true;
        losses.delete(lose);
        open.delete(writer);
        await writer[Symbol.asyncDispose]();
      },
    };
  }

  function wrapEntry(entry: StoredEntry): StoredEntry {
    const isDamaged = (index: number) => damaged.get(entry.generation) === index;
    return {
      ...entry,
      // A tiered entry has these by getters, which a spread leaves out.
      variant: entry.variant,
      get metadata() {
        return entry.metadata;
      },
      get fieldText() {
        return entry.fieldText;
      },
      peekBlock: (index) => (damaged.has(entry.generation) ? undefined : entry.peekBlock(index)),
      readNow: (...bytes) => (damaged.has(entry.generation) ? undefined : entry.readNow?.(...bytes)),
      canMove: (...bytes) => !damaged.has(entry.generation) && entry.canMove?.(...bytes) === true,
      open: async (first) => {
        const reader = await entry.open(first);
        open.add(reader);
        const wrapped: EntryReader = {
          peekBlock: (index) => (damaged.has(entry.generation) ? undefined : reader.peekBlock(index)),
          readBlock: async (index) => {
            if (!isDamaged(index)) return await reader.readBlock(index);
            await below.removeEntry(entry);
            throw new ProxyError('bytes_gone', { detail: `block ${index} is damaged` });
          },
          move: (...bytes) => (damaged.has(entry.generation) ? 0 : (reader.move?.(...bytes) ?? 0)),
          close: () => {
            open.delete(reader);
            reader.close();
          },
        };
        return wrapped;
      },
    };
  }

  return {
    blockSizeBytes: below.blockSizeBytes,
    maxEntryBytes: below.maxEntryBytes,
    peek: (key) => below.peek(key)?.map(wrapEntry),
    find: async (key) => (await below.find(key)).map(wrapEntry),
    openWriter: async (entry: NewEntry) => {
      await pass('openWriter');
      return wrapWriter(await below.openWriter(entry));
    },
    resume: async (entry) => {
      await pass('resume');
      const writer = await below.resume(entry);
      return writer === undefined ? undefined : wrapWriter(writer);
    },
    replaceMetadata: async (entry, metadata) => {
      await pass('replaceMetadata');
      const replaced = await below.replaceMetadata(entry, metadata);
      return replaced === undefined ? undefined : wrapEntry(replaced);
    },
    removeEntry: (entry) => below.removeEntry(entry),
    removeKey: async (key) => {
      await pass('removeKey');
      return await below.removeKey(key);
    },
    removeTagged: async (tag) => {
      await pass('removeTagged');
      return await below.removeTagged(tag);
    },
    list: async (choice, limit, after) => {
      const { entries, next } = await below.list(choice, limit, after);
      return { entries: entries.map(wrapEntry), next };
    },
    removePrefixed: async (prefix) => {
      await pass('removePrefixed');
      return await below.removePrefixed(prefix);
    },
    listRanked: (...given) => below.listRanked(...given),
    usedAt: (generation) => below.usedAt(generation),
    blocksInMemory: (...given) => below.blocksInMemory(...given),
    readUsage: () => below.readUsage(),
    applyChange: (change) => below.applyChange(change),
    close: () => below.close(),
    hold(step) {
      const reached = Promise.withResolvers<void>();
      const opening = Promise.withResolvers<void>();
      gates.set(step, { reached: reached.resolve, open: opening.promise });
      return { reached: reached.promise, release: opening.resolve };
    },
    fail: (step, error) => void failures.set(step, error),
    damageBlock: (index) => {
      for (const generation of committed) damaged.set(generation, index);
    },
    loseBlock: (index) => {
      for (const lose of losses) lose(index);
    },
    get held() {
      return open.size;
    },
  };
}

/** Creates a memory store that numbers its generations. */
function createNumberingStore(options: Omit<Parameters<typeof createMemoryStore>[0], 'randomId'>): Store {
  let ids = 0;
  return createMemoryStore({ ...options, randomId: () => `generation-${++ids}` });
}
