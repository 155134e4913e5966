/**
 * The store on disk: an index in SQLite (index/) with small bodies in it, larger bodies in files (bodies/), and the account of
 * the disk space (space/). Read this file first. Also the options of the store, and the log messages for bodies that are damaged,
 * gone or cannot be opened.
 */

import * as promises from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { SpanSet } from '../../bytes/span.ts';
import { ShortLivedMap } from '../../http/collections.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import { hasFallingRanks, RankSelection } from '../entry-rules.ts';
import { LogThrottle } from '../log-throttle.ts';
import {
  type EntryChoice,
  type EntryName,
  type EntryOrder,
  type EntryPage,
  type EntryRank,
  type EntryWriter,
  type NewEntry,
  type RankedEntry,
  type RankedPage,
  type Sharing,
  type Store,
  type StoreChange,
  type StoredEntry,
  StoreFault,
  type StoreUsage,
  type WholeWriter,
} from '../store.ts';
import type { BlockFileOptions, LostBlock } from './bodies/block-file.ts';
import { BodyFiles } from './bodies/body-files.ts';
import type { FileSystem } from './bodies/file-system.ts';
import { BackgroundTasks, OpenBodies } from './bodies/open-bodies.ts';
import { type QuickReadOptions, QuickReads, type QuickWriteOptions, QuickWrites } from './bodies/synchronous-io.ts';
import { createDiskEntry, type DiskParts } from './disk-entry.ts';
import { DiskWholeWriter, DiskWriter } from './disk-writer.ts';
import { createStoreDirectory, type DirectoryLock, joinDirectory, lockDirectory } from './index/directory-lock.ts';
import { ChangeMessages, DiskIndex } from './index/disk-index.ts';
import { type FreshReason, IndexConnection } from './index/index-connection.ts';
import { placeOf } from './index/index-rows.ts';
import { Instances } from './index/instances.ts';
import { DiskSpace, RoomClaims, StoringSwitch, stepBytesOf } from './space/disk-space.ts';
import { Eviction } from './space/eviction.ts';
import { Sweeper } from './space/sweep.ts';

/** Options of a disk store. */
export interface DiskStoreOptions {
  /** The store's own directory; created where it does not exist. */
  readonly dir: string;
  /** Bound of the disk space that entries take, in bytes. Readers may hold evicted files a little longer. */
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** Largest body that is accepted, in bytes; half of the store by default. */
  readonly maxEntryBytes?: number | undefined;
  /** When the bound is exceeded, entries are evicted until no more than this percentage of it is in use; 95 by default. */
  readonly lowWaterPercent?: number | undefined;
  /** The store does not grow while less of the disk is free, in bytes; 32 MiB, or a quarter of a smaller disk, by default. */
  readonly minFreeBytes?: number | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Returns a name that was never returned before, of letters, digits, `-` and `_`, such as a UUID. */
  readonly randomId: () => string;
  readonly emit: Emit;
  /** How this process shares the directory with others; without it the store is locked for this process. */
  readonly sharing?: Sharing | undefined;
  /** How long a change waits for another process that changes the index, in milliseconds; a second when absent. */
  readonly busyWaitMs?: number | undefined;
  /** Calls for directories, bodies and free space; `node:fs/promises` by default. */
  readonly fileSystem?: FileSystem;
  /** Reads pieces of bodies in the same tick where that is quick; without it the thread pool reads everything. */
  readonly quickReads?: QuickReadOptions | undefined;
  /** How long a file stays open after its last read, in seconds; 10 by default. It is closed within twice this time. */
  readonly idleFileSeconds?: number | undefined;
  /** Writes bodies of one block in the same tick where that is quick; without it the thread pool writes them. */
  readonly quickWrites?: QuickWriteOptions | undefined;
}

/** Default share of the store that one entry may take, so that one fill cannot empty it. */
const maxEntryShare = 1 / 2;
/** Number of entries of a page that are looked up before other work gets its turn. */
const listedAtOnce = 64;
/** Maximum number of bodies that stay open after they were read, so that the next reader need not open them, where quick reads are on. */
const idleBodies = 128;
const defaultIdleFileSeconds = 10;

/**
 * Opens the store of a directory, and locks it for this process or joins the processes that share it. The directory contains
 * `index.sqlite`, bodies as `blocks/ab/<generation>.body` with checksums as `.sums` where they have a sidecar,
 * `index.sqlite.damaged` where an index was set aside, and the files of `lockDirectory`. Throws `StoreFault` with a message for
 * people: `in_use` when another process has the directory, `io` when it cannot be used or has a newer format.
 */
export async function openDiskStore(options: DiskStoreOptions): Promise<Store> {
  const { dir, sharing, fileSystem = promises } = options;
  await createStoreDirectory(fileSystem, dir, join(dir, 'blocks'));
  const lock = sharing === undefined ? await lockDirectory(dir, fileSystem) : joinDirectory(dir);
  try {
    const store = new DiskStore(options, fileSystem, lock);
    // Rows that could not be deleted yet: other processes know that their entries were removed, and tell it before this resolves.
    if (sharing?.isFirst === false) await sharing.announce({ kind: 'opened' });
    return store;
  } catch (error) {
    lock.release();
    throw error;
  }
}

class DiskStore implements Store {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly #options: DiskStoreOptions;
  readonly #lock: DirectoryLock;
  readonly #connection: IndexConnection;
  readonly #instances: Instances;
  readonly #news: ChangeMessages;
  readonly #parts: DiskParts;
  readonly #sweeper: Sweeper;
  readonly #background = new BackgroundTasks();
  readonly #writers = new ShortLivedMap<string, DiskWriter | DiskWholeWriter>();
  readonly #forgetWriter = (generation: string): void => void this.#writers.delete(generation);
  readonly #stopping = new AbortController();
  #closing: Promise<void> | undefined;

  constructor(options: DiskStoreOptions, fileSystem: FileSystem, lock: DirectoryLock) {
    const { blockSizeBytes, maxSizeBytes, maxEntryBytes, sharing } = options;
    this.blockSizeBytes = blockSizeBytes;
    this.maxEntryBytes = maxEntryBytes ?? Math.floor(maxSizeBytes * maxEntryShare);
    this.#options = options;
    this.#lock = lock;
    this.#connection = new IndexConnection({ ...options, isShared: sharing !== undefined });
    this.#instances = new Instances(this.#connection, sharing);
    this.#news = new ChangeMessages(sharing?.announce);
    this.#parts = this.#createParts(fileSystem);
    const isWritten = (generation: string) => this.#writers.has(generation);
    const { signal } = this.#stopping;
    this.#sweeper = new Sweeper({ ...this.#parts, instances: this.#instances, isWritten, emit: options.emit, signal });
    this.#connection.onReset((reason) => this.#startAfresh(reason));
    const isLeftBehind = sharing === undefined || sharing.isFirst || sharing.fallen.length > 0;
    // Other processes that have the damaged index open may not have noticed the damage yet.
    if (this.#connection.wasReplacedAtOpen) this.#startAfresh('replaced');
    else if (isLeftBehind) this.#background.add(this.#sweeper.sweepAll());
    this.#background.add(this.#parts.space.makeRoom());
  }

  /** Always undefined: a look-up in the index may wait for the disk, so only `find` does it. */
  peek(): undefined {
    return undefined;
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    return this.#parts.index.find(key).map((indexed) => createDiskEntry(this.#parts, indexed));
  }

  async openWriter(entry: NewEntry): Promise<EntryWriter> {
    const writer = this.#addWriter(this.#instances.generationOf(this.#options.randomId()), entry);
    try {
      await writer.begin();
      return writer;
    } catch (error) {
      await writer[Symbol.asyncDispose]();
      throw error;
    }
  }

  openWhole(entry: NewEntry, bytes: Uint8Array): WholeWriter | undefined {
    const place = placeOf(bytes.length, true, this.blockSizeBytes);
    const { space, storing } = this.#parts;
    if (this.#closing !== undefined || place === 'files' || bytes.length > this.maxEntryBytes || !storing.isOn) {
      return undefined;
    }
    const options = { parts: this.#parts, entry, bytes, place, onDisposed: this.#forgetWriter };
    const writer = new DiskWholeWriter(this.#instances.generationOf(this.#options.randomId()), options);
    if (!space.take(writer.reservedBytes)) return undefined;
    this.#writers.set(writer.generation, writer);
    return writer;
  }

  async resume({ key, generation }: StoredEntry): Promise<EntryWriter | undefined> {
    const found = this.#parts.index.get(key, generation);
    if (found === undefined || found.entry.pinnedUntil !== undefined) return undefined;
    if (this.#writers.has(generation)) throw new Error(`Generation ${generation} is being written already.`);
    const writer = this.#addWriter(generation, found.entry);
    const failure = await writer.resume(found.entry, found.allocatedBytes).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (failure === undefined && !writer.isRemoved) return writer;
    await writer[Symbol.asyncDispose]();
    if (failure === undefined || !this.#parts.index.has(generation)) return undefined;
    if (failure instanceof StoreFault) throw failure;
    throw new StoreFault('io', `Generation ${generation} cannot be opened now.`, { cause: failure });
  }

  async replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined> {
    const indexed = this.#parts.index.replaceMetadata(entry.key, entry.generation, metadata);
    await this.#news.settled();
    return indexed === undefined ? undefined : createDiskEntry(this.#parts, indexed);
  }

  // Removals are announced even if nothing was removed: another process may have in memory what has just been evicted.

  async removeEntry(entry: EntryName): Promise<void> {
    this.#parts.index.remove([entry.generation]);
    await this.#news.announce({ kind: 'keys', keys: [entry.key] });
  }

  async removeKey(key: string): Promise<number> {
    const count = this.#parts.index.removeKey(key);
    await this.#news.announce({ kind: 'keys', keys: [key] });
    return count;
  }

  removeTagged(tag: string): Promise<readonly string[]> {
    return this.#removeChosen({ kind: 'tag', tag });
  }

  removePrefixed(prefix: string): Promise<readonly string[]> {
    return this.#removeChosen({ kind: 'prefix', prefix });
  }

  async list(choice: EntryChoice, limit: number, after?: string): Promise<EntryPage> {
    const { index } = this.#parts;
    const entries: StoredEntry[] = [];
    let next = after;
    do {
      if (entries.length > 0) await setImmediate();
      const page = index.list(choice, Math.min(limit - entries.length, listedAtOnce), next);
      entries.push(...page.entries.map((indexed) => createDiskEntry(this.#parts, indexed)));
      next = page.next;
    } while (next !== undefined && entries.length < limit);
    return { entries, next };
  }

  async listRanked(choice: EntryChoice, order: EntryOrder, limit: number, after?: EntryRank): Promise<RankedPage> {
    const { index } = this.#parts;
    if (choice.kind === 'prefix' && !choice.prefix.isWellFormed()) return { entries: [], next: undefined };
    const selection = new RankSelection<EntryRank>(limit, after, hasFallingRanks(order));
    const question = { choice, order, limit, after, usedAt: (generation: string) => this.usedAt(generation) };
    for (let id = index.rank(question, selection, 0); id !== undefined; id = index.rank(question, selection, id)) {
      await setImmediate();
    }
    const { places, next } = selection.end();
    const entries: RankedEntry[] = [];
    for (const [at, place] of places.entries()) {
      if (at % listedAtOnce === listedAtOnce - 1) await setImmediate();
      const indexed = index.ranked(place.generation, choice, order.contains);
      if (indexed !== undefined) entries.push({ ...place, entry: createDiskEntry(this.#parts, indexed) });
    }
    return { entries, next };
  }

  usedAt(generation: string): number | undefined {
    return this.#parts.eviction.usedAt(generation);
  }

  /** Nothing is kept in memory here. */
  blocksInMemory(): SpanSet {
    return new SpanSet();
  }

  readUsage(): StoreUsage {
    const { index, storing } = this.#parts;
    const { allocatedBytes: usedBytes, entryCount } = index;
    return { entryCount, usedBytes, maxSizeBytes: this.#options.maxSizeBytes, isWritable: storing.isOn };
  }

  applyChange(change: StoreChange): void {
    if (this.#closing !== undefined) return;
    const { index, eviction } = this.#parts;
    // Nothing is remembered by key, tag or prefix: each `find` reads the index.
    if (change.kind === 'generations') for (const each of change.generations) this.#noteRemoval(each);
    if (change.kind === 'lost') index.applyRemoval(change.generations);
    if (change.kind === 'fresh') this.#connection.followReplacement();
    if (change.kind === 'opened') this.#announceLost();
    if (change.kind === 'evicting') this.#background.add(eviction.writeUsesForOthers());
    if (change.kind !== 'fallen') return;
    this.#instances.forget(change.instances);
    this.#background.add(this.#sweeper.sweepFiles());
  }

  /** Sends the message in this turn, so that it reaches the other process before the answer to its own message. */
  #announceLost(): void {
    this.#parts.index.announceLost();
    void this.#news.settled();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #removeChosen(choice: EntryChoice): Promise<readonly string[]> {
    const keys = new Set<string>();
    let after: string | undefined;
    do {
      // Other work gets its turn between two slices. After the last one the promise resolves without a delay.
      if (after !== undefined) await setImmediate();
      const removed = this.#parts.index.removeChosen(choice, after);
      for (const key of removed.keys) keys.add(key);
      after = removed.next;
    } while (after !== undefined);
    await this.#news.announce(choice);
    return [...keys];
  }

  async #close(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#writers.values.map((writer) => writer[Symbol.asyncDispose]()));
    this.#parts.bodies.closeAll();
    await this.#background.settled();
    this.#parts.eviction.flush();
    this.#parts.index.flush();
    await this.#news.settled();
    this.#instances.leave();
    this.#connection.close();
    this.#lock.release();
  }

  /** Notes that a generation is no longer the current one: its writer cannot commit, and its file is closed once it has no users. */
  #noteRemoval(generation: string): void {
    this.#writers.get(generation)?.noteRemoval();
    this.#parts.bodies.forget(generation);
  }

  #createParts(fileSystem: FileSystem): DiskParts {
    const options = this.#options;
    const background = this.#background;
    const instances = this.#instances;
    const news = this.#news;
    const reports = createBodyReports({ ...options, index: () => index });
    const quickReads = options.quickReads && new QuickReads(options.quickReads);
    const quickWrites = options.quickWrites && new QuickWrites(options.quickWrites);
    const quick = { quickReads, quickWrites };
    const files = new BodyFiles({ ...options, ...reports, ...quick, fileSystem, isShared: instances.isShared });
    const bodies = new OpenBodies({
      open: (...body) => files.open(...body),
      background,
      idle: options.quickReads && {
        maxCount: idleBodies,
        after: options.quickReads.after,
        idleMs: 1000 * (options.idleFileSeconds ?? defaultIdleFileSeconds),
      },
    });
    const index = new DiskIndex({
      ...options,
      connection: this.#connection,
      instances,
      onRemoved: (generation) => this.#noteRemoval(generation),
      onFilesUnneeded: (generation, hasSidecar, allocatedBytes) => {
        bodies.forget(generation);
        space.noteRemoval(allocatedBytes, files.remove(generation, hasSidecar));
      },
      onChanged: (change) => news.note(change),
    });
    const { signal } = this.#stopping;
    const isHeld = (generation: string) => this.#writers.has(generation);
    const eviction = new Eviction({ ...options, connection: this.#connection, index, instances, isHeld });
    const claims = this.#createClaims();
    const onEvicting = instances.isShared ? () => news.announce({ kind: 'evicting' }) : undefined;
    const space = new DiskSpace({
      ...options,
      claims,
      onEvicting,
      index,
      eviction,
      fileSystem,
      background,
      signal,
    });
    return {
      blockSizeBytes: this.blockSizeBytes,
      maxEntryBytes: this.maxEntryBytes,
      index,
      eviction,
      files,
      bodies,
      quickReads,
      space,
      stepBytes: stepBytesOf(options.maxSizeBytes),
      storing: new StoringSwitch(options),
      changes: news,
    };
  }

  #addWriter(generation: string, entry: NewEntry): DiskWriter {
    if (this.#closing !== undefined) throw new StoreFault('io', 'The store is closed.');
    const { key, variant, metadata, sizeBytes } = entry;
    const onDisposed = () => this.#forgetWriter(generation);
    const writer = new DiskWriter({ parts: this.#parts, generation, key, variant, metadata, sizeBytes, onDisposed });
    this.#writers.set(generation, writer);
    return writer;
  }

  #createClaims(): RoomClaims {
    const claims = new RoomClaims(this.#instances, this.#options.maxSizeBytes);
    this.#connection.onReset(() => claims.startAfresh());
    return claims;
  }

  /**
   * Continues with an empty index, and sweeps the files of the damaged one. The other processes first record in the new index
   * what they are writing.
   */
  #startAfresh(reason: FreshReason): void {
    this.#parts.bodies.forgetAll();
    this.#instances.enterAfresh(this.#writers.keys());
    const sweepAll = () => this.#news.announce({ kind: 'fresh' }).then(() => this.#sweeper.sweepAll());
    this.#background.add(reason === 'replaced' ? sweepAll() : this.#sweeper.sweepOurs());
  }
}

/** Creates the listeners for problems of bodies. `index` is called when a problem occurs, because the index is created later. */
function createBodyReports(options: {
  readonly index: () => DiskIndex;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly emit: Emit;
}): Pick<BlockFileOptions, 'onBlockLost' | 'onBodyLost' | 'onBodyClosed' | 'onNotRemoved'> {
  const { index, now, emit } = options;
  const throttle = new LogThrottle();
  return {
    /** Marks the entry incomplete; the block is fetched again. */
    onBlockLost: ({ generation, detail, isDamaged }: LostBlock) => {
      const wasComplete = index().markIncomplete(generation);
      if (!wasComplete && !isDamaged) return;
      const message = 'A stored block was damaged or gone, and is absent from now on.';
      emit({ kind: 'store', level: 'warn', message, detail, count: { damagedBlocks: 1 } });
    },
    onBodyLost: (generation, detail) => index().removeDamaged(generation, detail),
    /** Such a file takes disk space that nothing counts. */
    onNotRemoved: (path, error) => {
      const message = 'Something in the directory of the store cannot be removed.';
      const detail = `${path}: ${String(error)}`;
      emit({ kind: 'store', level: throttle.levelOf('not removed', now()), message, detail });
    },
    /** Nothing is lost: the body stays, and may be opened again later. */
    onBodyClosed: (detail) => {
      const message = 'A stored body cannot be opened now; requests for it go to the origin.';
      emit({ kind: 'store', level: throttle.levelOf('closed', now()), message, detail });
    },
  };
}
