/** Whether a quantity stayed flat: the medians of the last and of the middle third of its samples. Pure. */

import { medianOf } from '../../bench/median.ts';

/** How much a quantity may grow from the middle third of a run to the last one. Both are added. */
export interface Bound {
  readonly factor: number;
  readonly plus: number;
}

/** The two medians, and the verdict. */
export interface Flatness {
  readonly middle: number;
  readonly last: number;
  /** The largest allowed median of the last third. */
  readonly allowed: number;
  readonly isFlat: boolean;
}

/** The fewest samples in a third from which anything follows. */
const fewestSamples = 3;

/**
 * Compares the thirds. The first third is the warm-up. Medians leave out what lasts for a while, such as a worker that starts or a
 * machine that is busy. Returns undefined where there are too few samples.
 */
export function flatnessOf(samples: readonly number[], { factor, plus }: Bound): Flatness | undefined {
  const third = Math.floor(samples.length / 3);
  if (third < fewestSamples) return undefined;
  const middle = medianOf(samples.slice(third, 2 * third));
  const last = medianOf(samples.slice(2 * third));
  if (middle === undefined || last === undefined) return undefined;
  const allowed = middle * factor + plus;
  return { middle, last, allowed, isFlat: last <= allowed };
}
