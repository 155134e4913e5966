/**
 * A local disk between memory and an engine that machines share: keeps the blocks that this machine has read from the engine, in a disk
 * store, under the names of their generations. The engine alone decides which generations exist: the disk only saves the way of bytes
 * that never change.
 *
 * So no message has to reach the disk for an answer to be right. Messages only free the room of what is gone (`LocalTier.#tidy`).
 */

import { SpanSet } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type {
  EntryChoice,
  EntryName,
  EntryOrder,
  EntryPage,
  EntryRank,
  EntryReader,
  EntryWriter,
  NewEntry,
  RankedPage,
  Store,
  StoreChange,
  StoredEntry,
  StoreUsage,
} from '../store.ts';

/** Options of the tier. */
export interface LocalTierOptions {
  /** The disk store. It belongs to the tier, alone or with the other processes of the machine that have the same. */
  readonly disk: Store;
  /** The store in the engine. All changes must go through the tier. */
  readonly engine: Store;
  readonly clock: Clock;
  /** Whether to compare the disk with the engine now: once for each machine, at its start. */
  readonly isFirst: boolean;
}

/** Puts a local disk before a store in an engine, and takes both over. */
export function createLocalTier(options: LocalTierOptions): Store {
  return new LocalTier(options);
}

/** Keys on the disk begin with it. It begins no key of a response, so a disk store that is given the directory finds no entry. */
const keyPrefix = '%local ';
/** How long the body of a generation that is not whole stays open after its last reader, in milliseconds. */
const IDLE_MS = 10_000;
/** Number of bodies that stay open without readers. */
const MAX_IDLE = 64;
/** Bytes that wait to be written to the disk. What is beyond is not kept, and read again from the engine. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;
/** Number of keys that wait to be tidied. More are left to the eviction. */
const MAX_STALE = 10_000;
/** Entries that are compared with the engine in one step, and the pause after each step and while the engine is away, in milliseconds. */
const COMPARED_AT_ONCE = 64;
const COMPARE_PAUSE_MS = 50;
const AWAY_PAUSE_MS = 1000;

/** A generation in the engine. */
type Generation = Pick<StoredEntry, 'key' | 'generation' | 'sizeBytes'> & {
  readonly tags: readonly string[] | undefined;
};

class LocalTier implements Store {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly disk: Store;
  readonly #engine: Store;
  readonly #clock: Clock;
  readonly #bodies = new Map<string, LocalBody>();
  /** The bodies without readers, the longest idle one first, and what cancels their end. */
  readonly #idle = new Map<LocalBody, () => void>();
  readonly #closing = new Set<Promise<void>>();
  readonly #stale = new Set<string>();
  readonly #whenClosed = Promise.withResolvers<void>();
  #isTidying = false;
  #isComparing = false;
  /** Whether messages may have been missed since the last comparison began. */
  #isInDoubt = false;
  #isClosed = false;
  #waitingBytes = 0;
  #hits = 0;
  #hitBytes = 0;
  #misses = 0;

  constructor({ disk, engine, clock, isFirst }: LocalTierOptions) {
    this.blockSizeBytes = engine.blockSizeBytes;
    this.maxEntryBytes = engine.maxEntryBytes;
    this.disk = disk;
    this.#engine = engine;
    this.#clock = clock;
    if (isFirst) this.#compareAll();
  }

  peek(key: string): readonly StoredEntry[] | undefined {
    return this.#engine.peek(key)?.map((entry) => this.#wrap(entry));
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    return (await this.#engine.find(key)).map((entry) => this.#wrap(entry));
  }

  async openWriter(entry: NewEntry): Promise<EntryWriter> {
    return this.#wrapWriter(entry.key, await this.#engine.openWriter(entry));
  }

  async resume(entry: StoredEntry): Promise<EntryWriter | undefined> {
    const writer = await this.#engine.resume(entry);
    return writer && this.#wrapWriter(entry.key, writer);
  }

  async replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined> {
    const replaced = await this.#engine.replaceMetadata(entry, metadata);
    return replaced && this.#wrap(replaced);
  }

  async removeEntry(entry: EntryName): Promise<void> {
    await this.#engine.removeEntry(entry);
    await this.#drop(entry.key, ({ variant }) => variant === entry.generation);
  }

  async removeKey(key: string): Promise<number> {
    return await this.#engine.removeKey(key).finally(() => this.disk.removeKey(keyPrefix + key));
  }

  async removeTagged(tag: string): Promise<readonly string[]> {
    return await this.#engine.removeTagged(tag).finally(() => this.disk.removeTagged(tag));
  }

  async removePrefixed(prefix: string): Promise<readonly string[]> {
    return await this.#engine.removePrefixed(prefix).finally(() => this.disk.removePrefixed(keyPrefix + prefix));
  }

  list(choice: EntryChoice, limit: number, after?: string): Promise<EntryPage> {
    return this.#engine.list(choice, limit, after);
  }

  listRanked(choice: EntryChoice, order: EntryOrder, limit: number, after?: EntryRank): Promise<RankedPage> {
    return this.#engine.listRanked(choice, order, limit, after);
  }

  usedAt(generation: string): number | undefined {
    return this.#engine.usedAt(generation);
  }

  blocksInMemory(generation: string, count: number): SpanSet {
    return this.#engine.blocksInMemory(generation, count);
  }

  readUsage(): StoreUsage {
    const { usedBytes, maxSizeBytes, isWritable = true } = this.disk.readUsage();
    const saved = { hits: this.#hits, hitBytes: this.#hitBytes, misses: this.#misses };
    return { ...this.#engine.readUsage(), local: { usedBytes, maxSizeBytes, isWritable, ...saved } };
  }

  applyChange(change: StoreChange): void {
    if (this.#isClosed) return;
    switch (change.kind) {
      case 'local':
        this.disk.applyChange(change.change);
        return;
      case 'fallen':
        this.disk.applyChange(change);
        return;
      case 'keys':
        for (const key of change.keys) this.#noteStale(key);
        break;
      case 'tag':
        this.#background(this.disk.removeTagged(change.tag));
        break;
      case 'prefix':
        this.#background(this.disk.removePrefixed(keyPrefix + change.prefix));
        break;
      case 'fresh':
        this.#compareAll();
        break;
    }
    this.#engine.applyChange(change);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#whenClosed.resolve();
    for (const cancel of this.#idle.values()) cancel();
    this.#idle.clear();
    for (const body of this.#bodies.values()) this.#background(body.close());
    this.#bodies.clear();
    while (this.#closing.size > 0) await Promise.all(this.#closing);
    await this.disk.close();
    await this.#engine.close();
  }

  /** Whether the engine is known to be away. */
  get isEngineAway(): boolean {
    return this.#engine.readUsage().isWritable === false;
  }

  /** Opens the local body of a generation, or joins its readers. Each call needs one `release`. Never rejects. */
  async acquire(generation: Generation): Promise<LocalBody> {
    const found = await this.findOnDisk(generation);
    const known = this.#bodies.get(generation.generation);
    // What was removed from the disk meanwhile serves those that have it open, and no other.
    const body = known?.isCurrent(found) === true ? known : new LocalBody(this, generation);
    this.#bodies.set(generation.generation, body);
    body.users += 1;
    this.#idle.get(body)?.();
    this.#idle.delete(body);
    await body.open(found);
    return body;
  }

  /** Ends one use of a body. */
  release(body: LocalBody): void {
    body.users -= 1;
    if (body.users > 0) return;
    if (this.#isClosed || !body.isWorthKeeping || this.#bodies.get(body.name) !== body) {
      this.#end(body);
      return;
    }
    this.#idle.set(
      body,
      this.#clock.after(IDLE_MS, () => this.#end(body)),
    );
    if (this.#idle.size > MAX_IDLE) for (const oldest of this.#idle.keys().take(1)) this.#end(oldest);
  }

  /** Returns what the disk has of a generation. Never rejects. */
  async findOnDisk({ key, generation }: Pick<Generation, 'key' | 'generation'>): Promise<StoredEntry | undefined> {
    const entries = await this.disk.find(keyPrefix + key).catch(() => []);
    return entries.find(({ variant }) => variant === generation);
  }

  /** Begins a generation on the disk. Throws `StoreFault`. */
  openOnDisk({ key, generation, sizeBytes, tags }: Generation): Promise<EntryWriter> {
    return this.disk.openWriter({ key: keyPrefix + key, variant: generation, metadata: metadataOf(tags), sizeBytes });
  }

  /** Reserves room for bytes that wait to be written; returns false where too many wait. */
  admit(bytes: number): boolean {
    if (this.#isClosed || this.#waitingBytes + bytes > MAX_WAITING_BYTES) return false;
    this.#waitingBytes += bytes;
    return true;
  }

  /** Ends the wait of bytes. */
  settle(bytes: number): void {
    this.#waitingBytes -= bytes;
  }

  noteHit(bytes: number): void {
    this.#hits += 1;
    this.#hitBytes += bytes;
  }

  noteMiss(): void {
    this.#misses += 1;
  }

  #wrap(entry: StoredEntry): StoredEntry {
    return new LocalEntry(entry, this);
  }

  #wrapWriter(key: string, writer: EntryWriter): EntryWriter {
    return {
      generation: writer.generation,
      hasBlock: (index) => writer.hasBlock(index),
      peekBlock: (index) => writer.peekBlock(index),
      readBlock: (index) => writer.readBlock(index),
      writeBlock: (index, bytes) => writer.writeBlock(index, bytes),
      publish: async (metadata, pinPreviousUntil) => {
        await writer.publish(metadata, pinPreviousUntil);
        await this.#tidy(key);
      },
      commit: async (final) => {
        const entry = this.#wrap(await writer.commit(final));
        await this.#tidy(key);
        return entry;
      },
      [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
    };
  }

  #end(body: LocalBody): void {
    this.#idle.get(body)?.();
    this.#idle.delete(body);
    if (this.#bodies.get(body.name) === body) this.#bodies.delete(body.name);
    this.#background(body.close());
  }

  #background(work: Promise<unknown>): void {
    const running: Promise<void> = work.then(
      () => void this.#closing.delete(running),
      () => void this.#closing.delete(running),
    );
    this.#closing.add(running);
  }

  #noteStale(key: string): void {
    if (this.#stale.size >= MAX_STALE) return;
    this.#stale.add(key);
    if (!this.#isTidying) this.#background(this.#tidyStale());
  }

  async #tidyStale(): Promise<void> {
    this.#isTidying = true;
    for (const key of this.#stale) {
      if (this.#isClosed) break;
      this.#stale.delete(key);
      await this.#tidy(key);
    }
    this.#isTidying = false;
  }

  /** Compares all that the disk has with the engine, in the background: this process may have missed removals. */
  #compareAll(): void {
    this.#isInDoubt = true;
    if (this.#isComparing) return;
    this.#isComparing = true;
    const comparing = this.#compare().finally(() => {
      this.#isComparing = false;
    });
    this.#background(comparing);
  }

  async #compare(): Promise<void> {
    let after: string | undefined;
    while (!this.#isClosed && (this.#isInDoubt || after !== undefined)) {
      if (this.isEngineAway) {
        await this.#pause(AWAY_PAUSE_MS);
        continue;
      }
      if (after === undefined) this.#isInDoubt = false;
      const page = await this.disk.list({ kind: 'prefix', prefix: keyPrefix }, COMPARED_AT_ONCE, after);
      const keys = new Set(page.entries.map(({ key }) => key.slice(keyPrefix.length)));
      for (const key of keys) if (!this.#isClosed) await this.#tidy(key);
      after = page.next;
      await this.#pause(COMPARE_PAUSE_MS);
    }
  }

  async #pause(delayMs: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const cancel = this.#clock.after(delayMs, over.resolve);
    await Promise.race([over.promise, this.#whenClosed.promise]);
    cancel();
  }

  /**
   * Removes from the disk the generations of a key that the engine does not have any more. An engine that is away says nothing about
   * them. Never rejects.
   */
  async #tidy(key: string): Promise<void> {
    try {
      if ((await this.disk.find(keyPrefix + key)).length === 0) return;
      const generations = new Set((await this.#engine.find(key)).map(({ generation }) => generation));
      if (generations.size === 0 && this.isEngineAway) return;
      await this.#drop(key, ({ variant }) => !generations.has(variant));
    } catch {
      // They leave with the next eviction.
    }
  }

  async #drop(key: string, isWanted: (entry: StoredEntry) => boolean): Promise<void> {
    const entries = await this.disk.find(keyPrefix + key);
    await Promise.all(entries.filter(isWanted).map((entry) => this.disk.removeEntry(entry)));
  }
}

/** Metadata on the disk: only what removals need. */
function metadataOf(tags: readonly string[] | undefined): StoredResponse {
  const none: StoredResponse = { status: 200, fields: [], nominated: [], requestAt: 0, responseAt: 0 };
  return tags === undefined ? none : { ...none, tags };
}

/**
 * What the disk has of one generation, while this process reads it. Blocks are written in the background, one after the other; a fault
 * of the disk ends that until the body is opened again, and is the fault of no reader.
 */
class LocalBody {
  /** The name of the generation. */
  readonly name: string;
  users = 0;
  readonly #tier: LocalTier;
  readonly #generation: Generation;
  readonly #blockCount: number;
  /** The blocks that can be read from the disk, as far as is known. */
  #present = new SpanSet();
  readonly #writing = new Set<number>();
  #opening: Promise<void> | undefined;
  #entry: StoredEntry | undefined;
  #reader: EntryReader | undefined;
  #writer: EntryWriter | undefined;
  #steps: Promise<void> = Promise.resolve();
  #isGivenUp = false;

  constructor(tier: LocalTier, generation: Generation) {
    this.name = generation.generation;
    this.#tier = tier;
    this.#generation = generation;
    this.#blockCount = Math.ceil(generation.sizeBytes / tier.blockSizeBytes);
  }

  /** The entry on the disk; undefined where nothing is there. */
  get entry(): StoredEntry | undefined {
    return this.#entry;
  }

  /** The open entry on the disk; undefined where nothing is there. */
  get reader(): EntryReader | undefined {
    return this.#reader;
  }

  /** Whether it is worth staying open for the next reader: more may come, or what is there would have to be found out again. */
  get isWorthKeeping(): boolean {
    return (
      !this.#isGivenUp && (this.#writer !== undefined || this.#writing.size > 0 || this.#entry?.isComplete === false)
    );
  }

  /** Whether all blocks can be read from the disk, as far as is known. */
  get isWhole(): boolean {
    return this.#present.size === this.#blockCount;
  }

  /** Whether this is the body of what was just found on the disk. */
  isCurrent(found: StoredEntry | undefined): boolean {
    if (this.#entry === undefined) return found === undefined || this.#writing.size > 0;
    return this.#entry.generation === found?.generation;
  }

  /** Opens what was found on the disk, once. Never rejects. */
  open(found: StoredEntry | undefined): Promise<void> {
    this.#entry ??= found;
    this.#opening ??= found === undefined ? Promise.resolve() : this.#open(found).catch(() => this.#noteGone());
    return this.#opening;
  }

  has(index: number): boolean {
    return this.#present.has(index);
  }

  /** Reads a block that is there. Returns undefined where it cannot be read, and counts it as absent from then on. */
  async read(index: number): Promise<Uint8Array | undefined> {
    try {
      return await this.#reader?.readBlock(index);
    } catch {
      this.#present.remove({ start: index, end: index + 1 });
      return undefined;
    }
  }

  /** Keeps a block, in the background. */
  keep(index: number, bytes: Uint8Array): void {
    if (this.#isGivenUp || this.has(index) || this.#writing.has(index) || !this.#tier.admit(bytes.length)) return;
    this.#writing.add(index);
    const written = this.#steps.then(() => (this.#isGivenUp ? undefined : this.#write(index, bytes)));
    this.#steps = written
      .catch(async () => {
        this.#isGivenUp = true;
        await this.#endWriter();
      })
      .finally(() => {
        this.#writing.delete(index);
        this.#tier.settle(bytes.length);
      });
  }

  /** Closes the files, once all that waits is written. Never rejects. */
  async close(): Promise<void> {
    await this.#opening;
    await this.#steps;
    await this.#endWriter();
    this.#reader?.close();
    this.#reader = undefined;
    this.#present = new SpanSet();
  }

  async #open(entry: StoredEntry): Promise<void> {
    const reader = await entry.open();
    const isThere = entry.isComplete ? undefined : await entry.readPresence().catch(() => new SpanSet());
    this.#entry = entry;
    this.#reader?.close();
    this.#reader = reader;
    if (isThere === undefined) this.#present.add({ start: 0, end: this.#blockCount });
    else this.#present = isThere;
  }

  async #write(index: number, bytes: Uint8Array): Promise<void> {
    this.#writer ??= await this.#openWriter();
    await this.#writer.writeBlock(index, bytes);
    this.#present.add({ start: index, end: index + 1 });
    if (this.#mayCommit(this.#writer)) await this.#commit(this.#writer);
    else if (this.#reader === undefined) await this.#openWritten();
  }

  /** Throws `StoreFault`, and `Error` where another process of this machine is writing the generation. */
  async #openWriter(): Promise<EntryWriter> {
    const found = await this.#tier.findOnDisk(this.#generation);
    const resumed = found && (await this.#tier.disk.resume(found));
    if (resumed !== undefined) return resumed;
    const writer = await this.#tier.openOnDisk(this.#generation);
    // A body of one block is found once it is whole. Others are found from the beginning, so that a process that is killed leaves
    // behind what it had.
    if (this.#blockCount > 1)
      await writer.publish(metadataOf(this.#generation.tags)).catch(async (error: unknown) => {
        await writer[Symbol.asyncDispose]();
        throw error;
      });
    return writer;
  }

  #noteGone(): void {
    this.#entry = undefined;
  }

  #mayCommit(writer: EntryWriter): boolean {
    if (!this.isWhole) return false;
    for (let index = 0; index < this.#blockCount; index += 1) if (!writer.hasBlock(index)) return false;
    return true;
  }

  async #commit(writer: EntryWriter): Promise<void> {
    const { sizeBytes, tags } = this.#generation;
    const entry = await writer.commit({ metadata: metadataOf(tags), sizeBytes });
    await this.#endWriter();
    await this.#open(entry);
  }

  async #openWritten(): Promise<void> {
    const found = await this.#tier.findOnDisk(this.#generation);
    if (found === undefined) throw new Error(`Generation ${this.name} was removed from the disk.`);
    const present = this.#present;
    await this.#open(found);
    this.#present = present;
  }

  async #endWriter(): Promise<void> {
    await this.#writer?.[Symbol.asyncDispose]();
    this.#writer = undefined;
  }
}

/** An entry of the engine whose bytes may be on the disk. Many entries are in memory, so they share methods and have no closures. */
class LocalEntry implements StoredEntry {
  readonly key: string;
  readonly generation: string;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
  readonly #below: StoredEntry;
  readonly #tier: LocalTier;
  /** The body that was opened last. */
  #body: LocalBody | undefined;

  constructor(below: StoredEntry, tier: LocalTier) {
    this.key = below.key;
    this.generation = below.generation;
    this.sizeBytes = below.sizeBytes;
    this.isComplete = below.isComplete;
    this.pinnedUntil = below.pinnedUntil;
    this.#below = below;
    this.#tier = tier;
  }

  get variant(): string {
    return this.#below.variant;
  }

  get metadata(): StoredResponse {
    return this.#below.metadata;
  }

  get fieldText(): string | undefined {
    return this.#below.fieldText;
  }

  pack(): number | undefined {
    return this.#below.pack?.();
  }

  /** Counts as a use of the entry in the engine, and of what the disk has of it. */
  peekBlock(index: number): Uint8Array | undefined {
    this.#body?.entry?.peekBlock(index);
    return this.#below.peekBlock(index);
  }

  readNow(offset: number, end: number): Uint8Array | undefined {
    return this.#counted(this.#body?.entry?.readNow?.(offset, end));
  }

  readBlockNow(index: number): Uint8Array | undefined {
    return this.#counted(this.#body?.entry?.readBlockNow?.(index));
  }

  canMove(offset: number, end: number): boolean {
    return this.#body?.entry?.canMove?.(offset, end) === true;
  }

  move(socket: number, head: Uint8Array, offset: number, end: number): number {
    const taken = this.#body?.entry?.move?.(socket, head, offset, end) ?? 0;
    if (taken > head.length) this.#tier.noteHit(taken - head.length);
    return taken;
  }

  giveBack(bytes: Uint8Array): void {
    this.#body?.entry?.giveBack?.(bytes);
  }

  async open(first?: number): Promise<EntryReader> {
    const { key, generation, sizeBytes } = this;
    const body = await this.#tier.acquire({ key, generation, sizeBytes, tags: this.metadata.tags });
    this.#body = body;
    this.#below.peekBlock(0);
    try {
      return new LocalReader(this.#tier, this.#below, body, await this.#openBelow(body, first));
    } catch (error) {
      this.#tier.release(body);
      throw error;
    }
  }

  /** Opens the entry in the engine where blocks may be needed from there: they then stay for the reader. */
  async #openBelow(body: LocalBody, first: number | undefined): Promise<EntryReader | undefined> {
    if (body.isWhole && body.reader !== undefined) return undefined;
    try {
      return await this.#below.open(first === undefined || body.has(first) ? undefined : first);
    } catch (error) {
      if (body.reader === undefined || !this.#tier.isEngineAway) throw error;
      return undefined;
    }
  }

  /** What the engine has: a fill completes it there. */
  readPresence(): Promise<SpanSet> {
    return this.#below.readPresence();
  }

  #counted(bytes: Uint8Array | undefined): Uint8Array | undefined {
    if (bytes !== undefined) this.#tier.noteHit(bytes.length);
    return bytes;
  }
}

/** An open entry: blocks come from the disk, and from the engine where the disk has not got them. */
class LocalReader implements EntryReader {
  readonly #tier: LocalTier;
  readonly #below: StoredEntry;
  readonly #body: LocalBody;
  /** The entry as the engine has it, opened when it is first needed. */
  #opened: Promise<EntryReader> | undefined;
  #isClosed = false;

  constructor(tier: LocalTier, below: StoredEntry, body: LocalBody, opened: EntryReader | undefined) {
    this.#tier = tier;
    this.#below = below;
    this.#body = body;
    this.#opened = opened && Promise.resolve(opened);
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#counted(this.#body.reader?.peekBlock(index));
  }

  async readBlock(index: number): Promise<Uint8Array> {
    const kept = this.#body.has(index) ? await this.#body.read(index) : undefined;
    if (kept !== undefined) {
      this.#tier.noteHit(kept.length);
      return kept;
    }
    this.#opened ??= this.#openBelow();
    const bytes = await (await this.#opened).readBlock(index);
    this.#tier.noteMiss();
    this.#body.keep(index, bytes);
    return bytes;
  }

  readNow(offset: number, end: number): Uint8Array | undefined {
    return this.#counted(this.#body.reader?.readNow?.(offset, end));
  }

  giveBack(bytes: Uint8Array): void {
    this.#body.reader?.giveBack?.(bytes);
  }

  move(socket: number, head: Uint8Array, offset: number, end: number): number {
    const taken = this.#body.reader?.move?.(socket, head, offset, end) ?? 0;
    if (taken > head.length) this.#tier.noteHit(taken - head.length);
    return taken;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#opened?.then(
      (opened) => opened.close(),
      () => {},
    );
    this.#tier.release(this.#body);
  }

  /** A failure is not remembered: the engine may be away for a moment only. */
  #openBelow(): Promise<EntryReader> {
    const opening = this.#below.open();
    opening.catch(() => {
      if (this.#opened === opening) this.#opened = undefined;
    });
    return opening;
  }

  #counted(bytes: Uint8Array | undefined): Uint8Array | undefined {
    if (bytes !== undefined) this.#tier.noteHit(bytes.length);
    return bytes;
  }
}
