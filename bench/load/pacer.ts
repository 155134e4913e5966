/** Sends requests at a steady rate, on any free connection. */

import { performance } from 'node:perf_hooks';

/** A connection that can send a request. */
interface Asking {
  ask(dueAt: number): void;
}

/** Passes requests to connections when they are due. */
export interface Pacer {
  /** Offers a connection that can send a request. */
  offer(connection: Asking): void;
  /** Returns, for each due request that is not sent because no connection is free, how long it has waited, in milliseconds. */
  overdue(): number[];
}

/**
 * Creates a pacer, which starts sending once `connections` connections are ready. It polls the clock, because a timer
 * would be late by more than some responses take. The load has a core of its own, so polling disturbs no other process.
 */
export function createPacer(ratePerSecond: number, connections: number): Pacer {
  const intervalMs = 1000 / ratePerSecond;
  const free: Asking[] = [];
  const waiting: number[] = [];
  let nextAt: number | undefined;
  const send = (dueAt: number) => {
    const connection = free.pop();
    if (connection === undefined) waiting.push(dueAt);
    else connection.ask(dueAt);
  };
  const look = () => {
    for (const now = performance.now(); nextAt !== undefined && nextAt <= now; nextAt += intervalMs) send(nextAt);
    setImmediate(look);
  };
  return {
    offer(connection) {
      const dueAt = waiting.shift();
      if (dueAt !== undefined) return connection.ask(dueAt);
      free.push(connection);
      if (nextAt !== undefined || free.length < connections) return;
      nextAt = performance.now();
      look();
    },
    overdue: () => waiting.map((dueAt) => performance.now() - dueAt),
  };
}
