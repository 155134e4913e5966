/** Purges for operators: removes or expires entries by key, prefix, pattern or tag, and running flights for them. */

import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../http/clock.ts';
import type { EntryChoice, Store, StoredEntry } from '../../store/store.ts';
import type { Emit } from '../../telemetry/events.ts';
import type { Flights } from '../collapse/flights.ts';
import { type Fleet, hasPattern, type InvalidationMessage, type KeyPattern } from '../fleet.ts';

/** Selects all entries under these keys, under keys with one of these prefixes or patterns, or with one of these tags of the store. */
export interface PurgeChoice {
  readonly keys: readonly string[];
  readonly prefixes: readonly string[];
  readonly tags: readonly string[];
  readonly patterns?: readonly KeyPattern[] | undefined;
}

/** The order of an operator: the choice, and how to purge it. */
export interface CachePurge extends PurgeChoice {
  /** `hard` removes entries. `soft` expires them: they are validated before reuse, and may be served if the origin fails. */
  readonly mode: 'hard' | 'soft';
}

/** The dependencies of a purge. */
export interface PurgeContext {
  readonly store: Store;
  readonly fleet: Fleet;
  readonly clock: Clock;
  readonly emit: Emit;
}

/** Number of keys that the event of a purge names. */
const mostNamed = 1000;

/** Entries per page of a listing. Large, because a store that does not sort its keys scans all of them for each page. */
const PAGE_SIZE = 5000;

/** Entries that are expired within one turn of the event loop. */
const SLICE = 100;

/**
 * Purges in all processes. Once the promise has resolved, no later request gets a byte that was stored or requested before the
 * call. After a soft purge it may, once the entry has been validated, or because the origin fails. Returns the count: of entries,
 * or, where a hard purge goes by prefix or tag, of keys. Rejects with `StoreFault` where something was not removed or expired, or a
 * process may not have been told: it is done later. A soft purge removes then, and what this process cannot find.
 *
 * Running flights are invalidated first, so that they store nothing after the removal. They are invalidated again at the end,
 * because meanwhile a request may have begun to complete or validate an entry that was still stored.
 */
export async function purge(
  { store, fleet, clock, emit }: PurgeContext,
  flights: Flights,
  { mode, ...choice }: CachePurge,
): Promise<number> {
  const expiredAt = mode === 'soft' ? clock.now() : undefined;
  const news = { kind: 'invalidated', ...choice, expiredAt } as const;
  const purgeStored = async (isTold: boolean) => {
    // A store that takes no writes can owe a removal, and nothing else.
    const isSoft = expiredAt !== undefined && isTold;
    const purged = isSoft ? await expire(store, news, expiredAt) : await remove(store, news);
    const cause = isSoft ? 'expired' : 'purged';
    if (purged.keys.length > 0) emit({ kind: 'removal', cause, keys: purged.keys });
    return purged.count;
  };
  const running = () => Promise.all([invalidateRunning(flights, news), fleet.announce(news)]);
  // Each step is taken, also where one before it has failed: the next one may remove what can be removed.
  const [before] = await Promise.allSettled([running()]);
  const [purged] = await Promise.allSettled([purgeStored(before.status === 'fulfilled')]);
  const [after] = await Promise.allSettled([running()]);
  for (const step of [purged, before, after]) if (step.status === 'rejected') throw step.reason;
  return (purged as PromiseFulfilledResult<number>).value;
}

/**
 * Invalidates the flights of this process for a message: later requests do not join them, and they are not stored. For a soft
 * purge they go on, but are validated before later requests get them. Resolves when no earlier flight can store anything invalid.
 */
export function invalidateRunning(
  flights: Flights,
  { keys, prefixes, tags, patterns = [], expiredAt }: Extract<InvalidationMessage, { kind: 'invalidated' }>,
): Promise<void> {
  if (expiredAt === undefined) {
    for (const key of keys) flights.invalidate(key);
    for (const prefix of prefixes) flights.invalidateWhere((key) => key.startsWith(prefix));
    for (const pattern of patterns) flights.invalidateWhere((key) => hasPattern(key, pattern));
    for (const tag of tags) flights.invalidateTagged(tag);
  } else {
    for (const key of keys) flights.expire(key, expiredAt);
    for (const prefix of prefixes) flights.expireWhere((key) => key.startsWith(prefix), expiredAt);
    for (const pattern of patterns) flights.expireWhere((key) => hasPattern(key, pattern), expiredAt);
    for (const tag of tags) flights.expireTagged(tag, expiredAt);
  }
  return flights.settled();
}

/** What was purged: the count that is reported, and the first keys. */
class Purged {
  readonly keys: string[] = [];
  count = 0;

  /** Notes keys: as many as a purge names. */
  name(keys: Iterable<string>): void {
    for (const key of keys) {
      if (this.keys.length >= mostNamed) return;
      this.keys.push(key);
    }
  }

  /** Removes a key, and notes it where something was removed. */
  async removeFrom(store: Store, key: string): Promise<void> {
    const count = await store.removeKey(key);
    this.count += count;
    if (count > 0) this.name([key]);
  }

  /** Notes keys under which something was removed. */
  add(keys: readonly string[]): void {
    this.count += keys.length;
    this.name(keys);
  }
}

async function remove(store: Store, { keys, prefixes, tags, patterns = [] }: PurgeChoice): Promise<Purged> {
  const purged = new Purged();
  // At once: a store in an engine answers each after a round trip.
  const removals = await Promise.allSettled(keys.map((key) => purged.removeFrom(store, key)));
  for (const removal of removals) if (removal.status === 'rejected') throw removal.reason;
  for (const prefix of prefixes) purged.add(await store.removePrefixed(prefix));
  for (const tag of tags) purged.add(await store.removeTagged(tag));
  for (const pattern of patterns) {
    for await (const entries of pagesOf(store, { kind: 'prefix', prefix: pattern.start })) {
      const found = new Set(entries.map(({ key }) => key).filter((key) => hasPattern(key, pattern)));
      for (const key of found) await purged.removeFrom(store, key);
    }
  }
  return purged;
}

async function expire(
  store: Store,
  { keys, prefixes, tags, patterns = [] }: PurgeChoice,
  expiredAt: number,
): Promise<Purged> {
  const purged = new Purged();
  const expireAll = async (entries: readonly StoredEntry[]): Promise<void> => {
    purged.count += await expireEntries(store, entries, expiredAt);
    purged.name(new Set(entries.map(({ key }) => key)));
  };
  // Another process may have stored something before it heard of this purge of which memory does not know yet.
  store.applyChange({ kind: 'keys', keys });
  for (const key of keys) {
    const entries = await store.find(key);
    // A store that cannot read now, or owes a removal, finds nothing either. Other processes would go on to find it.
    if (entries.length === 0) await purged.removeFrom(store, key);
    else await expireAll(entries);
  }
  const choices: readonly EntryChoice[] = [
    ...prefixes.map((prefix) => ({ kind: 'prefix', prefix }) as const),
    ...tags.map((tag) => ({ kind: 'tag', tag }) as const),
  ];
  for (const choice of choices) {
    for await (const entries of pagesOf(store, choice)) await expireAll(entries);
  }
  for (const pattern of patterns) {
    for await (const entries of pagesOf(store, { kind: 'prefix', prefix: pattern.start })) {
      await expireAll(entries.filter(({ key }) => hasPattern(key, pattern)));
    }
  }
  return purged;
}

/** Yields the entries of a choice, page by page. */
async function* pagesOf(store: Store, choice: EntryChoice): AsyncGenerator<readonly StoredEntry[], void> {
  let after: string | undefined;
  do {
    const { entries, next } = await store.list(choice, PAGE_SIZE, after);
    yield entries;
    after = next;
  } while (after !== undefined);
}

/**
 * Expires entries and returns their number. Removes pinned ones: their metadata cannot be replaced, and they are always stale. Rejects
 * with `StoreFault` where the store can neither expire nor remove one now.
 */
async function expireEntries(store: Store, entries: readonly StoredEntry[], expiredAt: number): Promise<number> {
  let count = 0;
  for (const [index, entry] of entries.entries()) {
    const { key, metadata, pinnedUntil } = entry;
    if (index % SLICE === SLICE - 1) await setImmediate();
    // Already expired and counted under another tag, prefix or pattern.
    if (metadata.expiredAt === expiredAt) continue;
    if (pinnedUntil !== undefined) await store.removeEntry(entry);
    else if ((await store.replaceMetadata(entry, { ...metadata, expiredAt })) === undefined) {
      // It is gone, or the store could not write that it has expired, and may owe its removal.
      await store.removeKey(key);
    }
    count += 1;
  }
  return count;
}
