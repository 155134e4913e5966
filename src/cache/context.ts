/** The dependencies that all parts of the cache share: the store, the clock, the fleet, and the state that covers all keys. */

import type { Clock } from '../http/clock.ts';
import type { LogThrottle } from '../store/log-throttle.ts';
import type { Store } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import type { UnreadTransfers } from './fill/fill-scheduler.ts';
import type { Fleet } from './fleet.ts';
import type { HitForPassKeys, NotStoredReasons } from './lookup/hit-for-pass.ts';
import type { ByteBudget } from './read/read-ahead.ts';

/** The dependencies of an exchange with the origin. */
export interface ExchangeContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly emit: Emit;
  /** The other processes that share the store. */
  readonly fleet: Fleet;
  /** Bytes held in memory for the readers of a fill that the store no longer takes. */
  readonly windowBytes: number;
  /** Bytes that all readers together may have read ahead. */
  readonly readAhead: ByteBudget;
  /** Counts the unread transfers of each client. */
  readonly unread: UnreadTransfers;
  /** Remembers keys whose responses turned out not to be shareable. */
  readonly hitForPass: HitForPassKeys;
  /** Remembers why responses were not stored. */
  readonly notStoredReasons: NotStoredReasons;
  /** Chooses the log level of repeated warnings: a store that refuses bytes, a stored Set-Cookie. */
  readonly logThrottle: LogThrottle;
}
