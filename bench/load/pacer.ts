/** Sends requests at a steady rate, on whichever connection is free. */

import { performance } from 'node:perf_hooks';

/** What can ask. */
interface Asking {
  ask(dueAt: number): void;
}

/** Gives requests to connections when they are due. */
export interface Pacer {
  /** A connection that can ask. */
  offer(connection: Asking): void;
  /** How long those have waited that are due and for which no connection has been free, in milliseconds. */
  overdue(): number[];
}

/**
 * Begins when so many connections are ready. It looks at the clock again and again, as a timer would be late by more than
 * some answers take: its core is its own.
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
