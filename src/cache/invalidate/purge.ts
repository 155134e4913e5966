/** Purges for operators: removes or expires what is stored by key, prefix, pattern or tag, and whatever is being fetched for it. */

import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../http/clock.ts';
import type { EntryChoice, Store, StoredEntry } from '../../store/store.ts';
import type { Flights } from '../collapse/flights.ts';
import { type Fleet, hasPattern, type InvalidationMessage, type KeyPattern } from '../fleet.ts';

/**
 * What is meant: all that is stored under these keys, under keys that begin like this or have one of these patterns, or with
 * these tags as the store knows them.
 */
export interface PurgeChoice {
  readonly keys: readonly string[];
  readonly prefixes: readonly string[];
  readonly tags: readonly string[];
  readonly patterns?: readonly KeyPattern[] | undefined;
}

/** What to purge. */
export interface CachePurge extends PurgeChoice {
  /** `hard` removes it. `soft` ends its lifetime: it is validated before it is used again, and may be served if the origin fails. */
  readonly mode: 'hard' | 'soft';
}

/** What is purged from. */
export interface PurgeContext {
  readonly store: Store;
  readonly fleet: Fleet;
  readonly clock: Clock;
}

/** Entries that are listed at once: many, because a store without an order of its keys looks through all of them for each page. */
const PAGE_SIZE = 5000;

/** Entries that are expired without letting others have their turn. */
const SLICE = 100;

/**
 * Purges, in all processes. Once the promise is resolved, no request that comes later gets a byte that was stored, or asked
 * for, before the call, unless a soft purge has had it validated since, or lets it be served because the origin fails.
 * Tells how much it was: entries, or, where a hard purge goes by prefix or tag, keys.
 *
 * What runs is invalidated first, so that nothing comes into the store behind the back of what is removed then; and once
 * more at the end, because meanwhile somebody may have begun to complete or validate what was still stored.
 */
export async function purge(
  { store, fleet, clock }: PurgeContext,
  flights: Flights,
  { mode, ...choice }: CachePurge,
): Promise<number> {
  const expiredAt = mode === 'soft' ? clock.now() : undefined;
  const news = { kind: 'invalidated', ...choice, expiredAt } as const;
  await Promise.all([invalidateRunning(flights, news), fleet.tell(news)]);
  try {
    return expiredAt === undefined ? await remove(store, news) : await expire(store, news, expiredAt);
  } finally {
    await Promise.all([invalidateRunning(flights, news), fleet.tell(news)]);
  }
}

/**
 * Keeps what runs in this process for what was purged from being stored, or given to those who come later without being
 * validated. Resolves when nothing that began before can come into the store any more.
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

async function remove(store: Store, { keys, prefixes, tags, patterns = [] }: PurgeChoice): Promise<number> {
  let count = 0;
  for (const key of keys) count += await store.removeKey(key);
  for (const prefix of prefixes) count += (await store.removePrefixed(prefix)).length;
  for (const tag of tags) count += (await store.removeTagged(tag)).length;
  for (const pattern of patterns) {
    for await (const entries of pagesOf(store, { kind: 'prefix', prefix: pattern.start })) {
      const found = new Set(entries.map(({ key }) => key).filter((key) => hasPattern(key, pattern)));
      for (const key of found) count += await store.removeKey(key);
    }
  }
  return count;
}

async function expire(
  store: Store,
  { keys, prefixes, tags, patterns = [] }: PurgeChoice,
  expiredAt: number,
): Promise<number> {
  let count = 0;
  for (const key of keys) count += await expireEntries(store, await store.find(key), expiredAt);
  const choices: readonly EntryChoice[] = [
    ...prefixes.map((prefix) => ({ kind: 'prefix', prefix }) as const),
    ...tags.map((tag) => ({ kind: 'tag', tag }) as const),
  ];
  for (const choice of choices) {
    for await (const entries of pagesOf(store, choice)) count += await expireEntries(store, entries, expiredAt);
  }
  for (const pattern of patterns) {
    for await (const entries of pagesOf(store, { kind: 'prefix', prefix: pattern.start })) {
      const found = entries.filter(({ key }) => hasPattern(key, pattern));
      count += await expireEntries(store, found, expiredAt);
    }
  }
  return count;
}

/** The entries of a choice, page by page. */
async function* pagesOf(store: Store, choice: EntryChoice): AsyncGenerator<readonly StoredEntry[], void> {
  let after: string | undefined;
  do {
    const { entries, next } = await store.list(choice, PAGE_SIZE, after);
    yield entries;
    after = next;
  } while (after !== undefined);
}

/** Pinned generations, whose metadata cannot be replaced, are removed: they are stale by nature, and of use by that only. */
async function expireEntries(store: Store, entries: readonly StoredEntry[], expiredAt: number): Promise<number> {
  let count = 0;
  for (const [index, entry] of entries.entries()) {
    const { metadata, pinnedUntil } = entry;
    if (index % SLICE === SLICE - 1) await setImmediate();
    // It has been counted by another tag.
    if (metadata.expiredAt === expiredAt) continue;
    if (pinnedUntil !== undefined) await store.removeEntry(entry);
    else await store.replaceMetadata(entry, { ...metadata, expiredAt });
    count += 1;
  }
  return count;
}
