/**
 * The commands of the engine (Redis, Valkey) that a fleet of several machines uses. `store/redis` opens the connections; this
 * interface keeps the fleet apart from them.
 */

import type { Clock } from '../../http/clock.ts';

/** The connections of one process to the engine. Each call rejects where the engine cannot be reached or does not answer in time. */
export interface FleetEngine {
  /** Runs a Lua script. Its keys are in one slot of a Cluster. Calls run in the order in which they were made. */
  run(script: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /**
   * Resolves when a stream has an entry after the id `after`, or after `blockMs` milliseconds. Uses a connection of its own, because
   * the wait blocks it.
   */
  untilAppended(stream: string, after: string, blockMs: number): Promise<void>;
  /** The address of this machine that the engine sees, as a numeric address; undefined before the first connection. */
  localAddress(): string | undefined;
}

/** Number of intervals in which the time of a call is counted. */
const INTERVALS = 4;

/**
 * Waits for a call, and rejects where it takes longer than `limitMs`: a paused engine or peer keeps its connections open. Counts intervals,
 * not time, so that a process that was suspended, or is short of processor time, does not take its own pause for one of the engine.
 */
export async function withinTime<T>(clock: Pick<Clock, 'after'>, limitMs: number, call: Promise<T>): Promise<T> {
  call.catch(() => {});
  const late = Promise.withResolvers<never>();
  let cancel = () => {};
  const count = (left: number): void => {
    if (left > 0) cancel = clock.after(limitMs / INTERVALS, () => count(left - 1));
    else late.reject(new Error(`No answer within ${limitMs} ms.`));
  };
  count(INTERVALS);
  try {
    return await Promise.race([call, late.promise]);
  } finally {
    cancel();
  }
}
