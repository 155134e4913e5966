/** What an unsafe method makes of stored responses (RFC 9111 §4.4, RFC 9875). */

import type { OriginResponse } from '../origin/origin.ts';
import { groupsToInvalidate, groupTag } from '../semantics/cache-groups.ts';
import { targetsToInvalidate } from '../semantics/invalidation.ts';
import type { Store } from '../store/store.ts';
import type { Flights } from './flights.ts';
import type { Inquiry } from './inquiry.ts';

/** Removes what the exchange has invalidated, and keeps what is running for it from being stored. */
export async function invalidate(
  store: Store,
  flights: Flights,
  { request, keyOf, uriOrigin }: Inquiry,
  response: OriginResponse,
): Promise<void> {
  const targets = targetsToInvalidate({ ...request, response });
  const keys = targets.map(keyOf).filter((key) => key !== undefined);
  const tags = groupsToInvalidate({ ...request, response }).map((group) => groupTag(uriOrigin, group));
  for (const key of keys) flights.invalidate(key);
  for (const tag of tags) flights.invalidateTagged(tag);
  await Promise.all([...keys.map((key) => store.removeKey(key)), ...tags.map((tag) => store.removeTagged(tag))]);
}
