/**
 * Invalidates stored responses and running fetches: after an unsafe method (RFC 9111 §4.4, RFC 9875), and when another process
 * announces an invalidation.
 */

import type { OriginResponse } from '../../origin/origin.ts';
import { groupsToInvalidate, groupTag, spellingTag, targetsToInvalidate } from '../../semantics/invalidation.ts';
import type { Store, StoreChange } from '../../store/store.ts';
import type { Flights } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import { type InvalidationMessage, noFleet } from '../fleet.ts';
import type { Inquiry } from '../inquiry.ts';
import { invalidateRunning } from './purge.ts';

interface Invalid {
  readonly keys: readonly string[];
  readonly tags: readonly string[];
}

/**
 * Removes what the exchange has invalidated, and keeps what is running for it from being stored, here at once, and in all
 * processes when the promise resolves.
 */
export async function invalidate(
  { store, fleet }: Pick<ExchangeContext, 'store' | 'fleet'>,
  flights: Flights,
  { request, keysOf, uriOrigin }: Inquiry,
  response: OriginResponse,
): Promise<void> {
  const targets = targetsToInvalidate({ ...request, response });
  const named = targets.map(keysOf).filter((each) => each !== undefined);
  // A URI is the same resource in all its spellings (RFC 9110 §4.2.3).
  const keys = [...new Set(named.flatMap(({ key, normalKey }) => [key, normalKey]))];
  const spellings = [...new Set(named.map(({ normalKey }) => spellingTag(normalKey)))];
  const groups = groupsToInvalidate({ ...request, response }).map((group) => groupTag(uriOrigin, group));
  const tags = [...groups, ...spellings];
  for (const key of keys) flights.invalidate(key);
  for (const tag of tags) flights.invalidateTagged(tag);
  await remove(store, { keys, tags });
  if (fleet === noFleet || keys.length + tags.length === 0) return;
  const news = { kind: 'invalidated', keys, prefixes: [], tags } as const;
  await fleet.tell(news);
  // What another process has stored before it heeded this; and what it has begun to complete since, when it heeds it again.
  await remove(store, { keys, tags });
  await fleet.tell(news);
}

async function remove(store: Store, { keys, tags }: Invalid): Promise<void> {
  await Promise.all([...keys.map((key) => store.removeKey(key)), ...tags.map((tag) => store.removeTagged(tag))]);
}

/** Learns it. Resolves when nothing is given or stored any more that it forbids. */
export async function heed(
  { store }: Pick<ExchangeContext, 'store'>,
  flights: Flights,
  news: InvalidationMessage,
): Promise<void> {
  if (news.kind === 'invalidated') return await invalidateRunning(flights, news);
  store.heed(news.change);
  await refresh(store, flights, news.change);
}

/**
 * Gives generations that are open here what another process has found out about them: by a HEAD, which needs no lease, or
 * because somebody has had them expired. They would be committed with what was known before otherwise.
 */
async function refresh(
  store: Pick<ExchangeContext['store'], 'find'>,
  flights: Flights,
  change: StoreChange,
): Promise<void> {
  if (change.kind !== 'keys') return;
  for (const key of change.keys) {
    if (!flights.isRunning(key)) continue;
    for (const entry of await store.find(key)) flights.freshen(entry);
  }
}
