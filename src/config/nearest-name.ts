/** Guesses which name somebody meant. */

import leven from 'leven';

/**
 * The known name that is nearest to a mistyped one, or undefined when none is near: one edit for each three letters, and
 * letter case does not count. A name of which only the beginning was given is near too, such as `maxSize` of `maxSizeBytes`.
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
