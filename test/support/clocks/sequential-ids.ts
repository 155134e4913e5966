/** Predictable ids for tests, in ascending order. */

/** Returns a function that returns `0000000001`, `0000000002`, … */
export function sequentialIds(): () => string {
  let last = 0;
  return () => {
    last += 1;
    return String(last).padStart(10, '0');
  };
}
