/**
 * A store in an engine (Redis or Valkey) that several machines may share. It keeps nothing in memory: a tiered store is put in front of
 * it. The engine evicts by its own policy, and everything ends some time after its last use.
 *
 * - `redis-keys.ts`: the names of the keys; `redis-scripts.ts`: the changes, each in one step
 * - `redis-records.ts`: records and blocks as bytes, with checksums; `redis-bodies.ts`: reads and writes blocks
 * - `redis-index.ts`: finds entries by prefix and tag; `owed-removals.ts`: removals that the engine could not take
 * - `redis-client.ts`: time-outs, bounds and the circuit breaker; `engine-links.ts`: connections
 *
 * A fault of the engine is never a fault of a request: look-ups then find nothing, reads throw `bytes_gone`, writes `StoreFault`.
 */

import { SpanSet, spanOfBlock, spanSize } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Emit } from '../../telemetry/events.ts';
import {
  compareRanks,
  findable,
  formatCursor,
  hasFallingRanks,
  hasText,
  isChosenBy,
  isRestricted,
  lowerCase,
  maxPins,
  parseCursor,
  RankSelection,
} from '../entry-rules.ts';
import { LogThrottle } from '../log-throttle.ts';
import {
  type EntryChoice,
  type EntryName,
  type EntryOrder,
  type EntryPage,
  type EntryRank,
  type EntryReader,
  type EntryWriter,
  type NewEntry,
  type RankedEntry,
  type RankedPage,
  type Store,
  type StoreChange,
  type StoredEntry,
  StoreFault,
  type StoreUsage,
} from '../store.ts';
import { OwedRemovals, type Removal } from './owed-removals.ts';
import { LINGER_MS, RedisBodies } from './redis-bodies.ts';
import { EngineFault, type RedisClient } from './redis-client.ts';
import { toStoreFaultOf } from './redis-faults.ts';
import { type IndexedKey, RedisIndex } from './redis-index.ts';
import { type RedisKeys, shortDigest } from './redis-keys.ts';
import { encodeRecord, encodeTags, type RecordedGeneration, readEntryHash, readHeader } from './redis-records.ts';
import { damageScript, extendScript, putScript, removeScript, replaceScript } from './redis-scripts.ts';
import { type PutGeneration, RedisWriter } from './redis-writer.ts';
import type { Seal } from './seal.ts';

/** What a store asks of a fleet whose members share the engine. */
export interface EngineSharing {
  /** Announces a change to the other members. They know of it before all that is announced later. Never rejects. */
  announce(change: StoreChange): Promise<void>;
  /** Returns the fencing number of the lease that this process has for a key; undefined where it has none. */
  fenceOf(key: string): number | undefined;
  /** Authenticates records and blocks; absent where the operator has stated no secret: they have checksums then. */
  readonly seal?: Seal | undefined;
  /** Resolves when this process has marked what all earlier announcements make invalid; undefined where it has. Never rejects. */
  current(): Promise<void> | undefined;
}

/** Options of a store. */
export interface RedisStoreOptions {
  readonly client: RedisClient;
  readonly keys: RedisKeys;
  readonly blockSizeBytes: number;
  /** Largest body that is accepted, in bytes. */
  readonly maxEntryBytes: number;
  /** How long an entry stays after its last use, in milliseconds. */
  readonly keepMs: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Timers for background work, and milliseconds that never go back. */
  readonly clock: Clock;
  /** Returns a name that was never returned before, in any process. */
  readonly randomId: () => string;
  readonly emit: Emit;
  /** Absent where no other process shares the engine, or none of them tells the others. */
  readonly sharing?: EngineSharing | undefined;
}

/** Interval at which the engine is asked how full it is, in milliseconds. */
const USAGE_MS = 10_000;
/** Time after a refused write in which none is tried, in milliseconds. */
const REFUSED_MS = 1000;
/** Number of generations whose last use is known. */
const MAX_USES = 20_000;
/** Entries that are read at a time for a list or a removal. */
const ENTRIES_AT_ONCE = 100;
/** An entry that is used is extended when this part of its life is over. */
const EXTENSION_SHARE = 1 / 8;

/** Opens a store. The engine may be away: it is used as soon as it is there. */
export function openRedisStore(options: RedisStoreOptions): Store {
  return new RedisStore(options);
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/** When a generation was last used, and last extended, in epoch milliseconds. */
interface Use {
  usedAt: number;
  extendedAt: number;
}

type Place = readonly [bucket: number, key: string, variant: string, generation: string];

class RedisStore implements Store {
  readonly blockSizeBytes: number;
  readonly maxEntryBytes: number;
  readonly #options: RedisStoreOptions;
  readonly #seal: Seal | undefined;
  readonly #bodies: RedisBodies;
  readonly #index: RedisIndex;
  readonly #owed: OwedRemovals;
  readonly #uses = new Map<string, Use>();
  readonly #writers = new Set<string>();
  readonly #throttle = new LogThrottle();
  #usage: StoreUsage = { entryCount: 0, usedBytes: 0, maxSizeBytes: 0 };
  #refusedUntil = Number.NEGATIVE_INFINITY;
  #cancelUsage: () => void = () => {};
  #isClosed = false;

  constructor(options: RedisStoreOptions) {
    const { client, clock } = options;
    this.blockSizeBytes = options.blockSizeBytes;
    this.maxEntryBytes = options.maxEntryBytes;
    this.#options = options;
    this.#seal = options.sharing?.seal;
    this.#bodies = new RedisBodies({
      ...options,
      seal: this.#seal,
      onLost: (key, generation, isDamaged) => this.#noteLost(key, generation, isDamaged),
    });
    this.#index = new RedisIndex(options);
    this.#owed = new OwedRemovals({ clock, remove: async (removal) => void (await this.#remove(removal)) });
    void client.started.then(() => this.#watch());
  }

  /** Only memory in front of this store can answer without waiting. */
  peek(): undefined {
    return undefined;
  }

  async find(key: string): Promise<readonly StoredEntry[]> {
    // What was to be removed may still be there.
    if (this.#owed.isOwing) return [];
    try {
      return await this.#find(key);
    } catch {
      return [];
    }
  }

  async openWriter({ key, variant, sizeBytes }: NewEntry): Promise<EntryWriter> {
    this.#requireWritable();
    const generation = this.#options.randomId();
    return this.#writer(key, variant, generation, sizeBytes, undefined);
  }

  async resume(entry: StoredEntry): Promise<EntryWriter | undefined> {
    const { key, variant, generation, sizeBytes } = entry;
    this.#requireWritable();
    try {
      const header = await this.#headerOf(entry);
      if (header === undefined || header.pinnedUntil !== undefined) return undefined;
    } catch (error) {
      throw toStoreFaultOf(error);
    }
    if (this.#writers.has(generation)) throw new Error(`Generation ${generation} is being written already.`);
    this.#writers.add(generation);
    try {
      const count = Math.ceil(sizeBytes / this.blockSizeBytes);
      const isPresent = await this.#bodies.readPresence(key, generation, count);
      const present = Array.from({ length: count }, (_, at) => at).filter(isPresent);
      return this.#writer(key, variant, generation, sizeBytes, present);
    } catch (error) {
      this.#writers.delete(generation);
      throw toStoreFaultOf(error);
    }
  }

  async replaceMetadata(entry: StoredEntry, metadata: StoredResponse): Promise<StoredEntry | undefined> {
    const { key, variant, generation, sizeBytes } = entry;
    const { client, keys, keepMs, sharing } = this.#options;
    const { blockSizeBytes } = this;
    const record = encodeRecord(key, { generation, variant, sizeBytes, metadata, blockSizeBytes }, this.#seal);
    const args = [key, generation, record, encodeTags(metadata.tags), String(keepMs), this.#fenceOf(key)];
    const names = keys.of(key);
    let { isComplete } = entry;
    try {
      await sharing?.current();
      const header = await client.run(replaceScript, [names.entry, names.index, names.lease], args);
      if (header === null) return undefined;
      isComplete = readHeader(String(header))?.isComplete ?? false;
      void sharing?.announce({ kind: 'keys', keys: [key] });
    } catch {
      // Look-ups go on to find the old metadata, which may then be used no more.
      if (isRestricted(metadata)) {
        await this.removeEntry(entry);
        return undefined;
      }
    }
    const pinnedUntil = undefined;
    return this.#entry(key, { generation, variant, sizeBytes, metadata, blockSizeBytes, isComplete, pinnedUntil });
  }

  async removeEntry({ key, generation }: Pick<EntryName, 'key' | 'generation'>): Promise<void> {
    // A caller that removes one entry does it on its way, and must not fail: what cannot be removed now is owed.
    await this.#removeOrOwe({ kind: 'generation', key, generation }).catch(() => {});
  }

  async removeKey(key: string): Promise<number> {
    const { count } = await this.#removeOrOwe({ kind: 'key', key });
    return count;
  }

  async removeTagged(tag: string): Promise<readonly string[]> {
    const { keys } = await this.#removeOrOwe({ kind: 'tag', tag });
    return keys;
  }

  async removePrefixed(prefix: string): Promise<readonly string[]> {
    const { keys } = await this.#removeOrOwe({ kind: 'prefix', prefix });
    return keys;
  }

  async list(choice: EntryChoice, limit: number, after?: string): Promise<EntryPage> {
    const place = after === undefined ? undefined : parseCursor<Place>(after, [0, '', '', '']);
    const entries: StoredEntry[] = [];
    let last: Place | undefined;
    try {
      for await (const [bucket, found] of this.#entriesOf(choice, place)) {
        const rest = found.filter((entry) => place === undefined || isBehind(placeOf(bucket, entry), place));
        for (const entry of rest) {
          if (entries.length === limit) return { entries, next: last && formatCursor(last) };
          entries.push(entry);
          last = placeOf(bucket, entry);
        }
      }
    } catch (error) {
      throw new StoreFault('io', `The engine cannot list entries now. ${messageOf(error)}`, { cause: error });
    }
    return { entries, next: undefined };
  }

  async listRanked(choice: EntryChoice, order: EntryOrder, limit: number, after?: EntryRank): Promise<RankedPage> {
    const selection = new RankSelection<RankedEntry>(limit, after, hasFallingRanks(order));
    try {
      // The index has the order of the keys. For any other one all entries are read, and the selected ones are kept.
      const isIndexed = order.by === 'key' && typeof (after?.rank ?? '') === 'string';
      const pages = isIndexed ? this.#entriesInOrder(choice, order, limit, after) : this.#chosenEntries(choice, order);
      for await (const found of pages) {
        for (const entry of found) {
          const usedAt = this.usedAt(entry.generation) ?? 0;
          selection.add({ rank: rankOf(entry, usedAt, order), generation: entry.generation, entry });
        }
      }
    } catch (error) {
      throw new StoreFault('io', `The engine cannot list entries now. ${messageOf(error)}`, { cause: error });
    }
    const { places: entries, next } = selection.end();
    return { entries, next };
  }

  usedAt(generation: string): number | undefined {
    const { usedAt = 0 } = this.#uses.get(generation) ?? {};
    return usedAt === 0 ? undefined : wholeSeconds(usedAt) * 1000;
  }

  blocksInMemory(): SpanSet {
    return new SpanSet();
  }

  readUsage(): StoreUsage {
    const isRefused = this.#options.clock.now() < this.#refusedUntil;
    return { ...this.#usage, isWritable: !this.#options.client.isAway && !isRefused };
  }

  /** Nothing is kept in this process that a change could outdate. */
  applyChange(): void {}

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelUsage();
    this.#owed.close();
    this.#bodies.close();
    this.#options.client.close();
  }

  async #find(key: string): Promise<readonly StoredEntry[]> {
    const { client, keys, now } = this.#options;
    const { entry } = keys.of(key);
    const { generations, damaged } = readEntryHash(key, await client.send(entry, ['HGETALL', entry], true), this.#seal);
    for (const generation of damaged) {
      this.#warn(`a record of the store is ${this.#damage}`, `generation ${generation}`, 1);
      void this.removeEntry({ key, generation });
    }
    const readable = generations.filter((each) => this.#isReadable(each));
    for (const { generation, blockSizeBytes } of generations) {
      if (blockSizeBytes === this.blockSizeBytes) continue;
      const advice = 'All machines that share a cache need the same store.blockSizeBytes';
      this.#warn(`a stored response has blocks of another size. ${advice}`, `${blockSizeBytes} bytes`);
      void this.removeEntry({ key, generation });
    }
    return findable(
      readable.map((each) => this.#entry(key, each)),
      now,
    );
  }

  /** Whether this process can read a generation: a machine with other limits, or another program, may have stored it. */
  #isReadable({ blockSizeBytes, sizeBytes }: RecordedGeneration): boolean {
    return blockSizeBytes === this.blockSizeBytes && sizeBytes <= this.maxEntryBytes;
  }

  /** Returns the hash of an entry as the engine has it; an empty one where the key has a value of another type. Rejects with `EngineFault`. */
  async #readHash(entry: string): Promise<unknown> {
    try {
      return await this.#options.client.send(entry, ['HGETALL', entry], true);
    } catch (error) {
      if (error instanceof EngineFault && error.reason === 'refused') return [];
      throw error;
    }
  }

  /** Returns the header of a generation; undefined where it does not exist any more. Rejects with `EngineFault`. */
  async #headerOf({ key, generation }: Pick<StoredEntry, 'key' | 'generation'>) {
    const { client, keys } = this.#options;
    const { entry } = keys.of(key);
    const header = await client.send(entry, ['HGET', entry, `h:${generation}`], true);
    return header === null ? undefined : readHeader(String(header));
  }

  #entry(key: string, generation: RecordedGeneration): StoredEntry {
    return {
      key,
      ...generation,
      peekBlock: () => {
        this.#noteUse(key, generation);
        return undefined;
      },
      open: (first) => this.#open(key, generation, first),
      readPresence: () => this.#readPresence(key, generation),
    };
  }

  async #open(key: string, recorded: RecordedGeneration, first = -1): Promise<EntryReader> {
    const { generation, sizeBytes } = recorded;
    const count = Math.ceil(sizeBytes / this.blockSizeBytes);
    const isThere = this.#requireThere(key, generation);
    // Both commands leave in one write, and come back in one wait.
    let early = first >= 0 && first < count ? this.#bodies.fetch(key, generation, first) : undefined;
    early?.catch(() => {});
    await isThere;
    this.#noteUse(key, recorded);
    const letGo = this.#bodies.hold(key, generation, count);
    let isOpen = true;
    return {
      peekBlock: () => undefined,
      readBlock: async (index) => {
        if (index >= count) throw new ProxyError('bytes_gone', { detail: `There is no block ${index}.` });
        const length = spanSize(spanOfBlock(index, this.blockSizeBytes, sizeBytes));
        const fetched = index === first ? early : undefined;
        if (fetched !== undefined) early = undefined;
        return this.#bodies.read(key, generation, index, length, fetched);
      },
      close: () => {
        if (isOpen) letGo();
        isOpen = false;
      },
    };
  }

  async #readPresence(key: string, { generation, sizeBytes }: RecordedGeneration): Promise<SpanSet> {
    await this.#requireThere(key, generation);
    const count = Math.ceil(sizeBytes / this.blockSizeBytes);
    try {
      return SpanSet.where(count, await this.#bodies.readPresence(key, generation, count));
    } catch (error) {
      throw new ProxyError('bytes_gone', { detail: String(error), cause: error });
    }
  }

  /** Throws `ProxyError` `bytes_gone` where a generation does not exist any more, or the engine cannot say that it does. */
  async #requireThere(key: string, generation: string): Promise<void> {
    if (this.#owed.isOwing) throw new ProxyError('bytes_gone', { detail: 'A removal is still owed to the engine.' });
    const header = await this.#headerOf({ key, generation }).catch((error: unknown) => {
      throw new ProxyError('bytes_gone', { detail: String(error), cause: error });
    });
    const { pinnedUntil = Number.POSITIVE_INFINITY } = header ?? {};
    if (header !== undefined && pinnedUntil > this.#options.now()) return;
    throw new ProxyError('bytes_gone', { detail: `Generation ${generation} was removed.` });
  }

  #writer(
    key: string,
    variant: string,
    generation: string,
    sizeBytes: number | undefined,
    present: readonly number[] | undefined,
  ): EntryWriter {
    const fence = this.#fenceOf(key);
    const writer = new RedisWriter({
      key,
      generation,
      sizeBytes,
      present,
      bodies: this.#bodies,
      blockSizeBytes: this.blockSizeBytes,
      maxEntryBytes: this.maxEntryBytes,
      now: this.#options.now,
      // A writer that was opened without a lease in the engine may have got or lost one since.
      put: (put) => this.#put(key, variant, put, fence === '' ? this.#fenceOf(key) : fence),
      onEnd: (wasPut, count) => this.#endWriter(key, generation, wasPut, count),
    });
    this.#writers.add(generation);
    return writer;
  }

  async #put(key: string, variant: string, put: PutGeneration, fence: string): Promise<StoredEntry | undefined> {
    const { generation, metadata, sizeBytes, isComplete, pinPreviousUntil, wasPut } = put;
    const { client, keys, now, keepMs, sharing } = this.#options;
    const names = keys.of(key);
    const { blockSizeBytes } = this;
    const recorded = { generation, variant, sizeBytes, metadata, blockSizeBytes, isComplete, pinnedUntil: undefined };
    const args = [
      key,
      generation,
      shortDigest(variant),
      String(Math.ceil(sizeBytes / blockSizeBytes)),
      isComplete ? '1' : '0',
      encodeRecord(key, recorded, this.#seal),
      encodeTags(metadata.tags),
      String(now()),
      String(pinPreviousUntil ?? 0),
      String(maxPins),
      String(keepMs),
      wasPut ? '1' : '0',
      fence,
    ];
    let removed: unknown;
    try {
      await sharing?.current();
      removed = await client.run(putScript, [names.entry, names.index, names.lease], args);
    } catch (error) {
      throw this.#faultOf(error);
    }
    if (removed === null) return undefined;
    this.#dropBodies(key, removed as readonly unknown[]);
    this.#uses.set(generation, { usedAt: 0, extendedAt: now() });
    void sharing?.announce({ kind: 'keys', keys: [key] });
    // A process that was suspended meanwhile may have missed a purge. The cache checks that after this.
    await sharing?.current();
    return this.#entry(key, recorded);
  }

  /** Drops the blocks of a generation that was not put, or was removed meanwhile. */
  async #endWriter(key: string, generation: string, wasPut: boolean, count: number): Promise<void> {
    this.#writers.delete(generation);
    if (!wasPut) return await this.#bodies.expire(key, generation, count, 0);
    const header = await this.#headerOf({ key, generation }).catch(() => null);
    if (header === undefined) await this.#bodies.expire(key, generation, count, LINGER_MS);
  }

  /** Drops the blocks of removed generations: names and numbers of blocks, in turn. Readers have them open for a while. */
  #dropBodies(key: string, removed: readonly unknown[]): void {
    for (let at = 0; at + 1 < removed.length; at += 2) {
      const generation = String(removed[at]);
      this.#uses.delete(generation);
      void this.#bodies.expire(key, generation, Number(removed[at + 1]), LINGER_MS);
    }
  }

  /** Removes, or notes the removal to be done when the engine takes it, and throws `StoreFault`. */
  async #removeOrOwe(removal: Removal): Promise<Removed> {
    try {
      return await this.#remove(removal);
    } catch (error) {
      this.#owed.add(removal);
      const message = `Nothing was removed yet, because the engine has failed; it is removed when the engine is back. ${messageOf(error)}`;
      this.#warn('the engine cannot remove entries now', messageOf(error));
      // Others may have it in memory.
      await this.#options.sharing?.announce(changeOf(removal));
      throw new StoreFault('io', message, { cause: error });
    }
  }

  async #remove(removal: Removal): Promise<Removed> {
    const { sharing } = this.#options;
    switch (removal.kind) {
      case 'generation': {
        const count = await this.#removeGenerations(removal.key, [removal.generation]);
        void sharing?.announce(changeOf(removal));
        return { count, keys: [] };
      }
      case 'key': {
        const count = await this.#removeGenerations(removal.key, []);
        void sharing?.announce(changeOf(removal));
        return { count, keys: [] };
      }
      case 'tag':
      case 'prefix': {
        const keys = await this.#removeChosen(removal);
        void sharing?.announce(changeOf(removal));
        return { count: keys.length, keys };
      }
    }
  }

  async #removeChosen(choice: EntryChoice): Promise<readonly string[]> {
    const removed: string[] = [];
    for await (const [, found, all] of this.#entriesOf(choice)) {
      const byKey = Map.groupBy(all, ({ key }) => key);
      const removals = [...byKey].map(async ([key, entries]) => {
        const generations = choice.kind === 'tag' ? entries.map(({ generation }) => generation) : [];
        await this.#removeGenerations(key, generations);
      });
      await Promise.all(removals);
      removed.push(...new Set(found.map(({ key }) => key)));
    }
    return removed;
  }

  /** Removes generations of a key, all where none is named; returns how many could be found. Rejects with `EngineFault`. */
  async #removeGenerations(key: string, generations: readonly string[]): Promise<number> {
    const { client, keys, now } = this.#options;
    const names = keys.of(key);
    const args = [key, String(now()), ...generations];
    const [count, ...removed] = (await client.run(removeScript, [names.entry, names.index], args)) as unknown[];
    this.#dropBodies(key, removed);
    return Number(count);
  }

  /**
   * Returns the entries of a choice, bucket after bucket: those that can be found, and all with those whose pins have ended. Cleans the
   * index of keys whose entries are gone. Rejects with `EngineFault`.
   */
  async *#entriesOf(
    choice: EntryChoice,
    after?: Place,
    isWanted: (key: string) => boolean = () => true,
  ): AsyncGenerator<readonly [bucket: number, found: readonly StoredEntry[], all: readonly StoredEntry[]]> {
    // The key of the place is asked for again: it may have more variants behind the place.
    const [bucket, key] = after ?? [];
    const from: IndexedKey | undefined = bucket === undefined || key === undefined ? undefined : { bucket, key };
    if (from !== undefined) yield await this.#readEntries(choice, from.bucket, [from.key]);
    for await (const page of this.#index.pages(choice, from)) {
      for (let at = 0; at < page.length; at += ENTRIES_AT_ONCE) {
        const slice = page.slice(at, at + ENTRIES_AT_ONCE);
        const wanted = slice.map((indexed) => indexed.key).filter(isWanted);
        yield await this.#readEntries(choice, slice[0]?.bucket ?? 0, wanted);
      }
    }
  }

  async *#chosenEntries(choice: EntryChoice, { contains = '' }: EntryOrder): AsyncGenerator<readonly StoredEntry[]> {
    const text = lowerCase(contains);
    for await (const [, found] of this.#entriesOf(choice, undefined, (key) => hasText(key, text))) yield found;
  }

  /** Returns entries in the order of their keys, until there is one more than `limit` behind a place. Rejects with `EngineFault`. */
  async *#entriesInOrder(
    choice: EntryChoice,
    { contains = '', ...order }: EntryOrder,
    limit: number,
    after: EntryRank | undefined,
  ): AsyncGenerator<readonly StoredEntry[]> {
    const text = lowerCase(contains);
    const isFalling = hasFallingRanks(order);
    const isWanted = ({ key, generation }: StoredEntry): boolean =>
      after === undefined || compareRanks({ rank: key, generation }, after, isFalling) > 0;
    let left = limit + 1;
    let names: string[] = [];
    const read = async (): Promise<readonly StoredEntry[]> => {
      const [, found] = await this.#readEntries(choice, 0, names);
      names = [];
      left -= found.filter(isWanted).length;
      return found;
    };
    // The key of the place has more generations behind it, perhaps.
    for await (const { key } of this.#index.inOrder(choice, isFalling, after?.rank as string | undefined)) {
      if (hasText(key, text)) names.push(key);
      if (names.length < Math.min(left, ENTRIES_AT_ONCE)) continue;
      yield await read();
      if (left <= 0) return;
    }
    yield await read();
  }

  async #readEntries(
    choice: EntryChoice,
    bucket: number,
    names: readonly string[],
  ): Promise<readonly [bucket: number, found: readonly StoredEntry[], all: readonly StoredEntry[]]> {
    const { keys, now } = this.#options;
    const lists = await Promise.all(
      names.map(async (key) => {
        const { entry } = keys.of(key);
        const { generations } = readEntryHash(key, await this.#readHash(entry), this.#seal);
        if (generations.length === 0) void this.#index.clean(choice, key);
        const chosen = generations.filter((each) => isChosenBy(choice, { key, metadata: each.metadata }));
        const entriesOf = (some: readonly RecordedGeneration[]) =>
          some.map((each) => this.#entry(key, each)).sort(byPlace);
        const found = findable(entriesOf(chosen.filter((each) => this.#isReadable(each))), now);
        return { found: found.toSorted(byPlace), all: entriesOf(chosen) };
      }),
    );
    return [bucket, lists.flatMap(({ found }) => found), lists.flatMap(({ all }) => all)];
  }

  /** Notes a use of an entry, and extends the life of one that would end before long. */
  #noteUse(key: string, { generation, sizeBytes }: RecordedGeneration): void {
    const now = this.#options.now();
    const use = this.#uses.get(generation) ?? { usedAt: 0, extendedAt: Number.NEGATIVE_INFINITY };
    // Every hit comes here. Seconds are all that anyone reads, and a table that is changed at each hit grows old garbage.
    if (wholeSeconds(use.usedAt) === wholeSeconds(now)) return;
    use.usedAt = now;
    // The last one used is the last one in the map.
    this.#uses.delete(generation);
    this.#uses.set(generation, use);
    if (this.#uses.size > MAX_USES) for (const oldest of this.#uses.keys().take(1)) this.#uses.delete(oldest);
    if (now - use.extendedAt < this.#options.keepMs * EXTENSION_SHARE) return;
    use.extendedAt = now;
    void this.#extend(key, generation, sizeBytes);
  }

  async #extend(key: string, generation: string, sizeBytes: number): Promise<void> {
    const { client, keys, keepMs } = this.#options;
    const { entry, index } = keys.of(key);
    try {
      // One that was removed meanwhile must go soon.
      if ((await this.#headerOf({ key, generation })) === undefined) return;
      await client.run(extendScript, [entry, index], [String(keepMs)]);
    } catch {
      return;
    }
    await this.#bodies.expire(key, generation, Math.ceil(sizeBytes / this.blockSizeBytes), keepMs);
  }

  get #damage(): string {
    return this.#seal === undefined ? 'damaged' : 'damaged or not authentic';
  }

  #noteLost(key: string, generation: string, isDamaged: boolean): void {
    if (isDamaged) this.#warn(`a block of the store is ${this.#damage}`, `generation ${generation}`, 1);
    const { client, keys } = this.#options;
    void client.run(damageScript, [keys.of(key).entry], [generation]).catch(() => {});
  }

  /** The fencing number as the scripts take it: nothing without a fleet, 0 for a process that has lost its lease. */
  #fenceOf(key: string): string {
    return String(this.#options.sharing?.fenceOf(key) ?? '');
  }

  #requireWritable(): void {
    const { client, clock } = this.#options;
    if (client.isAway && client.nodes().length < 2) throw new StoreFault('io', 'The engine of the store is away.');
    if (clock.now() < this.#refusedUntil) throw new StoreFault('no_room', 'The engine takes no writes at the moment.');
  }

  /** Returns the `StoreFault` of a write. After one that the engine has refused, none is tried for a moment. */
  #faultOf(error: unknown): StoreFault {
    const isRefused = error instanceof EngineFault && (error.reason === 'full' || error.reason === 'readonly');
    if (isRefused) this.#refusedUntil = this.#options.clock.now() + REFUSED_MS;
    return toStoreFaultOf(error);
  }

  /** Asks how full the engine is, again and again. Makes the indexes whole at the start, so that no removal has to wait for it. */
  async #watch(): Promise<void> {
    if (this.#isClosed) return;
    await this.#index.makeWhole().catch(() => {});
    await this.#readUsage().catch(() => {});
    if (!this.#isClosed) this.#cancelUsage = this.#options.clock.after(USAGE_MS, () => void this.#watch());
  }

  async #readUsage(): Promise<void> {
    const { client } = this.#options;
    const infos = await Promise.all(client.nodes().map((node) => client.sendTo(node, ['INFO', 'memory'])));
    let usedBytes = 0;
    let maxSizeBytes = 0;
    for (const info of infos.map(String)) {
      usedBytes += numberIn(info, 'used_memory');
      maxSizeBytes += numberIn(info, 'maxmemory') || numberIn(info, 'total_system_memory');
    }
    this.#usage = { entryCount: await this.#index.count(), usedBytes, maxSizeBytes };
  }

  #warn(message: string, detail: string, damagedBlocks?: number): void {
    const level = this.#throttle.levelOf(message, this.#options.now());
    const count = damagedBlocks === undefined ? undefined : { damagedBlocks };
    this.#options.emit({ kind: 'store', level, message, detail, count });
  }
}

/** Returns the change that a removal is for others. */
function changeOf(removal: Removal): StoreChange {
  return removal.kind === 'tag' || removal.kind === 'prefix' ? removal : { kind: 'keys', keys: [removal.key] };
}

/** What a removal has removed. */
interface Removed {
  readonly count: number;
  /** The keys under which entries could be found, for a removal by tag or prefix. */
  readonly keys: readonly string[];
}

function numberIn(info: string, name: string): number {
  return Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function placeOf(bucket: number, { key, variant, generation }: StoredEntry): Place {
  return [bucket, key, variant, generation];
}

/** Checks whether a place of the same or a later key comes after another. */
function isBehind([bucket, key, ...rest]: Place, [otherBucket, otherKey, ...otherRest]: Place): boolean {
  if (bucket !== otherBucket || key !== otherKey) return true;
  return compareParts(rest, otherRest) > 0;
}

function byPlace(one: StoredEntry, other: StoredEntry): number {
  return compareParts([one.variant, one.generation], [other.variant, other.generation]);
}

function compareParts(one: readonly string[], other: readonly string[]): number {
  for (const [at, part] of one.entries()) {
    const against = other[at] ?? '';
    if (part !== against) return part < against ? -1 : 1;
  }
  return 0;
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
