/** What a cache makes of what another process tells. */

import type { StoreChange } from '../store/store-change.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { News } from './fleet.ts';
import type { Flights } from './flights.ts';
import { invalidateRunning } from './purge.ts';

/** Learns it. Resolves when nothing is given or stored any more that it forbids. */
export async function heed({ store }: Pick<ExchangeContext, 'store'>, flights: Flights, news: News): Promise<void> {
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
