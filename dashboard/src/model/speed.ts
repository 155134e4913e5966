/** The speed of a fill, and the time that it still needs. */

import type { FillStatus } from '../api-types.ts';

/** Readings that a speed is computed from, in milliseconds. */
const windowMs = 8000;

/** Before the readings of the fill itself are this far apart, its speed is the mean since its start. In milliseconds. */
const enoughMs = 2000;

interface Sample {
  readonly at: number;
  readonly bytes: number;
}

/** Measures the speed of one fill from its readings. A row of the table has its own, so that only visible fills are measured. */
export class SpeedMeter {
  readonly #startedAt: number;
  readonly #samples: Sample[] = [];

  constructor({ startedAt }: Pick<FillStatus, 'startedAt'>) {
    this.#startedAt = startedAt;
  }

  /** Adds a reading at an instant in epoch milliseconds. Returns the speed in bytes per second; undefined where it is not known yet. */
  add(at: number, bytes: number): number | undefined {
    const newest = this.#samples.at(-1);
    if (newest === undefined || at > newest.at) this.#samples.push({ at, bytes });
    while (this.#samples.length > 2 && at - (this.#samples[1] as Sample).at >= windowMs) this.#samples.shift();
    return this.#speed();
  }

  #speed(): number | undefined {
    const first = this.#samples[0] as Sample;
    const last = this.#samples.at(-1) as Sample;
    if (last.at - first.at >= enoughMs) return speedOf(first, last);
    return speedOf({ at: this.#startedAt, bytes: 0 }, last);
  }
}

function speedOf(first: Sample, last: Sample): number | undefined {
  const ms = last.at - first.at;
  return ms <= 0 ? undefined : Math.max(0, ((last.bytes - first.bytes) * 1000) / ms);
}

/** Returns the milliseconds until a fill ends at this speed. Undefined where its length or speed is not known, or it stands still. */
export function timeLeftMs(
  { sizeBytes, receivedBytes }: Pick<FillStatus, 'sizeBytes' | 'receivedBytes'>,
  bytesPerSecond: number | undefined,
): number | undefined {
  if (sizeBytes === undefined || bytesPerSecond === undefined || bytesPerSecond <= 0) return undefined;
  return (Math.max(0, sizeBytes - receivedBytes) * 1000) / bytesPerSecond;
}

/** Formats a time that is left. It is an estimate, so it is coarse: `a moment`, `12 s`, `3 min`, `2 h`, `4 d`. */
export function timeLeftText(ms: number): string {
  if (ms < 1500) return 'a moment';
  if (ms < 90_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 90 * 60_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 48 * 3_600_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}
