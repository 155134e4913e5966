/**
 * A store in memory alone, bounded in bytes; the least recently used entries are evicted first. Contains its writer, whose bytes
 * count against the bound from the start, and the selection of a page of entries for `list`. Read memory-shelf.ts next.
 */

import { setImmediate } from 'node:timers/promises';
import { SpanSet } from '../../bytes/span.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import {
  BlockPlan,
  formatCursor,
  hasFallingRanks,
  hasText,
  isChosenBy,
  isPrefixOf,
  lowerCase,
  parseCursor,
  pinInstant,
  RankSelection,
} from '../entry-rules.ts';
import {
  type EntryChoice,
  type EntryName,
  type EntryOrder,
  type EntryPage,
  type EntryRank,
  type EntryReader,
  type EntryWriter,
  type FinalEntry,
  type NewEntry,
  type RankedEntry,
  type RankedPage,
  removedFault,
  type Store,
  type StoredEntry,
  StoreFault,
  type StoreUsage,
  type WholeWriter,
} from '../store.ts';
import {
  blockWeight,
  emptyBody,
  entryWeight,
  MemoryShelf,
  type Shelved,
  type ShelvedBody,
  withOwnBuffer,
} from './memory-shelf.ts';

/** Options of a memory store. */
interface MemoryStoreOptions {
  /** Bound of everything in memory, in bytes: bodies, metadata, reservations of writers, and removed bodies that are still held. */
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** Largest body that is accepted, in bytes; a quarter of the store by default. */
  readonly maxEntryBytes?: number | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Returns a name that was never returned before. */
  readonly randomId: () => string;
  /** Receives an event when entries are evicted. */
  readonly emit?: Emit | undefined;
}

/** Default share of the store that one entry may take, so that one fill cannot empty it. */
const maxEntryShare = 1 / 4;
/** Number of keys that are visited before other work gets its turn. */
const keysAtOnce = 1024;

/** Creates an empty store. Its content does not outlive the process. */
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
  /** The entries of each list that the shelf returned. The shelf returns the same list while nothing changes and nothing is pinned. */
  readonly #entryLists = new WeakMap<readonly Shelved<StoredEntry>[], readonly StoredEntry[]>();

  constructor(options: MemoryStoreOptions) {
    this.blockSizeBytes = options.blockSizeBytes;
    this.maxEntryBytes = options.maxEntryBytes ?? Math.floor(options.maxSizeBytes * maxEntryShare);
    this.#randomId = options.randomId;
    this.#now = options.now;
    this.#shelf = new MemoryShelf(options.maxSizeBytes, options.now, (keys) => {
      const message = 'Entries were evicted to make room.';
      const evictedEntries = keys.length;
      const count = { evictedEntries };
      options.emit?.({ kind: 'store', level: 'debug', message, detail: `${evictedEntries} entries`, count });
      options.emit?.({ kind: 'removal', cause: 'evicted', keys });
    });
  }

  peek(key: string): readonly StoredEntry[] {
    const found = this.#shelf.under(key);
    const known = this.#entryLists.get(found);
    if (known !== undefined) return known;
    const entries = found.map((shelved) => shelved.record);
    this.#entryLists.set(found, entries);
    return entries;
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    return this.peek(key);
  }

  async openWriter(entry: NewEntry): Promise<EntryWriter> {
    return this.#writerOf(emptyBody(this.#randomId()), entry);
  }

  openWhole(entry: NewEntry, bytes: Uint8Array): WholeWriter | undefined {
    const body = emptyBody(this.#randomId());
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

  async removeEntry(entry: EntryName): Promise<void> {
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

  async listRanked(choice: EntryChoice, order: EntryOrder, limit: number, after?: EntryRank): Promise<RankedPage> {
    const selection = new RankSelection<RankedEntry>(limit, after, hasFallingRanks(order));
    const text = lowerCase(order.contains ?? '');
    await this.#visitKeys((key) => {
      if ((choice.kind === 'prefix' && !isPrefixOf(choice.prefix, key)) || !hasText(key, text)) return;
      for (const { record: entry, body } of this.#shelf.under(key)) {
        if (!isChosenBy(choice, entry)) continue;
        selection.add({ rank: rankOf(entry, secondOf(body.usedAt), order), generation: body.generation, entry });
      }
    });
    const { places: entries, next } = selection.end();
    return { entries, next };
  }

  usedAt(generation: string): number | undefined {
    return secondOf(this.#shelf.get(generation)?.body.usedAt ?? 0) || undefined;
  }

  blocksInMemory(generation: string, count: number): SpanSet {
    const blocks = this.#shelf.get(generation)?.body.blocks ?? [];
    return SpanSet.where(count, (index) => blocks[index] !== undefined);
  }

  readUsage(): StoreUsage {
    const { count: entryCount, sizeBytes: usedBytes, maxSizeBytes } = this.#shelf;
    return { entryCount, usedBytes, maxSizeBytes, memoryBytes: usedBytes, maxMemoryBytes: maxSizeBytes };
  }

  /** No other process shares this store. */
  applyChange(): void {}

  async close(): Promise<void> {
    this.#shelf.clear();
  }

  /** Visits all keys, a few at a time, so that other work gets its turn. */
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

  #shelved({ key, variant, generation }: EntryName): Shelved<StoredEntry> | undefined {
    const shelved = this.#shelf.get(generation);
    return shelved?.key === key && shelved.variant === variant ? shelved : undefined;
  }

  #current(entry: StoredEntry): Shelved<StoredEntry> | undefined {
    const shelved = this.#shelved(entry);
    return shelved?.pinnedUntil === undefined ? shelved : undefined;
  }
}

/** Creates the record of a generation, and its item on the shelf. */
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
    knownByHits: undefined,
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

/** Options of a writer. */
interface MemoryWriterOptions {
  readonly shelf: MemoryShelf<StoredEntry>;
  /** The body of a new generation, or of one that is on the shelf. */
  readonly body: ShelvedBody;
  readonly entry: NewEntry;
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Creates the shelf item of the generation, with the blocks that are present now. */
  readonly shelve: (record: Pick<StoredEntry, 'metadata' | 'sizeBytes' | 'isComplete'>) => Shelved<StoredEntry>;
}

/** Writes one generation. Until the generation is on the shelf, the writer itself reserves the bytes for it. */
class MemoryWriter implements EntryWriter {
  readonly generation: string;
  readonly #options: MemoryWriterOptions;
  readonly #plan: BlockPlan;
  /** Whether the generation was ever put on the shelf. It may have been removed since. */
  #wasPut: boolean;
  #reservedBytes = 0;
  #isDisposed = false;

  /** Throws `StoreFault`. */
  constructor(options: MemoryWriterOptions) {
    const { shelf, body, entry } = options;
    this.generation = body.generation;
    this.#options = options;
    this.#plan = new BlockPlan({ ...options, sizeBytes: entry.sizeBytes });
    this.#wasPut = shelf.get(body.generation) !== undefined;
    if (!this.#wasPut) this.#reserve(entryWeight(entry.key, entry.variant, entry.metadata));
    body.hasWriter = true;
    shelf.hold(body);
  }

  hasBlock(index: number): boolean {
    return this.#options.body.blocks[index] !== undefined;
  }

  async writeBlock(index: number, bytes: Uint8Array): Promise<void> {
    this.keepBlock(index, bytes);
  }

  /** As `writeBlock`, but synchronous. */
  keepBlock(index: number, bytes: Uint8Array): void {
    this.#requireOpen();
    if (this.hasBlock(index)) return;
    this.#plan.check(index, bytes.length);
    const { body } = this.#options;
    const weight = blockWeight(bytes.length);
    this.#takeRoom(weight);
    body.blocks[index] = withOwnBuffer(bytes);
    body.blockWeight += weight;
    this.#plan.add(index, bytes.length);
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#options.body.blocks[index];
  }

  async readBlock(index: number): Promise<Uint8Array> {
    const block = this.peekBlock(index);
    if (block !== undefined) return block;
    throw new ProxyError('bytes_gone', { detail: `Generation ${this.generation} has no block ${index} yet.` });
  }

  async publish(metadata: StoredResponse, pinPreviousUntil?: number): Promise<void> {
    this.#requireOpen();
    const { sizeBytes } = this.#plan;
    if (sizeBytes === undefined) throw new RangeError('A generation of unknown length cannot be published.');
    if (!this.#wasPut) this.#put({ metadata, sizeBytes, isComplete: false }, pinPreviousUntil);
  }

  async commit({ metadata, sizeBytes, pinPreviousUntil }: FinalEntry): Promise<StoredEntry> {
    this.#requireOpen();
    const count = this.#plan.end(sizeBytes);
    for (let index = 0; index < count; index += 1) {
      if (!this.hasBlock(index)) throw new RangeError(`Block ${index} was not written before the commit.`);
    }
    if (this.#isRemoved) throw removedFault(this.generation);
    return this.#put({ metadata, sizeBytes, isComplete: true }, pinPreviousUntil);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    const { shelf, body } = this.#options;
    shelf.release(this.#reservedBytes);
    body.hasWriter = false;
    shelf.letGo(body);
  }

  /** Whether the generation was put on the shelf and is no longer the current one. */
  get #isRemoved(): boolean {
    const shelved = this.#options.shelf.get(this.generation);
    return this.#wasPut && (shelved === undefined || shelved.pinnedUntil !== undefined);
  }

  #put(
    record: Pick<StoredEntry, 'metadata' | 'sizeBytes' | 'isComplete'>,
    pinPreviousUntil: number | undefined,
  ): StoredEntry {
    const shelved = this.#options.shelve(record);
    const pinnedUntil = pinInstant(pinPreviousUntil, this.#options.now);
    this.#options.shelf.put(shelved, this.#reservedBytes, (earlier) => pinned(earlier, pinnedUntil));
    this.#reservedBytes = 0;
    this.#wasPut = true;
    return shelved.record;
  }

  /** Makes room for a block: in the shelf item where the generation is on the shelf, otherwise in the writer's reservation. */
  #takeRoom(weight: number): void {
    const { shelf } = this.#options;
    const shelved = shelf.get(this.generation);
    if (shelved === undefined) this.#reserve(weight);
    else shelf.exchange(shelved, { ...shelved, weight: shelved.weight + weight });
  }

  #reserve(bytes: number): void {
    this.#options.shelf.reserve(bytes);
    this.#reservedBytes += bytes;
  }

  #requireOpen(): void {
    if (this.#isDisposed) throw new StoreFault('io', 'The writer was disposed.');
  }
}

/** Returns a complete generation pinned until that time; undefined when it is not to be pinned. */
function pinned(earlier: Shelved<StoredEntry>, pinnedUntil: number | undefined): Shelved<StoredEntry> | undefined {
  if (pinnedUntil === undefined || !earlier.record.isComplete) return undefined;
  return { ...earlier, pinnedUntil, record: { ...earlier.record, pinnedUntil } };
}

type Place = readonly [key: string, variant: string, generation: string];

/** Selects the first entries after a place, ordered by key, variant and generation. Keeps at most about twice `limit` entries. */
class PageSelection {
  readonly #limit: number;
  readonly #after: Place | undefined;
  #entries: StoredEntry[] = [];
  #hasMore = false;

  /** Throws `RangeError` when `after` is not a cursor of such a list. */
  constructor(limit: number, after: string | undefined) {
    this.#limit = limit;
    this.#after = after === undefined ? undefined : parseCursor<Place>(after, ['', '', '']);
  }

  /** Considers an entry for the page. */
  add(entry: StoredEntry): void {
    if (this.#after !== undefined && comparePlaces(placeOf(entry), this.#after) <= 0) return;
    this.#entries.push(entry);
    if (this.#entries.length > 2 * this.#limit) this.#cut();
  }

  /** Returns the page after all entries were added. */
  end(): EntryPage {
    this.#cut();
    const last = this.#entries.at(-1);
    const next = this.#hasMore && last !== undefined ? formatCursor(placeOf(last)) : undefined;
    return { entries: this.#entries, next };
  }

  #cut(): void {
    const sorted = this.#entries.sort((a, b) => comparePlaces(placeOf(a), placeOf(b)));
    if (sorted.length > this.#limit) this.#hasMore = true;
    this.#entries = sorted.slice(0, this.#limit);
  }
}

function rankOf({ key, sizeBytes, metadata }: StoredEntry, usedAt: number, { by }: EntryOrder): number | string {
  switch (by) {
    case 'key':
      return key;
    case 'size':
      return sizeBytes;
    case 'age':
      return metadata.responseAt;
    case 'used':
      return usedAt;
  }
}

/** Returns the second of a time, in epoch milliseconds. */
function secondOf(instant: number): number {
  return Math.floor(instant / 1000) * 1000;
}

function placeOf({ key, variant, generation }: StoredEntry): Place {
  return [key, variant, generation];
}

/** Compares places by code units, part by part. */
function comparePlaces(a: Place, b: Place): number {
  for (const [at, part] of a.entries()) {
    const other = b[at] ?? '';
    if (part !== other) return part < other ? -1 : 1;
  }
  return 0;
}
