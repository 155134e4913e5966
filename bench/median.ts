/** The middle of several figures. */

/** The middle one; of an even count, the lower one of the two in the middle, which was measured. */
export function medianOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  return known[Math.floor((known.length - 1) / 2)];
}
