/** A store of its own that lives in memory: bounded in bytes, the least recently used entries leave first. */

import { setImmediate } from 'node:timers/promises';
import { SpanSet } from '../../bytes/span-set.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import { isPrefixOf } from '../entry-page.ts';
import type {
  EntryChoice,
  EntryPage,
  EntryReader,
  EntryWriter,
  NewEntry,
  Store,
  StoredEntry,
  StoreUsage,
  WholeWriter,
} from '../store.ts';
import { StoreFault } from '../store.ts';
import { MemoryShelf, type Shelved, type ShelvedBody } from './memory-shelf.ts';
import { entryWeight } from './memory-size.ts';
import { MemoryWriter } from './memory-writer.ts';
import { PageSelection } from './page-selection.ts';

/** What a memory store is made of. */
export interface MemoryStoreOptions {
  /** The bound of everything that is kept, in bytes: bodies, metadata, what writers hold and readers hold on to. */
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** The largest body that is taken, in bytes; a quarter of the store unless something else is said. */
  readonly maxEntryBytes?: number | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Gives a name that was never given before. */
  readonly randomId: () => string;
  /** Is told of entries that leave because others need their room. */
  readonly emit?: Emit | undefined;
}

/** One entry may take this share of the store unless something else is said, so that one fill cannot empty it. */
const maxEntryShare = 1 / 4;
/** So many keys are looked at before other work gets its turn. */
const keysAtOnce = 1024;

/** Creates an empty store. Nothing of it outlives the process. */
export function createMemoryStore(options: MemoryStoreOptions): Store {
  return new MemoryStore(options);
}

type Shelf = MemoryShelf<StoredEntry>;

class MemoryStore implements Store {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly #randomId: () => string;
  readonly #now: () => number;
  readonly #shelf: Shelf;
  /** What was told of what the shelf gave, which gives the same list as long as nothing changes. */
  readonly #told = new WeakMap<readonly Shelved<StoredEntry>[], readonly StoredEntry[]>();

  constructor(options: MemoryStoreOptions) {
    this.blockSizeBytes = options.blockSizeBytes;
    this.maxEntryBytes = options.maxEntryBytes ?? Math.floor(options.maxSizeBytes * maxEntryShare);
    this.#randomId = options.randomId;
    this.#now = options.now;
    this.#shelf = new MemoryShelf(options.maxSizeBytes, options.now, (evictedEntries) => {
      const message = 'Entries have left the store to make room.';
      const count = { evictedEntries };
      options.emit?.({ kind: 'store', level: 'debug', message, detail: `${evictedEntries} entries`, count });
    });
  }

  peek(key: string): readonly StoredEntry[] {
    const found = this.#shelf.under(key);
    const told = this.#told.get(found);
    if (told !== undefined) return told;
    const entries = found.map((shelved) => shelved.record);
    this.#told.set(found, entries);
    return entries;
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    return this.peek(key);
  }

  async openWriter(entry: NewEntry): Promise<EntryWriter> {
    const generation = this.#randomId();
    const body = { generation, blocks: [], blockWeight: 0, hasWriter: false, holders: 0, leftBytes: 0 };
    return this.#writerOf(body, entry);
  }

  openWhole(entry: NewEntry, bytes: Uint8Array): WholeWriter | undefined {
    const body = {
      generation: this.#randomId(),
      blocks: [],
      blockWeight: 0,
      hasWriter: false,
      holders: 0,
      leftBytes: 0,
    };
    let writer: MemoryWriter | undefined;
    try {
      writer = this.#writerOf(body, entry);
      writer.keepBlock(0, bytes);
      return writer;
    } catch (error) {
      if (!(error instanceof StoreFault)) throw error;
      void writer?.[Symbol.asyncDispose]();
      return undefined;
    }
  }

  async resume(entry: StoredEntry): Promise<EntryWriter | undefined> {
    const shelved = this.#current(entry);
    if (shelved === undefined) return undefined;
    if (shelved.body.hasWriter) throw new Error(`Generation ${entry.generation} is being written already.`);
    return this.#writerOf(shelved.body, shelved.record);
  }

  async replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined> {
    const earlier = this.#current(entry);
    if (earlier === undefined) return undefined;
    const shelved = shelve(this.#shelf, earlier.body, { ...earlier.record, metadata });
    try {
      this.#shelf.exchange(earlier, shelved);
    } catch (error) {
      if (!(error instanceof StoreFault)) throw error;
    }
    return shelved.record;
  }

  async removeEntry(entry: StoredEntry): Promise<void> {
    const shelved = this.#shelved(entry);
    if (shelved !== undefined) this.#shelf.remove(shelved);
  }

  async removeKey(key: string): Promise<number> {
    return this.#shelf.removeAll(key);
  }

  async removeTagged(tag: string): Promise<readonly string[]> {
    return this.#shelf.removeTagged(tag);
  }

  async removePrefixed(prefix: string): Promise<readonly string[]> {
    const removed = new Set<string>();
    await this.#visitKeys((key) => {
      if (isPrefixOf(prefix, key) && this.#shelf.removeAll(key) > 0) removed.add(key);
    });
    return [...removed];
  }

  async list(choice: EntryChoice, limit: number, after?: string): Promise<EntryPage> {
    const page = new PageSelection(limit, after);
    if (choice.kind === 'tag') {
      for (const { record } of this.#shelf.tagged(choice.tag)) page.add(record);
    } else {
      await this.#visitKeys((key) => {
        if (isPrefixOf(choice.prefix, key)) for (const { record } of this.#shelf.under(key)) page.add(record);
      });
    }
    return page.end();
  }

  readUsage(): StoreUsage {
    const { count: entryCount, sizeBytes: usedBytes, maxSizeBytes } = this.#shelf;
    return { entryCount, usedBytes, maxSizeBytes, memoryBytes: usedBytes };
  }

  /** No other process knows of this store. */
  heed(): void {}

  async close(): Promise<void> {
    this.#shelf.clear();
  }

  /** Shows all keys, a few at a time, so that others get their turn. */
  async #visitKeys(visit: (key: string) => void): Promise<void> {
    let visited = 0;
    for (const key of this.#shelf.keys()) {
      visit(key);
      visited += 1;
      if (visited % keysAtOnce === 0) await setImmediate();
    }
  }

  #writerOf(body: ShelvedBody, entry: NewEntry): MemoryWriter {
    const shelf = this.#shelf;
    const { blockSizeBytes, maxEntryBytes } = this;
    return new MemoryWriter({
      shelf,
      body,
      entry,
      blockSizeBytes,
      maxEntryBytes,
      now: this.#now,
      shelve: (record) => shelve(shelf, body, { ...entry, ...record }),
    });
  }

  #shelved({ key, variant, generation }: StoredEntry): Shelved<StoredEntry> | undefined {
    const shelved = this.#shelf.get(generation);
    return shelved?.key === key && shelved.variant === variant ? shelved : undefined;
  }

  #current(entry: StoredEntry): Shelved<StoredEntry> | undefined {
    const shelved = this.#shelved(entry);
    return shelved?.pinnedUntil === undefined ? shelved : undefined;
  }
}

/** Makes the record of a generation, and what the shelf knows of it. */
function shelve(
  shelf: Shelf,
  body: ShelvedBody,
  record: Pick<StoredEntry, 'key' | 'variant' | 'metadata' | 'sizeBytes' | 'isComplete'>,
): Shelved<StoredEntry> {
  const { key, variant, metadata, sizeBytes, isComplete } = record;
  const { generation } = body;
  const entry: StoredEntry = {
    key,
    variant,
    generation,
    metadata,
    sizeBytes,
    isComplete,
    pinnedUntil: undefined,
    peekBlock: (index) => shelf.use(generation)?.blocks[index],
    open: async () => openReader(shelf, generation),
    readPresence: async () => {
      const blocks = shelf.get(generation)?.body.blocks;
      if (blocks === undefined) throw removed(generation);
      return SpanSet.where(blocks.length, (index) => blocks[index] !== undefined);
    },
  };
  const weight = entryWeight(key, variant, metadata) + body.blockWeight;
  return { key, variant, body, weight, tags: metadata.tags, pinnedUntil: undefined, record: entry };
}

function openReader(shelf: Shelf, generation: string): EntryReader {
  const body = shelf.use(generation);
  if (body === undefined) throw removed(generation);
  shelf.hold(body);
  let isOpen = true;
  return {
    peekBlock: (index) => body.blocks[index],
    readBlock: async (index) => {
      const block = body.blocks[index];
      if (block !== undefined) return block;
      throw new ProxyError('bytes_gone', { detail: `Generation ${generation} has no block ${index}.` });
    },
    close: () => {
      if (isOpen) shelf.letGo(body);
      isOpen = false;
    },
  };
}

function removed(generation: string): ProxyError {
  return new ProxyError('bytes_gone', { detail: `Generation ${generation} was removed.` });
}
