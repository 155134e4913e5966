/** The store on disk: an index in SQLite, small bodies in it, larger ones in files beside it. */

import * as promises from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import type { EntryWriter, NewEntry, Store, StoredEntry } from '../store.ts';
import { StoreFault } from '../store.ts';
import { Telling } from '../telling.ts';
import { BackgroundTasks } from './background-tasks.ts';
import type { LostBlock } from './block-file.ts';
import { BodyFiles } from './body-files.ts';
import { createDirectory } from './create-directory.ts';
import { createDiskEntry } from './disk-entry.ts';
import { DiskIndex } from './disk-index.ts';
import type { DiskParts } from './disk-parts.ts';
import { DiskSpace } from './disk-space.ts';
import { DiskWriter } from './disk-writer.ts';
import { Eviction } from './eviction.ts';
import type { FileSystem } from './file-system.ts';
import { IndexConnection } from './index-connection.ts';
import { OpenBodies } from './open-bodies.ts';
import { StoringSwitch } from './storing-switch.ts';
import { sweepBodies } from './sweep.ts';

/** What a disk store is opened with. */
export interface DiskStoreOptions {
  /** The store's own directory; it is created where it does not exist. */
  readonly dir: string;
  /** The bound of what entries take on the disk, in bytes; readers may hold evicted files a little longer. */
  readonly maxSizeBytes: number;
  readonly blockSizeBytes: number;
  /** The largest body that is taken, in bytes; half of the store unless something else is said. */
  readonly maxEntryBytes?: number | undefined;
  /** When the bound is passed, entries leave until so much of it is in use, in percent; 95 unless something else is said. */
  readonly lowWaterPercent?: number | undefined;
  /** The store does not grow while less of the disk is free, in bytes; 32 MiB, or a quarter of a smaller disk, by default. */
  readonly minFreeBytes?: number | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Gives a name that was never given before, of letters, digits, `-` and `_`, such as a UUID. */
  readonly randomId: () => string;
  readonly emit: Emit;
  /** Where bodies are written; `node:fs/promises` unless something else is put in its place. */
  readonly fileSystem?: FileSystem;
}

/** One entry may take this share of the store unless something else is said, so that one fill cannot empty it. */
const maxEntryShare = 1 / 2;

/**
 * Opens the store of a directory, and locks it for this process. In the directory are `index.sqlite`, bodies as
 * `blocks/ab/<generation>.body` with their checksums as `.sums`, and `index.sqlite.damaged` where one was set aside.
 * Throws `StoreFault` with a sentence for people: `in_use` when another process has the directory, `io` when it cannot
 * be used or is of a newer format.
 */
export async function openDiskStore(options: DiskStoreOptions): Promise<Store> {
  const fileSystem = options.fileSystem ?? promises;
  try {
    await createDirectory(fileSystem, join(options.dir, 'blocks'));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new StoreFault('io', `The directory ${options.dir} cannot be created: ${why}`, { cause: error });
  }
  return new DiskStore(options, fileSystem);
}

class DiskStore implements Store {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly #options: DiskStoreOptions;
  readonly #connection: IndexConnection;
  readonly #parts: DiskParts;
  readonly #background = new BackgroundTasks();
  readonly #writers = new Map<string, DiskWriter>();
  readonly #stopping = new AbortController();
  readonly #telling = new Telling();
  #closing: Promise<void> | undefined;

  constructor(options: DiskStoreOptions, fileSystem: FileSystem) {
    const { blockSizeBytes, maxSizeBytes, maxEntryBytes } = options;
    this.blockSizeBytes = blockSizeBytes;
    this.maxEntryBytes = maxEntryBytes ?? Math.floor(maxSizeBytes * maxEntryShare);
    this.#options = options;
    this.#connection = new IndexConnection(options);
    this.#parts = this.#createParts(fileSystem);
    this.#connection.onFresh(() => this.#background.add(this.#sweep()));
    this.#background.add(this.#sweep());
    this.#background.add(this.#parts.space.makeRoom());
  }

  /** Asks the index only in `find`, for looking things up there may wait for the disk. */
  peek(): undefined {
    return undefined;
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    return this.#parts.index.find(key).map((indexed) => createDiskEntry(this.#parts, indexed));
  }

  async openWriter(entry: NewEntry): Promise<EntryWriter> {
    const writer = this.#addWriter(this.#options.randomId(), entry);
    try {
      await writer.begin();
      return writer;
    } catch (error) {
      await writer[Symbol.asyncDispose]();
      throw error;
    }
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
    throw new StoreFault('io', `Generation ${generation} cannot be opened now.`, { cause: failure });
  }

  async replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined> {
    const indexed = this.#parts.index.replaceMetadata(entry.key, entry.generation, metadata);
    return indexed === undefined ? undefined : createDiskEntry(this.#parts, indexed);
  }

  async removeEntry(entry: StoredEntry): Promise<void> {
    this.#parts.index.remove([entry.generation]);
  }

  async removeKey(key: string): Promise<number> {
    return this.#parts.index.removeKey(key);
  }

  async removeTagged(tag: string): Promise<readonly string[]> {
    const { index } = this.#parts;
    const keys = new Set<string>();
    for (let afterRow: number | undefined = 0; afterRow !== undefined; ) {
      const removed = index.removeTagged(tag, afterRow);
      for (const key of removed.keys) keys.add(key);
      afterRow = removed.lastRow;
      // Between two slices others get their turn; after the last one those who wait are told at once.
      if (afterRow !== undefined) await setImmediate();
    }
    return [...keys];
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#writers.values()].map((writer) => writer[Symbol.asyncDispose]()));
    this.#parts.bodies.closeAll();
    await this.#background.settled();
    this.#parts.eviction.flush();
    this.#parts.index.flush();
    this.#connection.close();
  }

  #createParts(fileSystem: FileSystem): DiskParts {
    const options = this.#options;
    const background = this.#background;
    const files = new BodyFiles({
      ...options,
      fileSystem,
      onBlockLost: (lost) => this.#tellLostBlock(lost),
      onBodyLost: (generation, detail) => index.removeDamaged(generation, detail),
      onBodyClosed: (detail) => this.#tellClosedBody(detail),
    });
    const index = new DiskIndex({
      ...options,
      connection: this.#connection,
      onRemoved: (generation) => this.#writers.get(generation)?.noteRemoval(),
      onFilesUnneeded: (generation) => background.add(files.remove(generation)),
    });
    const { signal } = this.#stopping;
    const isHeld = (generation: string) => this.#writers.has(generation);
    const eviction = new Eviction({ connection: this.#connection, index, isHeld });
    return {
      blockSizeBytes: this.blockSizeBytes,
      maxEntryBytes: this.maxEntryBytes,
      index,
      eviction,
      files,
      bodies: new OpenBodies((generation, sizeBytes) => files.open(generation, sizeBytes), background),
      space: new DiskSpace({ ...options, index, eviction, fileSystem, background, signal }),
      storing: new StoringSwitch(options),
    };
  }

  #addWriter(generation: string, entry: NewEntry): DiskWriter {
    if (this.#closing !== undefined) throw new StoreFault('io', 'The store is closed.');
    const { key, variant, metadata, sizeBytes } = entry;
    const onDisposed = () => void this.#writers.delete(generation);
    const writer = new DiskWriter({ parts: this.#parts, generation, key, variant, metadata, sizeBytes, onDisposed });
    this.#writers.set(generation, writer);
    return writer;
  }

  /** An entry that lost a block is not complete any more; the block is fetched again. */
  #tellLostBlock({ generation, detail, isDamaged }: LostBlock): void {
    const wasComplete = this.#parts.index.markIncomplete(generation);
    if (!wasComplete && !isDamaged) return;
    const message = 'A stored block was damaged or gone, and is absent from now on.';
    this.#options.emit({ kind: 'store', level: 'warn', message, detail });
  }

  /** Nothing is lost: the body stays for the time when it can be opened again. */
  #tellClosedBody(detail: string): void {
    const { now, emit } = this.#options;
    const message = 'A stored body cannot be opened now; requests for it are passed on.';
    emit({ kind: 'store', level: this.#telling.levelOf('closed', now()), message, detail });
  }

  /**
   * Removes what is expired and what a crash has left, and tells of the latter. Begins in a later turn, so that it delays
   * nobody's start.
   */
  async #sweep(): Promise<void> {
    await setImmediate();
    const { files, index } = this.#parts;
    const { signal } = this.#stopping;
    while (!signal.aborted && index.removeExpired() > 0) await setImmediate();
    const isKnown = (generation: string) => this.#writers.has(generation) || index.has(generation);
    const count = await sweepBodies(files, isKnown, signal);
    if (count === 0) return;
    const message = 'Files without an entry were removed from the store.';
    this.#options.emit({ kind: 'store', level: 'info', message, detail: `${count} bodies` });
  }
}
