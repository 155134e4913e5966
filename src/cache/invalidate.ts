/** What an unsafe method makes of stored responses (RFC 9111 §4.4). */

import type { OriginResponse } from '../origin/origin.ts';
import { targetsToInvalidate } from '../semantics/invalidation.ts';
import type { Store } from '../store/store.ts';
import type { Flights } from './flights.ts';
import type { Inquiry } from './inquiry.ts';

/** Removes what the exchange has invalidated, and keeps what is running for it from being stored. */
export async function invalidate(
  store: Store,
  flights: Flights,
  { request, keyOf }: Inquiry,
  response: OriginResponse,
): Promise<void> {
  const targets = targetsToInvalidate({ ...request, response });
  const keys = targets.map(keyOf).filter((key) => key !== undefined);
  for (const key of keys) flights.invalidate(key);
  await Promise.all(keys.map((key) => store.removeKey(key)));
}
