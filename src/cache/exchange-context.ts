/** What exchanges with the origin work with. */

import type { Clock } from '../http/clock.ts';
import type { Store } from '../store/store.ts';
import type { Telling } from '../store/telling.ts';
import type { Emit } from '../telemetry/events.ts';
import type { ByteBudget } from './byte-budget.ts';
import type { Fleet } from './fleet.ts';
import type { Refusals } from './refusals.ts';
import type { UnreadTransfers } from './unread-transfers.ts';
import type { UnsharedKeys } from './unshared-keys.ts';

/** What is passed in. */
export interface ExchangeContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly emit: Emit;
  /** The other processes that share the store. */
  readonly fleet: Fleet;
  /** Bytes held for the readers of a transfer that the store no longer takes. */
  readonly windowBytes: number;
  /** What all readers together may have read before it is asked for. */
  readonly readAhead: ByteBudget;
  /** The transfers of each client that no client reads. */
  readonly unread: UnreadTransfers;
  /** Told of keys whose responses turn out not to be for sharing. */
  readonly unshared: UnsharedKeys;
  /** Told why responses are not stored. */
  readonly refusals: Refusals;
  /** Says how loudly it is told that the store takes no more. */
  readonly telling: Telling;
}
