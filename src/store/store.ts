/**
 * The interface of a store. A store keeps entries: metadata under a key and a variant, and the bytes of one generation in blocks.
 * It knows no HTTP rule. Read this file first, then entry-rules.ts.
 *
 * Guarantees, tested by the contract suite in test/contract:
 * - a writer that is disposed before it publishes or commits leaves nothing behind;
 * - metadata can be replaced without touching the body;
 * - a tag removes exactly the entries whose current metadata has that tag;
 * - a reader never sees bytes of two generations, and keeps its bytes although the entry is replaced or evicted;
 * - a replaced generation that was complete stays findable until its pin ends, unless it is removed, evicted, or pinned in excess
 *   (`maxPins`); after that it is not found, and its bytes are soon deleted;
 * - every byte that is returned was checksummed since it was last read from disk; a block that is found damaged is absent from
 *   then on, and its entry incomplete;
 * - the store stays within its size; entries that are not used are evicted first, and an entry that is being written never.
 *
 * A store identifies an entry by its key, variant and generation, so it also accepts an entry that another store has wrapped.
 *
 * Several processes may share a store: see `Sharing`. A `StoreChange` is the message by which one process announces a change to
 * the others.
 */

import type { SpanSet } from '../bytes/span.ts';
import type { StoredResponse } from '../http/stored-response.ts';

/** Blocks of one generation. Block `i` starts at byte `i * blockSizeBytes` and has that many bytes; the last block may be shorter. */
export interface BlockSource {
  /** Returns a block that is in memory now, or undefined. Never waits, never copies. The bytes must not be changed. */
  peekBlock(index: number): Uint8Array | undefined;
  /** Reads a block from memory or disk. Throws `ProxyError` `bytes_gone` when it is absent or damaged. */
  readBlock(index: number): Promise<Uint8Array>;
}

/** A source that is open for reading. Its bytes stay readable until it is closed, even if the entry is replaced or removed. */
export interface EntryReader extends BlockSource {
  /** As `StoredEntry.readNow`, for an open reader. Absent where the store has no synchronous reads. */
  readNow?(offset: number, end: number): Uint8Array | undefined;
  /** As `StoredEntry.giveBack`, for bytes that `readNow` returned. */
  giveBack?(bytes: Uint8Array): void;
  /**
   * As `StoredEntry.move`, for any bytes, without `canMove` before it. Returns 0 where none can be moved. Absent where the store
   * moves nothing.
   */
  move?(socket: number, head: Uint8Array, offset: number, end: number): number;
  /** Releases the generation. May be called more than once. */
  close(): void;
}

/**
 * One stored representation of one variant, complete or in part. It is a value: it does not change when the store does. Members may
 * be getters, which a spread (`{ ...entry }`) leaves out.
 *
 * One generation of each key and variant is the current one. Earlier complete generations may be pinned: clients that resume can
 * still find and read them, but they are never written or freshened.
 */
export interface StoredEntry {
  readonly key: string;
  readonly variant: string;
  /** Identifies this version of the bytes. New bytes get a new generation. */
  readonly generation: string;
  readonly metadata: StoredResponse;
  /** Length of the whole representation in bytes, however many of its blocks are present. */
  readonly sizeBytes: number;
  /** Whether the generation was committed and no block was found damaged since. `Store.resume` adds absent blocks. */
  readonly isComplete: boolean;
  /** Epoch milliseconds until which a replaced generation can be found; undefined for the current one. */
  readonly pinnedUntil: number | undefined;
  /** What `hit.ts`, and nothing else, has found out about the entry. It lives as long as this object. */
  knownByHits?: object | undefined;
  /**
   * Makes the entry take less memory, for a store that keeps it: `metadata` is then made anew when it was not read for a while.
   * Returns the number of characters that the metadata takes; undefined where it stays as it is. Absent where a store keeps all
   * entries in memory.
   */
  pack?(): number | undefined;
  /** The HTTP/1.1 lines of the fields that hits send as they were stored, where the metadata is packed. */
  readonly fieldText?: string | undefined;
  /** Returns a block that is in memory now, or undefined. Never waits, never copies. Counts as a use of the entry. */
  peekBlock(index: number): Uint8Array | undefined;
  /**
   * Reads and checks bytes in the same tick, from `offset` up to `end` (exclusive), at most to the end of their block. Returns
   * undefined where that is not possible, or may hold up the tick for more than a small bounded time. Call it for few bytes, and
   * only after `peekBlock` returned undefined. The bytes may be in a lent buffer: see `giveBack`. Absent where the store has no
   * synchronous reads.
   */
  readNow?(offset: number, end: number): Uint8Array | undefined;
  /**
   * As `readNow`, for a whole block, in memory of its own that is not given back. Only for a generation that is not open, for
   * which `readNow` returns undefined.
   */
  readBlockNow?(index: number): Uint8Array | undefined;
  /**
   * Checks whether all bytes from `offset` up to `end` (exclusive) can be moved now: the system has them in memory and, as far as
   * is known, they were checked since they got there. Counts as a use of the entry. Absent where the store moves nothing.
   */
  canMove?(offset: number, end: number): boolean;
  /**
   * Has the system put `head`, then the bytes from `offset` up to `end` (exclusive), into a non-blocking socket (its descriptor).
   * Only for bytes for which `canMove` returned true in this tick. Returns how many bytes of both together the socket took, which
   * may be fewer. Does not throw.
   */
  move?(socket: number, head: Uint8Array, offset: number, end: number): number;
  /**
   * Takes back a lent buffer of `readNow` for reuse. Only for a caller that is sure that nothing reads the buffer any more,
   * system calls included. Any other caller drops the buffer, which is then garbage-collected. Bytes that were not lent are
   * ignored.
   */
  giveBack?(bytes: Uint8Array): void;
  /**
   * Opens the generation for reading; counts as a use of the entry. Throws `ProxyError` `bytes_gone` when the generation no
   * longer exists: an entry may be evicted after it was found. `first` is the block that is read first, where that is known: a
   * store for which each step is a round trip asks for it in the same step.
   */
  open(first?: number): Promise<EntryReader>;
  /**
   * Returns the indexes of the blocks that are present, as far as is known without reading them. Does not count as a use of the
   * entry. Throws `ProxyError` `bytes_gone` as `open` does.
   */
  readPresence(): Promise<SpanSet>;
}

/** What a store identifies an entry by. */
export type EntryName = Pick<StoredEntry, 'key' | 'variant' | 'generation'>;

/** Describes a generation whose writer is opened. */
export interface NewEntry {
  readonly key: string;
  readonly variant: string;
  readonly metadata: StoredResponse;
  /** Length of the whole body in bytes; undefined while it is unknown. */
  readonly sizeBytes: number | undefined;
}

/** Describes a generation that is committed. */
export interface FinalEntry {
  readonly metadata: StoredResponse;
  readonly sizeBytes: number;
  /** Pins the replaced generation, if it is complete, until this time in epoch milliseconds. */
  readonly pinPreviousUntil?: number | undefined;
}

/**
 * Writes one generation. The store finds it only after `publish` or `commit`. Written blocks can be read through the writer until
 * the writer is disposed, even if the generation is replaced or removed after `publish`; only `commit` then throws, `StoreFault`
 * `removed`. Calls may overlap.
 */
export interface EntryWriter extends BlockSource, AsyncDisposable {
  readonly generation: string;
  /** Checks whether a block is present. A block that was found damaged is not. */
  hasBlock(index: number): boolean;
  /**
   * Stores a block. The caller hands its bytes over and must not change them. Blocks come in any order where the length is known,
   * and in order otherwise. Every block but the last has the full size, and none is empty (`RangeError` otherwise: a mistake of
   * the caller). A block that is already present is left as it is. Throws `StoreFault`; blocks stored before can still be read.
   */
  writeBlock(index: number, bytes: Uint8Array): Promise<void>;
  /**
   * Makes the generation findable although blocks are absent, in place of an earlier one of its key and variant. The earlier one
   * is pinned until the given time (epoch milliseconds) if it is complete, and removed otherwise. Blocks that are written later
   * belong to the generation and survive the process. Does nothing when the generation was published before. The length must be
   * known (`RangeError` otherwise). Throws `StoreFault`.
   */
  publish(metadata: StoredResponse, pinPreviousUntil?: number): Promise<void>;
  /**
   * Makes the generation the current one of its key and variant, in place of an earlier one, and returns its entry. All its
   * blocks must have been written (`RangeError` otherwise). Throws `StoreFault`, with `io` where a block was damaged since it was
   * written; the earlier generation then stays.
   */
  commit(final: FinalEntry): Promise<StoredEntry>;
  /** Releases what the writer holds. Forgets everything written unless it was published or committed. Never rejects. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Writes a generation whose bytes were all passed to `Store.openWhole`. */
export type WholeWriter = Pick<EntryWriter, 'generation' | 'commit' | typeof Symbol.asyncDispose>;

/**
 * Selects entries: those whose keys begin with a prefix of whole characters (half a surrogate pair begins no key), or those that
 * have a tag.
 */
export type EntryChoice =
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'tag'; readonly tag: string };

/** One page of the selected entries, current and pinned ones, in a stable order. */
export interface EntryPage {
  readonly entries: readonly StoredEntry[];
  /** Cursor of the next page, for `Store.list`; undefined after the last page. */
  readonly next: string | undefined;
}

/** The order of a ranked list, and which entries are in it. */
export interface EntryOrder {
  /** What entries are ordered by. `age` is the age of the response: see `metadata.responseAt`. `used` is the last use (`usedAt`). */
  readonly by: 'key' | 'size' | 'age' | 'used';
  /** Whether the largest comes first: the longest body, the oldest response, the last use. */
  readonly isDescending: boolean;
  /** Only entries whose keys have this text after their first space. The case of ASCII letters does not matter. */
  readonly contains?: string | undefined;
}

/** The place of an entry in a ranked list: a text where the order is by key. Entries of one rank follow by their generations. */
export interface EntryRank {
  readonly rank: number | string;
  readonly generation: string;
}

/** An entry of a ranked list. */
export interface RankedEntry extends EntryRank {
  readonly entry: StoredEntry;
}

/** One page of a ranked list. */
export interface RankedPage {
  readonly entries: readonly RankedEntry[];
  /** Where the next page begins; undefined after the last page. A page may be shorter than its limit although there is a next one. */
  readonly next: EntryRank | undefined;
}

/** How full a store is. */
export interface StoreUsage {
  readonly entryCount: number;
  /** Size of the entries, in bytes. */
  readonly usedBytes: number;
  readonly maxSizeBytes: number;
  /** Bytes in the memory of this process; undefined where the store keeps nothing there. */
  readonly memoryBytes?: number;
  /** Maximum of `memoryBytes`. */
  readonly maxMemoryBytes?: number;
  /** Whether new entries are stored: false while the disk is full or cannot be written. Undefined where that cannot happen. */
  readonly isWritable?: boolean;
  /** The local disk in front of an engine; undefined where there is none. */
  readonly local?: LocalUsage;
}

/** What a local disk in front of an engine has, and what it has saved. */
export interface LocalUsage {
  readonly usedBytes: number;
  readonly maxSizeBytes: number;
  /** Whether more is kept: false while the disk is full or cannot be written. */
  readonly isWritable: boolean;
  /** Number of reads that the disk has answered, and the bytes of these. */
  readonly hits: number;
  readonly hitBytes: number;
  /** Number of blocks that were read from the engine, because the disk had not got them. */
  readonly misses: number;
}

export interface Store {
  readonly blockSizeBytes: number;
  /** Largest body that the store accepts, in bytes. */
  readonly maxEntryBytes: number;
  /**
   * Returns the entries of a key, all variants, the last committed first and pinned ones after all others. Returns undefined
   * where that is not possible without waiting (then call `find`). An empty list means that there is none. Must be cheap, because
   * each request calls it. While the same entries are stored it returns the same objects, so a caller can tell by identity that
   * nothing has changed.
   */
  peek(key: string): readonly StoredEntry[] | undefined;
  /**
   * Returns the entries of a key, all variants, the last committed first and pinned ones after all others. Returns none when the
   * index cannot be read now.
   */
  find(key: string): Promise<readonly StoredEntry[]>;
  /** Begins a generation. Throws `StoreFault` when there is no room or nothing can be written. */
  openWriter(entry: NewEntry): Promise<EntryWriter>;
  /**
   * Begins a generation with all of its bytes: at least one byte and at most one block. Combines `openWriter` and `writeBlock`.
   * The caller hands the bytes over and must not change them. Returns undefined where there is no room at once or nothing can be
   * written; `openWriter` then makes room or throws the reason. Absent where a store has no such step.
   */
  openWhole?(entry: NewEntry, bytes: Uint8Array): WholeWriter | undefined;
  /**
   * Opens an incomplete entry to write its absent blocks. Returns undefined when its generation was replaced or removed
   * meanwhile. One writer at a time has a generation open (`Error` otherwise: a mistake of the caller). Throws `StoreFault`, with
   * `io` also where another process is writing the generation.
   */
  resume(entry: StoredEntry): Promise<EntryWriter | undefined>;
  /**
   * Replaces the metadata of an entry if its generation is still the current one; its position among the variants stays. Returns
   * the new entry, or undefined when the generation was replaced or removed meanwhile. When the metadata cannot be stored, the
   * new entry is returned all the same, but look-ups go on to find the old one; where it must not be used as it was (`expiredAt`,
   * `isInvalid`), the entry is removed instead.
   */
  replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined>;
  /** Removes one generation of an entry, current or pinned, if it still exists. */
  removeEntry(entry: EntryName): Promise<void>;
  /**
   * Removes every entry of a key, all variants and pinned ones too; returns how many could be found. As every removal, it rejects with
   * `StoreFault` where an engine that the store is in cannot take it now: the store then removes it as soon as it can, and finds
   * nothing until then.
   */
  removeKey(key: string): Promise<number>;
  /**
   * Removes every entry whose metadata has exactly this tag (`StoredResponse.tags`): of any key, all variants, complete or not,
   * pinned ones too. Returns each key under which such an entry could be found, once, so that the caller can keep fills of these
   * keys from being stored. An entry that is published or committed before the promise resolves may be removed too. Removes
   * nothing when the index cannot be read now.
   *
   * Where several processes share the store, each of them knows of this and of every other change when the promise resolves.
   */
  removeTagged(tag: string): Promise<readonly string[]>;
  /**
   * Returns the next entries of a choice, at most `limit`, from the cursor `after` on, or from the first entry without it. Does
   * not count as a use. An entry that changes meanwhile may or may not be returned. Returns none when the index cannot be read
   * now; rejects with `StoreFault` where an engine that the store is in does not answer. Throws `RangeError` when `after` is not a
   * cursor of such a choice.
   */
  list(choice: EntryChoice, limit: number, after?: string): Promise<EntryPage>;
  /**
   * As `list`, in an order of its own: at most `limit` entries after the place `after`. The place belongs to the order, so that one
   * place continues lists of several choices. Looks at every entry, in many turns of the event loop.
   */
  listRanked(choice: EntryChoice, order: EntryOrder, limit: number, after?: EntryRank): Promise<RankedPage>;
  /**
   * Returns when an entry was last used, in epoch milliseconds, to the second; undefined where this process knows of no use. It
   * forgets the uses of entries that are used rarely, and all uses when it ends.
   */
  usedAt(generation: string): number | undefined;
  /** Returns which of the first `count` blocks of a generation are in the memory of this process. Does not count as a use. */
  blocksInMemory(generation: string, count: number): SpanSet;
  /** As `removeTagged`, for entries whose keys begin with `prefix`. */
  removePrefixed(prefix: string): Promise<readonly string[]>;
  /** Returns how full the store is. Cheap enough to be called every second. */
  readUsage(): StoreUsage;
  /** Applies a change that another process of a shared store announced: drops state that is outdated by it. */
  applyChange(change: StoreChange): void;
  /**
   * Releases files and locks. Uncommitted writers are abandoned. Afterwards only `close`, the disposal of writers and the closing
   * of readers may be called.
   */
  close(): Promise<void>;
}

/**
 * Why a store cannot accept something, or cannot be opened. `removed`: the generation was published, and was replaced or removed
 * meanwhile. `in_use`: another process has the store. A fault never fails a request: a response that cannot be stored is relayed.
 */
export type StoreFaultReason = 'too_large' | 'no_room' | 'removed' | 'io' | 'in_use';

/** A failure to store something, or to open a store. */
export class StoreFault extends Error {
  readonly reason: StoreFaultReason;

  constructor(reason: StoreFaultReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreFault';
    this.reason = reason;
  }
}

/** Returns the `StoreFault` of a failure to store. An error of any other kind counts as `io`. */
export function toStoreFault(error: unknown): StoreFault {
  if (error instanceof StoreFault) return error;
  return new StoreFault('io', `The store cannot be written: ${String(error)}`, { cause: error });
}

/** Returns the fault of a writer that commits a generation which was published and has been replaced or removed since. */
export function removedFault(generation: string): StoreFault {
  return new StoreFault('removed', `Generation ${generation} was replaced or removed while it was written.`);
}

/**
 * A message between the processes that share a store. All kinds but `opened`, `evicting` and `fallen` announce a change that is
 * already done.
 * - `keys`: the entries of these keys have changed.
 * - `tag`, `prefix`: all entries with the tag, or with the prefix in their keys, were removed.
 * - `generations`: these were removed or replaced.
 * - `lost`: these generations were removed, but their rows could not be deleted from the index yet.
 * - `fresh`: the index was damaged and starts empty.
 * - `opened`: the sender has opened the store, and must learn of what was announced as `lost` before.
 * - `evicting`: entries are about to be evicted to make room.
 * - `fallen`: these processes have died.
 * - `local`: a change of the local disk in front of an engine, for the other processes of the machine.
 */
export type StoreChange =
  | { readonly kind: 'keys'; readonly keys: readonly string[] }
  | { readonly kind: 'tag'; readonly tag: string }
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'generations'; readonly generations: readonly string[] }
  | { readonly kind: 'lost'; readonly generations: readonly string[] }
  | { readonly kind: 'fresh' }
  | { readonly kind: 'opened' }
  | { readonly kind: 'evicting' }
  | { readonly kind: 'fallen'; readonly instances: readonly string[] }
  | { readonly kind: 'local'; readonly change: StoreChange };

/** Announces a change to the other processes. Resolves when each of them that lives has applied it (`Store.applyChange`); never rejects. */
export type AnnounceChange = (change: StoreChange) => Promise<void>;

/** One of several processes that share a directory. The process that locked the directory has started all of them. */
export interface Sharing {
  /** Name of this process, of letters and digits; no other process ever had it. The generations that this process begins end with it. */
  readonly instance: string;
  /** Whether no other process has the store open yet. The leftovers of earlier processes are then swept. */
  readonly isFirst: boolean;
  /** Processes that died with the store open. Their unfinished writes are given up. */
  readonly fallen: readonly string[];
  /** Announces a change to the other processes. */
  readonly announce: AnnounceChange;
}
