/** The simplest store that fulfils the contract: maps in memory without a limit. A test can damage its blocks. */

import { SpanSet } from '../../../src/bytes/span.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { StoredResponse } from '../../../src/http/stored-response.ts';
import {
  type EntryReader,
  type EntryWriter,
  type NewEntry,
  type Store,
  type StoredEntry,
  StoreFault,
} from '../../../src/store/store.ts';

interface Kept {
  readonly key: string;
  readonly variant: string;
  readonly generation: string;
  readonly blocks: Map<number, Uint8Array>;
  metadata: StoredResponse;
  sizeBytes: number;
  isComplete: boolean;
}

export interface PlainStore extends Store {
  /** Removes a block, as damage would. */
  damage(key: string, index: number): void;
  /** Number of open writers and readers. */
  readonly open: number;
  /** Refuses all writes from now on, or accepts them again. */
  refuse(isRefusing: boolean): void;
}

export function createPlainStore(blockSizeBytes: number, maxEntryBytes = Number.MAX_SAFE_INTEGER): PlainStore {
  const entries: Kept[] = [];
  let ids = 0;
  let open = 0;
  let isRefusing = false;
  const gone = () => new ProxyError('bytes_gone');

  const entryOf = (kept: Kept): StoredEntry => ({
    ...kept,
    pinnedUntil: undefined,
    peekBlock: (index) => kept.blocks.get(index),
    open: async (): Promise<EntryReader> => {
      open += 1;
      let isOpen = true;
      return {
        peekBlock: (index) => kept.blocks.get(index),
        readBlock: async (index) => kept.blocks.get(index) ?? Promise.reject(gone()),
        close: () => {
          if (isOpen) open -= 1;
          isOpen = false;
        },
      };
    },
    readPresence: async () => new SpanSet([...kept.blocks.keys()].map((index) => ({ start: index, end: index + 1 }))),
  });
  const put = (kept: Kept) => {
    const at = entries.findIndex((one) => one.key === kept.key && one.variant === kept.variant);
    if (at !== -1) entries.splice(at, 1);
    entries.unshift(kept);
  };
  const current = ({ generation }: { generation: string }) => entries.find((one) => one.generation === generation);

  function createWriter(kept: Kept, published: boolean): EntryWriter {
    open += 1;
    let isFindable = published;
    let isOpen = true;
    const check = () => {
      if (isRefusing) throw new StoreFault('no_room', 'refused by the test');
    };
    return {
      generation: kept.generation,
      hasBlock: (index) => kept.blocks.has(index),
      peekBlock: (index) => kept.blocks.get(index),
      readBlock: async (index) => kept.blocks.get(index) ?? Promise.reject(gone()),
      writeBlock: async (index, bytes) => {
        check();
        if (!kept.blocks.has(index)) kept.blocks.set(index, bytes);
      },
      publish: async (metadata) => {
        check();
        kept.metadata = metadata;
        if (!isFindable) put(kept);
        isFindable = true;
      },
      commit: async ({ metadata, sizeBytes }) => {
        check();
        if (kept.blocks.size !== Math.ceil(sizeBytes / blockSizeBytes)) throw new RangeError('blocks are absent');
        if (isFindable && current(kept) === undefined) throw new StoreFault('io', 'replaced');
        kept.metadata = metadata;
        kept.sizeBytes = sizeBytes;
        kept.isComplete = true;
        if (!isFindable) put(kept);
        isFindable = true;
        return entryOf(kept);
      },
      [Symbol.asyncDispose]: async () => {
        if (isOpen) open -= 1;
        isOpen = false;
      },
    };
  }

  return {
    blockSizeBytes,
    maxEntryBytes,
    peek: (key) => entries.filter((kept) => kept.key === key).map(entryOf),
    find: async (key) => entries.filter((kept) => kept.key === key).map(entryOf),
    openWriter: async ({ key, variant, metadata, sizeBytes = 0 }: NewEntry) => {
      if (isRefusing) throw new StoreFault('no_room', 'refused by the test');
      if (sizeBytes > maxEntryBytes) throw new StoreFault('too_large', 'too large');
      ids += 1;
      const kept = { key, variant, generation: `g${ids}`, metadata, sizeBytes, isComplete: false, blocks: new Map() };
      return createWriter(kept, false);
    },
    resume: async (entry) => {
      const kept = current(entry);
      return kept === undefined ? undefined : createWriter(kept, true);
    },
    replaceMetadata: async (entry, metadata) => {
      const kept = current(entry);
      if (kept === undefined) return undefined;
      kept.metadata = metadata;
      return entryOf(kept);
    },
    removeEntry: async (entry) => {
      const kept = current(entry);
      if (kept !== undefined) entries.splice(entries.indexOf(kept), 1);
    },
    removeKey: async (key) => {
      const found = entries.filter((kept) => kept.key === key);
      for (const kept of found) entries.splice(entries.indexOf(kept), 1);
      return found.length;
    },
    removeTagged: async (tag) => {
      const found = entries.filter((kept) => kept.metadata.tags?.includes(tag));
      for (const kept of found) entries.splice(entries.indexOf(kept), 1);
      return [...new Set(found.map(({ key }) => key))];
    },
    removePrefixed: async (prefix) => {
      const found = entries.filter((kept) => kept.key.startsWith(prefix));
      for (const kept of found) entries.splice(entries.indexOf(kept), 1);
      return [...new Set(found.map(({ key }) => key))];
    },
    list: async (choice, limit, after = '') => {
      const chosen = entries
        .filter(({ key, metadata }) =>
          choice.kind === 'tag' ? metadata.tags?.includes(choice.tag) : key.startsWith(choice.prefix),
        )
        .filter(({ generation }) => generation > after)
        .sort((a, b) => (a.generation < b.generation ? -1 : 1));
      const page = chosen.slice(0, limit);
      return { entries: page.map(entryOf), next: page.length < chosen.length ? page.at(-1)?.generation : undefined };
    },
    readUsage: () => ({ entryCount: entries.length, usedBytes: 0, maxSizeBytes: Number.MAX_SAFE_INTEGER }),
    applyChange: () => {},
    close: async () => {},
    damage: (key, index) => {
      for (const kept of entries) {
        if (!kept.key.includes(key)) continue;
        kept.blocks.delete(index);
        kept.isComplete = false;
      }
    },
    get open() {
      return open;
    },
    refuse: (refusing) => {
      isRefusing = refusing;
    },
  };
}
