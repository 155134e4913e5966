/** Finds the name that a mistyped one probably means. */

import leven from 'leven';

/**
 * Returns the known name nearest to a mistyped one; undefined where none is near. One edit for each three letters is near; letter
 * case does not count. A prefix of a name is near too, such as `maxSize` of `maxSizeBytes`.
 */
export function nearestName(given: string, known: Iterable<string>): string | undefined {
  const wanted = given.toLowerCase();
  let nearest: string | undefined;
  let nearestDistance = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const name of known) {
    const candidate = name.toLowerCase();
    const distance = wanted.length >= 3 && candidate.startsWith(wanted) ? 1 : leven(wanted, candidate);
    if (distance >= nearestDistance) continue;
    nearest = name;
    nearestDistance = distance;
  }
  return nearest;
}
