/** An entry of the disk store, and how it is read: inline from the index, or from its files. */

import { spanOfBlock } from '../../bytes/span.ts';
import { SpanSet } from '../../bytes/span-set.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { EntryReader, StoredEntry } from '../store.ts';
import type { DiskParts } from './disk-parts.ts';
import type { IndexedEntry } from './index-row.ts';

/** An entry as the store gives it out. Nothing of it is in memory, but asking for it counts as its use. */
export function createDiskEntry(parts: DiskParts, indexed: IndexedEntry): StoredEntry {
  const { key, variant, generation, metadata, sizeBytes, isComplete, isInline, pinnedUntil } = indexed;
  return {
    key,
    variant,
    generation,
    metadata,
    sizeBytes,
    isComplete,
    pinnedUntil,
    peekBlock: () => {
      parts.eviction.touch(generation);
      return undefined;
    },
    readNow: (offset, end, isDue) => {
      // What `peekBlock` is asked for first, and counts as the use.
      return isInline ? undefined : parts.bodies.peek(generation)?.quick?.read(offset, end, isDue);
    },
    readBlockNow: (index, isDue) => (index === 0 ? readLone(parts, indexed, isDue) : undefined),
    canMove: (offset, end) => {
      if (isInline || parts.quickReads?.move === undefined) return false;
      parts.eviction.touch(generation);
      const file = parts.bodies.peek(generation);
      if (file === undefined) void openForLater(parts, indexed);
      return file?.quick?.canMove(offset, end) === true;
    },
    move: (...bytes) => parts.bodies.peek(generation)?.quick?.moveSound(...bytes) ?? 0,
    giveBack: (bytes) => parts.quickReads?.buffers.giveBack(bytes),
    open: async () => {
      parts.eviction.touch(generation);
      return isInline ? openInline(parts, indexed) : await openFile(parts, indexed);
    },
    readPresence: () => readPresence(parts, indexed),
  };
}

function openInline(parts: DiskParts, { generation, sizeBytes }: IndexedEntry): EntryReader {
  const body = parts.index.body(generation);
  if (body === undefined) throw gone(`Generation ${generation} is not in the index any more.`);
  const peekBlock = (index: number) => {
    const { start, end } = spanOfBlock(index, parts.blockSizeBytes, sizeBytes);
    return start < end ? body.subarray(start, end) : undefined;
  };
  return {
    peekBlock,
    readBlock: async (index) => {
      const block = peekBlock(index);
      if (block === undefined) throw gone(`Generation ${generation} has no block ${index}.`);
      return block;
    },
    close: () => {},
  };
}

async function readPresence(parts: DiskParts, entry: IndexedEntry): Promise<SpanSet> {
  const { generation, sizeBytes, isInline, blockChecksum } = entry;
  requireIndexed(parts, entry);
  const count = Math.ceil(sizeBytes / parts.blockSizeBytes);
  // Only what is complete is kept in the index.
  if (isInline) return SpanSet.where(count, () => true);
  const file = await parts.bodies.acquire(generation, sizeBytes, blockChecksum);
  try {
    await file.loadSums();
    return SpanSet.where(count, (index) => file.has(index));
  } finally {
    parts.bodies.release(generation);
  }
}

async function openFile(parts: DiskParts, entry: IndexedEntry): Promise<EntryReader> {
  const { generation, sizeBytes, blockChecksum } = entry;
  requireIndexed(parts, entry);
  const file = await parts.bodies.acquire(generation, sizeBytes, blockChecksum);
  let isOpen = true;
  return {
    peekBlock: () => undefined,
    readBlock: async (index) => {
      if (!isOpen) throw gone(`The reader of generation ${generation} was closed.`);
      return await file.read(index);
    },
    move: (...bytes) => (isOpen ? (file.quick?.move(...bytes) ?? 0) : 0),
    close: () => {
      if (isOpen) parts.bodies.release(generation);
      isOpen = false;
    },
  };
}

/** Reads a body that is one block, in a file that nobody has open; undefined for any other. */
function readLone(parts: DiskParts, { generation, sizeBytes, blockChecksum }: IndexedEntry, isDue = false) {
  if (blockChecksum === undefined || parts.bodies.peek(generation) !== undefined) return undefined;
  return parts.index.has(generation) ? parts.files.readLone(generation, sizeBytes, blockChecksum, isDue) : undefined;
}

/** Opens the file, which stays open for a while though nobody uses it. */
async function openForLater(parts: DiskParts, entry: IndexedEntry): Promise<void> {
  const { generation, sizeBytes, blockChecksum } = entry;
  try {
    requireIndexed(parts, entry);
    await parts.bodies.acquire(generation, sizeBytes, blockChecksum);
    parts.bodies.release(generation);
  } catch {
    // Whoever wants to read it learns what is wrong with it.
  }
}

/** Asked before files are opened, because those of a removed generation may be there a moment longer than its row. */
function requireIndexed({ index }: DiskParts, { generation }: IndexedEntry): void {
  if (!index.has(generation)) throw gone(`Generation ${generation} is not in the index any more.`);
}

function gone(detail: string): ProxyError {
  return new ProxyError('bytes_gone', { detail });
}
