/** What is counted of the store, and of what those who run the server have it do. */

import type { AdminEvent, FleetEvent, LifeEvent, StoreEvent } from './events.ts';
import { metricKinds } from './metric-kinds.ts';
import { Counts, type Tally } from './tally.ts';

const actions: readonly AdminEvent['action'][] = ['purge', 'warm', 'cancel', 'level', 'reload', 'refused'];

/** Counts them. */
export class ServerTallies {
  readonly #evictions = new Counts(metricKinds.rangeway_store_evicted_entries_total);
  readonly #damages = new Counts(metricKinds.rangeway_store_damaged_blocks_total);
  readonly #actions = new Counts(metricKinds.rangeway_admin_actions_total);
  readonly #reloads = new Counts(metricKinds.rangeway_reloads_total);
  readonly #loadedAt = new Counts(metricKinds.rangeway_config_loaded_timestamp_seconds);
  readonly #restarts = new Counts(metricKinds.rangeway_worker_restarts_total);
  readonly #now: () => number;

  readonly tallies: readonly Tally[] = [
    this.#evictions,
    this.#damages,
    this.#actions,
    this.#reloads,
    this.#loadedAt,
    this.#restarts,
  ];

  /** `now` tells epoch milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    // Numbers that are there before something happens show how often it happens.
    for (const action of actions) this.#actions.of(action);
    for (const result of ['done', 'failed']) this.#reloads.of(result);
  }

  store({ count }: StoreEvent): void {
    this.#evictions.of().value += count?.evictedEntries ?? 0;
    this.#damages.of().value += count?.damagedBlocks ?? 0;
  }

  act({ action, stage }: AdminEvent): void {
    if (stage === undefined) this.#actions.of(action).value += 1;
  }

  live({ stage }: LifeEvent): void {
    if (stage === 'ready' || stage === 'reloaded') this.#loadedAt.of().value = this.#now() / 1000;
    if (stage === 'reloaded') this.#reloads.of('done').value += 1;
    if (stage === 'reload_failed') this.#reloads.of('failed').value += 1;
  }

  fleet({ stage }: FleetEvent): void {
    if (stage === 'replaced') this.#restarts.of().value += 1;
  }
}
