/**
 * Invalidates stored responses and running flights: after an unsafe method (RFC 9111 §4.4, RFC 9875), and when another process
 * announces an invalidation.
 */

import type { OriginResponse } from '../../origin/origin.ts';
import {
  collectionsToInvalidate,
  groupsToInvalidate,
  groupTag,
  spellingTag,
  targetsToInvalidate,
} from '../../semantics/invalidation.ts';
import { type Store, type StoreChange, StoreFault } from '../../store/store.ts';
import type { Flights } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import type { InvalidationMessage } from '../fleet.ts';
import type { Inquiry } from '../inquiry.ts';
import { invalidateRunning } from './purge.ts';

interface Invalid {
  readonly keys: readonly string[];
  readonly prefixes: readonly string[];
  readonly tags: readonly string[];
}

/**
 * Removes the entries that the response to an unsafe method invalidates, and keeps running flights for them from being stored or
 * joined, in all processes. Returns true where no later request gets what was stored or requested before the call; false where other
 * processes are told later, or the store removes it later.
 *
 * The steps are those of a purge: flights first, so that none stores anything after the removal, and at the end again, because
 * meanwhile a request may have begun to complete or validate an entry that was still stored.
 */
export async function invalidate(
  { store, fleet }: Pick<ExchangeContext, 'store' | 'fleet'>,
  flights: Flights,
  { request, keysOf, uriOrigin }: Inquiry,
  response: OriginResponse,
): Promise<boolean> {
  const targets = targetsToInvalidate({ ...request, response });
  const named = targets.map(keysOf).filter((each) => each !== undefined);
  // A URI is the same resource in all its spellings (RFC 9110 §4.2.3).
  const keys = [...new Set(named.flatMap(({ key, normalKey }) => [key, normalKey]))];
  const spellings = [...new Set(named.map(({ normalKey }) => spellingTag(normalKey)))];
  const groups = groupsToInvalidate({ ...request, response }).map((group) => groupTag(uriOrigin, group));
  const tags = [...groups, ...spellings];
  const prefixes = collectionsToInvalidate({ ...request, response }).flatMap((path) => prefixBelow(path, keysOf));
  if (keys.length + prefixes.length + tags.length === 0) return true;
  const news = { kind: 'invalidated', keys, prefixes, tags } as const;
  const announce = () => unlessOwed(fleet.announce(news));
  const [wasTold] = await Promise.all([announce(), invalidateRunning(flights, news)]);
  const isRemoved = await remove(store, news);
  // The response to this very request may be stored: it is no flight yet.
  flights.invalidateFlights(news);
  const [isTold] = await Promise.all([announce(), flights.settled()]);
  return wasTold && isRemoved && isTold;
}

/** Returns the beginning of the keys of all resources below a path that ends with a slash; none where no route serves them. */
function prefixBelow(path: string, keysOf: Inquiry['keysOf']): readonly string[] {
  const below = keysOf(`${path}x`);
  return below === undefined ? [] : [below.normalKey.slice(0, -1)];
}

async function remove(store: Store, { keys, prefixes, tags }: Invalid): Promise<boolean> {
  const removals = await Promise.all([
    ...keys.map((key) => unlessOwed(store.removeKey(key))),
    ...prefixes.map((prefix) => unlessOwed(store.removePrefixed(prefix))),
    ...tags.map((tag) => unlessOwed(store.removeTagged(tag))),
  ]);
  return removals.every((isDone) => isDone);
}

/**
 * A store that cannot remove now does it later, and finds nothing until then; a process that cannot be told now is told later. The
 * response to the unsafe method need not fail. Returns whether it is done.
 */
async function unlessOwed(step: Promise<unknown>): Promise<boolean> {
  try {
    await step;
    return true;
  } catch (error) {
    if (!(error instanceof StoreFault)) throw error;
    return false;
  }
}

/** Applies a message of another process. Resolves when nothing that it forbids is served or stored any more. */
export async function applyInvalidation(
  { store }: Pick<ExchangeContext, 'store'>,
  flights: Flights,
  news: InvalidationMessage,
): Promise<void> {
  if (news.kind === 'invalidated') return await invalidateRunning(flights, news);
  store.applyChange(news.change);
  await refresh(store, flights, news.change);
}

/**
 * Gives open generations of this process the metadata that another process has replaced: after a HEAD, which needs no lease, or
 * after a soft purge. Otherwise they would be committed with the old metadata.
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
