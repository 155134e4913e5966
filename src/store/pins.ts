/** Pins: earlier generations that stay findable for a while, for clients that resume with an old validator. */

/** So many pinned generations of one key and variant are kept; the oldest goes first. */
export const maxPins = 4;

/** What may be pinned: until when, in epoch milliseconds, or undefined when it is current. */
interface Pinnable {
  readonly pinnedUntil: number | undefined;
}

/** What is found of these: those that are current, then those that are pinned and still in time. */
export function findable<T extends Pinnable>(kept: readonly T[], now: () => number): readonly T[] {
  if (kept.every((each) => each.pinnedUntil === undefined)) return kept;
  const at = now();
  const current = kept.filter((each) => each.pinnedUntil === undefined);
  return [...current, ...kept.filter(({ pinnedUntil }) => pinnedUntil !== undefined && pinnedUntil > at)];
}

/** Until when a complete generation is to be pinned: a whole number of milliseconds, or undefined for not at all. */
export function pinInstant(pinPreviousUntil: number | undefined, now: () => number): number | undefined {
  if (pinPreviousUntil === undefined || !(pinPreviousUntil > now())) return undefined;
  return Math.min(Math.ceil(pinPreviousUntil), Number.MAX_SAFE_INTEGER);
}
