/** A store of its own that lives in memory: bounded in bytes, the least recently used entries leave first. */

import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { BlockSequence, checkEntrySize } from '../block-sequence.ts';
import type { EntryReader, EntryWriter, NewEntry, Store, StoredEntry } from '../store.ts';
import { StoreFault } from '../store.ts';
import { MemoryShelf, type Shelved, type ShelvedBody } from './memory-shelf.ts';
import { blockWeight, entryWeight, withOwnBuffer } from './memory-size.ts';

/** What a memory store is made of. */
export interface MemoryStoreOptions {
  /** The bound of everything that is kept, in bytes: bodies, metadata, what writers hold and readers hold on to. */
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** Gives a name that was never given before. */
  readonly randomId: () => string;
}

/** One entry may take this share of the store, so that one fill cannot empty it. */
const maxEntryShare = 1 / 4;

/** Creates an empty store. Nothing of it outlives the process. */
export function createMemoryStore(options: MemoryStoreOptions): Store {
  return new MemoryStore(options);
}

type Shelf = MemoryShelf<StoredEntry>;

class MemoryStore implements Store {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly #randomId: () => string;
  readonly #shelf: Shelf;

  constructor(options: MemoryStoreOptions) {
    this.blockSizeBytes = options.blockSizeBytes;
    this.maxEntryBytes = Math.floor(options.maxSizeBytes * maxEntryShare);
    this.#randomId = options.randomId;
    this.#shelf = new MemoryShelf(options.maxSizeBytes);
  }

  peek(key: string): readonly StoredEntry[] {
    return this.#shelf.under(key).map((shelved) => shelved.record);
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    return this.peek(key);
  }

  async openWriter(entry: NewEntry): Promise<EntryWriter> {
    checkEntrySize(entry.sizeBytes ?? 0, this.maxEntryBytes);
    return new MemoryWriter(this, this.#shelf, this.#randomId(), entry);
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
    const shelved = this.#current(entry);
    if (shelved !== undefined) this.#shelf.remove(shelved);
  }

  async removeKey(key: string): Promise<number> {
    const shelved = this.#shelf.under(key);
    for (const each of shelved) this.#shelf.remove(each);
    return shelved.length;
  }

  async close(): Promise<void> {
    this.#shelf.clear();
  }

  #current({ key, variant, generation }: StoredEntry): Shelved<StoredEntry> | undefined {
    const shelved = this.#shelf.get(generation);
    return shelved?.key === key && shelved.variant === variant ? shelved : undefined;
  }
}

/** Writes one generation into memory. Its bytes count against the bound from the start. */
class MemoryWriter implements EntryWriter {
  readonly generation: string;
  readonly #shelf: Shelf;
  readonly #entry: NewEntry;
  readonly #body: ShelvedBody;
  readonly #sequence: BlockSequence;
  readonly #blockSizeBytes: number;
  #reservedBytes = 0;
  #state: 'writing' | 'failed' | 'committed' | 'disposed' = 'writing';

  constructor(store: Store, shelf: Shelf, generation: string, entry: NewEntry) {
    this.generation = generation;
    this.#shelf = shelf;
    this.#entry = entry;
    this.#body = { generation, blocks: [], holders: 1, leftBytes: 0 };
    this.#sequence = new BlockSequence(store);
    this.#blockSizeBytes = store.blockSizeBytes;
    this.#reserveAll(entry.metadata, entry.sizeBytes ?? 0);
  }

  async writeBlock(index: number, bytes: Uint8Array): Promise<void> {
    this.#requireWriting();
    this.#state = 'failed';
    this.#sequence.add(index, bytes.length);
    this.#reserveAll(this.#entry.metadata, this.#sequence.sizeBytes);
    this.#body.blocks.push(withOwnBuffer(bytes));
    this.#state = 'writing';
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#body.blocks[index];
  }

  async readBlock(index: number): Promise<Uint8Array> {
    return blockOf(this.#body, index);
  }

  async commit(final: { readonly metadata: StoredResponse; readonly sizeBytes: number }): Promise<StoredEntry> {
    this.#requireWriting();
    this.#sequence.end(final.sizeBytes);
    this.#reserveAll(final.metadata, final.sizeBytes);
    const shelved = shelve(this.#shelf, this.#body, { ...this.#entry, ...final });
    this.#shelf.release(this.#reservedBytes - shelved.weight);
    this.#shelf.put(shelved);
    this.#state = 'committed';
    return shelved.record;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#state === 'disposed') return;
    if (this.#state !== 'committed') this.#shelf.release(this.#reservedBytes);
    this.#shelf.letGo(this.#body);
    this.#state = 'disposed';
  }

  /** Reserves what an entry of this size takes, where it is more than was reserved before. */
  #reserveAll(metadata: StoredResponse, sizeBytes: number): void {
    const blockCount = Math.ceil(sizeBytes / this.#blockSizeBytes);
    const weight =
      entryWeight(this.#entry.key, this.#entry.variant, metadata) + sizeBytes + blockCount * blockWeight(0);
    if (weight <= this.#reservedBytes) return;
    this.#shelf.reserve(weight - this.#reservedBytes);
    this.#reservedBytes = weight;
  }

  #requireWriting(): void {
    if (this.#state !== 'writing') throw new StoreFault('io', `The writer has ${this.#state} before.`);
  }
}

/** Makes the record of a generation, and what the shelf knows of it. */
function shelve(shelf: Shelf, body: ShelvedBody, record: Omit<StoredEntry, 'generation' | 'peekBlock' | 'open'>) {
  const { key, variant, metadata, sizeBytes } = record;
  const { generation } = body;
  let weight = entryWeight(key, variant, metadata);
  for (const block of body.blocks) weight += blockWeight(block.length);
  const entry: StoredEntry = {
    key,
    variant,
    generation,
    metadata,
    sizeBytes,
    peekBlock: (index) => shelf.use(generation)?.blocks[index],
    open: async () => openReader(shelf, generation),
  };
  return { key, variant, body, weight, record: entry };
}

function openReader(shelf: Shelf, generation: string): EntryReader {
  const body = shelf.use(generation);
  if (body === undefined) throw new ProxyError('bytes_gone', { detail: `Generation ${generation} was removed.` });
  shelf.hold(body);
  let isOpen = true;
  return {
    peekBlock: (index) => body.blocks[index],
    readBlock: async (index) => blockOf(body, index),
    close: () => {
      if (isOpen) shelf.letGo(body);
      isOpen = false;
    },
  };
}

function blockOf(body: ShelvedBody, index: number): Uint8Array {
  const block = body.blocks[index];
  if (block !== undefined) return block;
  throw new ProxyError('bytes_gone', { detail: `Generation ${body.generation} has no block ${index}.` });
}
