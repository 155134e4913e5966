/** Waits for the end of changes that have no event. */

import { expect } from 'vitest';

/** Resolves when a number was the same in ten readings in a row, 20 ms apart. */
export async function untilQuiet(read: () => number): Promise<void> {
  let last = Number.NaN;
  let sameLooks = 0;
  const look = (): boolean => {
    const value = read();
    sameLooks = value === last ? sameLooks + 1 : 0;
    last = value;
    return sameLooks >= 10;
  };
  await expect.poll(look, { interval: 20 }).toBe(true);
}
