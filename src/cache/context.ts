/** What all parts of the cache work with: the store, the clock, the other processes, and what is shared by all keys. */

import type { Clock } from '../http/clock.ts';
import type { LogThrottle } from '../store/log-throttle.ts';
import type { Store } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import type { UnreadTransfers } from './fill/fill-scheduler.ts';
import type { Fleet } from './fleet.ts';
import type { HitForPassKeys, NotStoredReasons } from './lookup/hit-for-pass.ts';
import type { ByteBudget } from './read/read-ahead.ts';

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
  readonly unshared: HitForPassKeys;
  /** Told why responses are not stored. */
  readonly refusals: NotStoredReasons;
  /** Says how loudly it is told that the store takes no more. */
  readonly telling: LogThrottle;
}
