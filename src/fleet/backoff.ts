/** For how long the place of a worker that has died is left empty. */

/** How the time between one death and the next start grows. */
export interface BackoffOptions {
  /** The second of two deaths in a row is waited for so long, in milliseconds; each further one twice as long. */
  readonly firstMs: number;
  /** No wait is longer, in milliseconds. */
  readonly mostMs: number;
  /** No wait is longer where nobody else serves, in milliseconds: clients wait for it. */
  readonly mostAloneMs: number;
  /** Who has lived for so many milliseconds has not died in a row. */
  readonly steadyAfterMs: number;
}

/** How a running server waits. */
export const workerBackoff: BackoffOptions = {
  firstMs: 500,
  mostMs: 30_000,
  mostAloneMs: 1000,
  steadyAfterMs: 60_000,
};

/** Deaths in a row, the latest included, when the one before was the `deaths`-th and this one came after `livedMs`. */
export function countDeaths(deaths: number, livedMs: number, { steadyAfterMs }: BackoffOptions): number {
  return livedMs >= steadyAfterMs ? 1 : deaths + 1;
}

/**
 * Milliseconds until the next start after so many deaths in a row: none after the first one. `fraction` is chance, from 0 to 1:
 * it takes up to half of a wait away, so that places that were left together are not taken together. `isAlone` says that nobody
 * else serves.
 */
export function restartDelayMs(
  deaths: number,
  fraction: number,
  isAlone: boolean,
  { firstMs, mostMs, mostAloneMs }: BackoffOptions,
): number {
  if (deaths <= 1) return 0;
  const delayMs = Math.min(isAlone ? mostAloneMs : mostMs, firstMs * 2 ** (deaths - 2));
  return Math.round(delayMs * (1 - fraction / 2));
}
