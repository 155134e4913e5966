/** What an unsafe method makes of stored responses (RFC 9111 §4.4, RFC 9875). */

import type { OriginResponse } from '../origin/origin.ts';
import { groupsToInvalidate, groupTag } from '../semantics/cache-groups.ts';
import { spellingTag } from '../semantics/cache-tags.ts';
import { targetsToInvalidate } from '../semantics/invalidation.ts';
import type { Store } from '../store/store.ts';
import type { ExchangeContext } from './exchange-context.ts';
import { noFleet } from './fleet.ts';
import type { Flights } from './flights.ts';
import type { Inquiry } from './inquiry.ts';

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
