/** The median. */

/** Returns the median of the defined values. For an even count it is the lower of the two middle ones: a measured value. */
export function medianOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  return known[Math.floor((known.length - 1) / 2)];
}
