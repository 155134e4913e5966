/**
 * What a store is. A store keeps entries: metadata under a key and a variant, and the bytes of one generation in
 * blocks. It knows no HTTP rule. Read this file first.
 *
 * The promises, proven by the contract suite in test/contract:
 * - a writer that is disposed before it publishes or commits never existed;
 * - metadata can be replaced without touching a byte;
 * - an entry is removed by each of the tags that its metadata has now, and by no other;
 * - a reader never sees bytes of two generations, and keeps its bytes although the entry is replaced or evicted;
 * - a replaced generation that was complete stays findable as long as the writer of the next one wants it pinned, unless
 *   it is removed, evicted, or one of too many pinned ones; after that time it is not found, and its bytes go soon;
 * - no byte is given that was not checksummed since it was last read from disk; a block that turns out to be damaged is
 *   absent from then on, and its entry incomplete;
 * - what is kept stays within the store's size; entries that are not used go first, and one that is being written never.
 *
 * A store knows an entry by its key, variant and generation; an entry that another store wraps is as good as its own.
 *
 * Several processes may share a store: `Sharing` says how, and a `StoreChange` is the message by which one of them announces a
 * change to the others.
 */

import type { SpanSet } from '../bytes/span.ts';
import type { StoredResponse } from '../http/stored-response.ts';

/** Blocks of one generation. Block `i` holds the bytes `[i * blockSizeBytes, …)`; the last one may be shorter. */
export interface BlockSource {
  /** A block that is in memory now, or undefined. Never waits, never copies; the bytes must not be changed. */
  peekBlock(index: number): Uint8Array | undefined;
  /** A block, from wherever it is. Throws `ProxyError` `bytes_gone` when it is absent or damaged. */
  readBlock(index: number): Promise<Uint8Array>;
}

/** A source that was opened for reading: its bytes stay until it is closed, whatever becomes of the entry. */
export interface EntryReader extends BlockSource {
  /** As `StoredEntry.readNow`, for a reader that goes on from there. Absent where a store never does that. */
  readNow?(offset: number, end: number): Uint8Array | undefined;
  /** As `StoredEntry.giveBack`, of what `readNow` gave. */
  giveBack?(bytes: Uint8Array): void;
  /** As `StoredEntry.move`, of any bytes: 0 where none can be moved. Absent where none ever are. */
  move?(socket: number, head: Uint8Array, offset: number, end: number): number;
  /** Gives back what the reader holds; may be called more than once. */
  close(): void;
}

/**
 * One stored representation of one variant, whole or in part. A value: it does not change when the store does.
 *
 * Of the generations of one key and variant one is current. Earlier ones that were complete may be pinned: they are still
 * found and read, for clients that resume, but never written or freshened.
 */
export interface StoredEntry {
  readonly key: string;
  readonly variant: string;
  /** Names this version of the bytes; new bytes are a new generation. */
  readonly generation: string;
  readonly metadata: StoredResponse;
  /** The length of the whole representation, however much of it is there. */
  readonly sizeBytes: number;
  /** Whether it was committed, and no block was found damaged since. What is absent can be added: see `Store.resume`. */
  readonly isComplete: boolean;
  /** Until when a replaced generation is still found, in epoch milliseconds; undefined for the current one. */
  readonly pinnedUntil: number | undefined;
  /** A block that is in memory now, or undefined. Never waits, never copies; counts as a use of the entry. */
  peekBlock(index: number): Uint8Array | undefined;
  /**
   * Bytes from `offset` on, up to `end` (exclusive) and at most to the end of their block, that are not in memory but can
   * be read and checked in the same tick, at no more than a small bounded risk of holding it up; undefined otherwise. To be
   * asked for few bytes, after `peekBlock`. Absent where a store never does that.
   */
  readNow?(offset: number, end: number): Uint8Array | undefined;
  /**
   * As `readNow`, a whole block, in memory of its own that is not given back. Only where `readNow` could tell it after a wait at
   * best, for nobody has it open.
   */
  readBlockNow?(index: number): Uint8Array | undefined;
  /**
   * Whether all bytes from `offset` up to `end` (exclusive) can be moved now: the system has them in memory, and they were
   * checked since they came there, for all that is known. Counts as a use of the entry. Absent where nothing is moved.
   */
  canMove?(offset: number, end: number): boolean;
  /**
   * Has the system put `head`, and then bytes of which `canMove` has just told that they can be moved, from `offset` on, up to
   * `end` (exclusive), into a socket (its descriptor) that waits for nothing. Gives how many of both, together, the socket took,
   * at once and for good, which may be fewer at any time. Does not throw.
   */
  move?(socket: number, head: Uint8Array, offset: number, end: number): number;
  /**
   * Takes back what `readNow` gave, so that its memory can be used for other bytes. Only for who is sure that nobody reads
   * it any more, the system's calls included; who is not lets go of it, and it is collected. Other bytes are left alone.
   */
  giveBack?(bytes: Uint8Array): void;
  /**
   * Opens the generation for reading; counts as a use of the entry. Throws `ProxyError` `bytes_gone` when it is not
   * there any more: an entry may be evicted between being found and being opened.
   */
  open(): Promise<EntryReader>;
  /**
   * The indexes of the blocks that are there now, as far as that is known without reading them. No use of the entry. Throws
   * `ProxyError` `bytes_gone` as `open` does.
   */
  readPresence(): Promise<SpanSet>;
}

/** What a new generation is begun with. */
export interface NewEntry {
  readonly key: string;
  readonly variant: string;
  readonly metadata: StoredResponse;
  /** The length of the whole, where it is known beforehand. */
  readonly sizeBytes: number | undefined;
}

/** What a generation is when it is whole. */
export interface FinalEntry {
  readonly metadata: StoredResponse;
  readonly sizeBytes: number;
  /** Pins the generation that is replaced, if it is complete, until this instant in epoch milliseconds. */
  readonly pinPreviousUntil?: number | undefined;
}

/**
 * Writes one generation. Nothing of it can be found in the store before `publish` or `commit`. What was written can be
 * read through the writer, before and after, until the writer is disposed. That goes on when the generation is replaced
 * or removed after it was published; only `commit` throws then, `StoreFault` `removed`. Calls may overlap.
 */
export interface EntryWriter extends BlockSource, AsyncDisposable {
  readonly generation: string;
  /** Whether a block is there. A block that turned out to be damaged is not. */
  hasBlock(index: number): boolean;
  /**
   * Keeps a block. The caller gives its bytes away and changes them no more. Blocks come in any order where the length
   * is known, and in order otherwise; every one but the last has the full size, and none is empty (`RangeError`
   * otherwise: a mistake of the caller). A block that is there already is left as it is. Throws `StoreFault`; what was
   * kept before can still be read.
   */
  writeBlock(index: number, bytes: Uint8Array): Promise<void>;
  /**
   * Makes the generation findable although blocks are absent, in place of an earlier one of its key and variant, which
   * is pinned until the given instant (epoch milliseconds) if it is complete, and goes otherwise. Blocks that are written
   * later belong to it, and survive the process. Does nothing when it was published before. The length must be known
   * (`RangeError` otherwise). Throws `StoreFault`.
   */
  publish(metadata: StoredResponse, pinPreviousUntil?: number): Promise<void>;
  /**
   * Makes the generation the current one of its key and variant, in place of an earlier one, and tells its entry.
   * All its blocks must have been written (`RangeError` otherwise). Throws `StoreFault`, `io` where a block was damaged
   * since it was written; the earlier one then stays.
   */
  commit(final: FinalEntry): Promise<StoredEntry>;
  /** Gives back what the writer holds; forgets all that was written unless it was published or committed. Never rejects. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Writes a generation whose bytes are all there: see `Store.openWhole`. */
export type WholeWriter = Pick<EntryWriter, 'generation' | 'commit' | typeof Symbol.asyncDispose>;

/**
 * Which entries: those whose keys begin with a text of whole characters (half a surrogate pair begins none), or that have
 * a tag.
 */
export type EntryChoice =
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'tag'; readonly tag: string };

/** A few of the chosen entries, current and pinned ones, in an order that does not change. */
export interface EntryPage {
  readonly entries: readonly StoredEntry[];
  /** Where the next page begins, to be given back as it is; undefined after the last one. */
  readonly next: string | undefined;
}

/** How full a store is. */
export interface StoreUsage {
  readonly entryCount: number;
  /** What entries take, in bytes. */
  readonly usedBytes: number;
  readonly maxSizeBytes: number;
  /** What is in the memory of this process, in bytes; undefined where a store keeps nothing there. */
  readonly memoryBytes?: number;
  /** Whether what comes is kept: not while a disk is full or cannot be written. Undefined where that cannot happen. */
  readonly isWritable?: boolean;
}

/** Keeps entries. */
export interface Store {
  readonly blockSizeBytes: number;
  /** The largest body that this store takes. */
  readonly maxEntryBytes: number;
  /**
   * The entries of a key, all variants, the last committed first and pinned ones after all others, when that can be told
   * without waiting; undefined when it cannot (then ask `find`). An empty list says that there is none. Cheap, for it is
   * asked with each request; and as long as the same is stored the same objects are told, so that whoever has compared
   * one with what was told before knows that nothing has changed.
   */
  peek(key: string): readonly StoredEntry[] | undefined;
  /**
   * The entries of a key, all variants, the last committed first and pinned ones after all others. A store that cannot
   * read its index now answers with none.
   */
  find(key: string): Promise<readonly StoredEntry[]>;
  /** Begins a generation. Throws `StoreFault` when there is no room or nothing can be written. */
  openWriter(entry: NewEntry): Promise<EntryWriter>;
  /**
   * Begins a generation whose bytes are all there, and are at most one block that is not empty: as `openWriter` and
   * `writeBlock` together. The caller gives the bytes away and changes them no more. Undefined where there is no room at once,
   * or nothing can be written: `openWriter` makes room, or tells why not. Absent where a store has no such step.
   */
  openWhole?(entry: NewEntry, bytes: Uint8Array): WholeWriter | undefined;
  /**
   * Opens an entry whose blocks are not all there for writing the rest. Undefined when its generation has been replaced
   * or removed meanwhile. One writer at a time has a generation open (`Error` otherwise: a mistake of the caller). Throws
   * `StoreFault`, `io` also where another process is writing the generation.
   */
  resume(entry: StoredEntry): Promise<EntryWriter | undefined>;
  /**
   * Replaces the metadata of an entry, if its generation is still the current one; its place among the variants stays.
   * Gives the new entry, or undefined when the generation has been replaced or removed meanwhile. When the metadata
   * cannot be kept, the new entry is given all the same, but the old one goes on being found.
   */
  replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined>;
  /** Removes one generation of an entry, current or pinned, if it is still there. */
  removeEntry(entry: StoredEntry): Promise<void>;
  /** Removes every entry of a key, all variants and pinned ones too; tells how many there were. */
  removeKey(key: string): Promise<number>;
  /**
   * Removes every entry whose metadata has this very tag (`StoredResponse.tags`): of whatever key, all variants, whole or
   * in part, and pinned ones too. Tells the keys under which such an entry could be found, each once, so that what is
   * running for them can be kept from being stored. What is published or committed before the promise resolves may be
   * among what is removed. A store that cannot read its index now removes nothing.
   *
   * Where several processes share the store, this and all other changes are known to each of them when the promise
   * resolves.
   */
  removeTagged(tag: string): Promise<readonly string[]>;
  /**
   * The next entries of a choice, at most `limit` of them, from where `after` says; from the first one without it. No use
   * of them. What changes meanwhile may be told or not. A store that cannot read its index now tells none. Throws
   * `RangeError` when `after` is nothing that was told of such a choice.
   */
  list(choice: EntryChoice, limit: number, after?: string): Promise<EntryPage>;
  /** As `removeTagged`, for entries whose keys begin with a text. */
  removePrefixed(prefix: string): Promise<readonly string[]>;
  /** How full it is; cheap enough to be asked every second. */
  readUsage(): StoreUsage;
  /** Learns what another process has changed, where several share the store: forgets what it knows otherwise. */
  heed(change: StoreChange): void;
  /**
   * Gives back files and locks. Writers that did not commit are abandoned. Nothing may be called after it but itself,
   * the disposal of writers and the closing of readers.
   */
  close(): Promise<void>;
}

/**
 * Why a store cannot take something: `removed`, it was published, and was replaced or removed meanwhile; or, at its
 * opening, cannot be had: `in_use`, another process has it. It never fails a request: what cannot be stored is relayed.
 */
export type StoreFaultReason = 'too_large' | 'no_room' | 'removed' | 'io' | 'in_use';

/** A store could not keep something. */
export class StoreFault extends Error {
  readonly reason: StoreFaultReason;

  constructor(reason: StoreFaultReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreFault';
    this.reason = reason;
  }
}

/** The fault of a writer that would commit a generation which was published and removed. */
export function removedFault(generation: string): StoreFault {
  return new StoreFault('removed', `Generation ${generation} was replaced or removed while it was written.`);
}

/**
 * A change that is done already: what is stored under keys is another now; all with a tag or with a prefix of their keys
 * were removed; generations were removed, or replaced; such were removed that the index could not be told to forget yet;
 * the index was damaged and begins afresh. Or what is about to be done: entries leave, because others need their room. Or
 * what has become of others: they have died.
 */
export type StoreChange =
  | { readonly kind: 'keys'; readonly keys: readonly string[] }
  | { readonly kind: 'tag'; readonly tag: string }
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'generations'; readonly generations: readonly string[] }
  | { readonly kind: 'lost'; readonly generations: readonly string[] }
  | { readonly kind: 'fresh' }
  | { readonly kind: 'evicting' }
  | { readonly kind: 'fallen'; readonly instances: readonly string[] };

/** Tells the others. Resolves when each of them that lives has heeded it (`Store.heed`); never rejects. */
export type TellChange = (change: StoreChange) => Promise<void>;

/** One of several processes that share a directory, all of them started by the one that has locked it. */
export interface Sharing {
  /** Names this process among all that there were; of letters and digits. What it begins to write has names that end so. */
  readonly instance: string;
  /** Whether no other process has the store open yet: then what earlier ones have left is swept. */
  readonly isFirst: boolean;
  /** Processes that died with the store open: what they were writing is given up. */
  readonly fallen: readonly string[];
  /** Tells the others what has changed. */
  readonly tell: TellChange;
}
