/**
 * An entry of the disk store, and its readers: inline bodies from the index, other bodies from files. `DiskParts` are the parts
 * of the store that entries and writers share.
 */

import { SpanSet, spanOfBlock } from '../../bytes/span.ts';
import { memoizeByText } from '../../http/collections.ts';
import { PackedResponse, packResponse } from '../../http/packed-response.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { EntryReader, StoredEntry } from '../store.ts';
import type { BodyFiles } from './bodies/body-files.ts';
import type { OpenBodies } from './bodies/open-bodies.ts';
import type { QuickReads } from './bodies/synchronous-io.ts';
import type { ChangeMessages, DiskIndex } from './index/disk-index.ts';
import type { IndexedEntry } from './index/index-rows.ts';
import type { DiskSpace, StoringSwitch } from './space/disk-space.ts';
import { type Eviction, maxUnwrittenUses } from './space/eviction.ts';

/** The parts of the disk store that entries and writers use. */
export interface DiskParts {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly index: DiskIndex;
  readonly eviction: Eviction;
  readonly files: BodyFiles;
  readonly bodies: OpenBodies;
  readonly quickReads: QuickReads | undefined;
  readonly space: DiskSpace;
  /** How far the row of a generation that is being written counts ahead of its files, in bytes. */
  readonly stepBytes: number;
  readonly storing: StoringSwitch;
  readonly changes: ChangeMessages;
}

/** Creates the entry that the store returns. It has no bytes in memory, but asking it for a block counts as its use. */
export function createDiskEntry(parts: DiskParts, indexed: IndexedEntry): StoredEntry {
  return new DiskEntry(parts, indexed);
}

/** One object for each entry in memory, so entries share methods and have no closures. */
class DiskEntry implements StoredEntry {
  readonly key: string;
  readonly variant: string;
  readonly generation: string;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
  readonly #parts: DiskParts;
  #metadata: StoredResponse | PackedResponse;
  readonly #isInline: boolean;
  readonly #blockChecksum: IndexedEntry['blockChecksum'];

  constructor(parts: DiskParts, indexed: IndexedEntry) {
    this.key = indexed.key;
    this.variant = sharedVariant(indexed.variant);
    this.generation = indexed.generation;
    this.sizeBytes = indexed.sizeBytes;
    this.isComplete = indexed.isComplete;
    this.pinnedUntil = indexed.pinnedUntil;
    this.#parts = parts;
    this.#metadata = indexed.metadata;
    this.#isInline = indexed.isInline;
    this.#blockChecksum = indexed.blockChecksum;
  }

  get metadata(): StoredResponse {
    const metadata = this.#metadata;
    return metadata instanceof PackedResponse ? metadata.read() : metadata;
  }

  get fieldText(): string | undefined {
    return this.#metadata instanceof PackedResponse ? this.#metadata.text : undefined;
  }

  pack(): number | undefined {
    const metadata = this.#metadata;
    const packed = metadata instanceof PackedResponse ? metadata : packResponse(metadata);
    this.#metadata = packed ?? metadata;
    return packed?.length;
  }

  /** Does what `Eviction.touch` does, without the call: each hit comes here. */
  peekBlock(_index: number): undefined {
    const { eviction } = this.#parts;
    eviction.uses.set(this.generation, Math.floor((eviction.now() - eviction.startedAt) / 1000));
    if (eviction.uses.size > maxUnwrittenUses) eviction.writeOldestUses();
    return undefined;
  }

  /** Counts no use: `peekBlock` is called first and counts it. */
  readNow(offset: number, end: number): Uint8Array | undefined {
    return this.#isInline ? undefined : this.#parts.bodies.peek(this.generation)?.quick?.read(offset, end);
  }

  readBlockNow(index: number): Uint8Array | undefined {
    return index === 0 ? readLone(this.#parts, this, this.#blockChecksum) : undefined;
  }

  canMove(offset: number, end: number): boolean {
    const parts = this.#parts;
    if (this.#isInline || parts.quickReads?.move === undefined) return false;
    parts.eviction.touch(this.generation);
    const file = parts.bodies.peek(this.generation);
    if (file === undefined) void openForLater(parts, this, this.#blockChecksum);
    return file?.quick?.canMove(offset, end) === true;
  }

  move(socket: number, head: Uint8Array, offset: number, end: number): number {
    return this.#parts.bodies.peek(this.generation)?.quick?.moveChecked(socket, head, offset, end) ?? 0;
  }

  giveBack(bytes: Uint8Array): void {
    this.#parts.quickReads?.buffers.giveBack(bytes);
  }

  async open(): Promise<EntryReader> {
    this.#parts.eviction.touch(this.generation);
    return this.#isInline ? openInline(this.#parts, this) : await openFile(this.#parts, this, this.#blockChecksum);
  }

  readPresence(): Promise<SpanSet> {
    return readPresence(this.#parts, this, this.#isInline, this.#blockChecksum);
  }
}

/** Most entries have one of a few variants: they share its text. */
const sharedVariant = memoizeByText(256, (variant) => variant);

type Body = Pick<StoredEntry, 'generation' | 'sizeBytes'>;
type Checksum = IndexedEntry['blockChecksum'];

function openInline(parts: DiskParts, { generation, sizeBytes }: Body): EntryReader {
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

async function readPresence(
  parts: DiskParts,
  entry: Body,
  isInline: boolean,
  blockChecksum: Checksum,
): Promise<SpanSet> {
  const { generation, sizeBytes } = entry;
  requireIndexed(parts, entry);
  const count = Math.ceil(sizeBytes / parts.blockSizeBytes);
  // Inline bodies are always complete.
  if (isInline) return SpanSet.where(count, () => true);
  const file = await parts.bodies.acquire(generation, sizeBytes, blockChecksum);
  try {
    await file.loadSums();
    return SpanSet.where(count, (index) => file.has(index));
  } finally {
    parts.bodies.release(generation);
  }
}

async function openFile(parts: DiskParts, entry: Body, blockChecksum: Checksum): Promise<EntryReader> {
  const { generation, sizeBytes } = entry;
  requireIndexed(parts, entry);
  const file = await parts.bodies.acquire(generation, sizeBytes, blockChecksum);
  let isOpen = true;
  return {
    peekBlock: () => undefined,
    readBlock: async (index) => {
      if (!isOpen) throw gone(`The reader of generation ${generation} was closed.`);
      return await file.read(index);
    },
    readNow: (offset, end) => (isOpen ? file.quick?.read(offset, end) : undefined),
    giveBack: (bytes) => parts.quickReads?.buffers.giveBack(bytes),
    move: (...bytes) => (isOpen ? (file.quick?.move(...bytes) ?? 0) : 0),
    close: () => {
      if (isOpen) parts.bodies.release(generation);
      isOpen = false;
    },
  };
}

/** Reads a body of one block whose file is not open; returns undefined for any other body. */
function readLone(parts: DiskParts, { generation, sizeBytes }: Body, blockChecksum: Checksum) {
  if (blockChecksum === undefined || parts.bodies.peek(generation) !== undefined) return undefined;
  return parts.index.has(generation) ? parts.files.readLone(generation, sizeBytes, blockChecksum) : undefined;
}

/** Opens the file, which then stays open for a while although it has no users. */
async function openForLater(parts: DiskParts, entry: Body, blockChecksum: Checksum): Promise<void> {
  const { generation, sizeBytes } = entry;
  try {
    requireIndexed(parts, entry);
    await parts.bodies.acquire(generation, sizeBytes, blockChecksum);
    parts.bodies.release(generation);
  } catch {
    // The next reader gets the error.
  }
}

/**
 * Throws `bytes_gone` when the index has no row. Called before files are opened, because the files of a removed generation may
 * outlive its row by a moment.
 */
function requireIndexed({ index }: DiskParts, { generation }: Body): void {
  if (!index.has(generation)) throw gone(`Generation ${generation} is not in the index any more.`);
}

function gone(detail: string): ProxyError {
  return new ProxyError('bytes_gone', { detail });
}
