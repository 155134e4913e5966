/** What a slower store's tier keeps in memory: found entries by key, and blocks by generation and index. */

import { LRUCache } from 'lru-cache';
import { isPrefixOf } from '../entry-page.ts';
import type { StoredEntry } from '../store.ts';
import { KeptBlocks } from './kept-blocks.ts';
import { entryWeight, withOwnBuffer } from './memory-size.ts';
import { TagIndex } from './tag-index.ts';

/** Memory in front of a slower store, bounded in bytes. It decides nothing: see `createTieredStore`. */
export interface MemoryTier {
  /** The entries of a key as they were kept, or undefined when nothing is known of it. */
  entriesOf(key: string): readonly StoredEntry[] | undefined;
  keepEntries(key: string, entries: readonly StoredEntry[]): void;
  forgetEntries(key: string): void;
  /** The entries, of whatever key, that were kept and have a tag. */
  taggedEntries(tag: string): readonly StoredEntry[];
  /** The entries that were kept of keys that begin with a text. */
  prefixedEntries(prefix: string): readonly StoredEntry[];
  /** A block of a generation, or undefined; counts as its use. */
  block(generation: string, index: number): Uint8Array | undefined;
  keepBlock(generation: string, index: number, bytes: Uint8Array): void;
  /** Whether a block of so many bytes can be kept without another one having to leave. */
  hasRoomFor(sizeBytes: number): boolean;
  /** What is kept, in bytes. */
  readonly sizeBytes: number;
  /** How many blocks are kept. */
  readonly blockCount: number;
  /** Forgets everything. */
  clear(): void;
}

/** The share of the memory that entries take at most; blocks have what they leave. */
const entriesShare = 1 / 8;

/** Creates an empty tier. `maxSizeBytes` bounds all that it keeps. */
export function createMemoryTier(options: { readonly maxSizeBytes: number }): MemoryTier {
  const { maxSizeBytes } = options;
  const byTag = new TagIndex<StoredEntry>();
  const entries = new LRUCache<string, readonly StoredEntry[]>({
    maxSize: Math.floor(maxSizeBytes * entriesShare),
    onInsert: (kept) => {
      for (const entry of kept) byTag.add(entry, entry.metadata.tags);
    },
    dispose: (forgotten) => {
      for (const entry of forgotten) byTag.delete(entry, entry.metadata.tags);
    },
    sizeCalculation: (kept, key) => kept.reduce((sum, e) => sum + entryWeight(key, e.variant, e.metadata), 1),
  });
  const blocks = new KeptBlocks(maxSizeBytes);
  const shareRoom = () => blocks.limit(maxSizeBytes - entries.calculatedSize);
  return {
    entriesOf: (key) => entries.get(key),
    keepEntries: (key, kept) => {
      entries.set(key, kept);
      shareRoom();
    },
    forgetEntries: (key) => {
      if (entries.delete(key)) shareRoom();
    },
    taggedEntries: (tag) => byTag.tagged(tag),
    prefixedEntries: (prefix) => [...entries].flatMap(([key, kept]) => (isPrefixOf(prefix, key) ? kept : [])),
    block: (generation, index) => blocks.get(generation, index),
    keepBlock: (generation, index, bytes) => blocks.keep(generation, index, withOwnBuffer(bytes)),
    hasRoomFor: (sizeBytes) => blocks.hasRoomFor(sizeBytes),
    get sizeBytes() {
      return entries.calculatedSize + blocks.sizeBytes;
    },
    get blockCount() {
      return blocks.count;
    },
    clear: () => {
      entries.clear();
      blocks.clear();
      shareRoom();
    },
  };
}
