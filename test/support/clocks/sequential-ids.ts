/** Names for tests that are told beforehand: each one comes after the one before it. */

/** Gives `0000000001`, `0000000002`, … */
export function sequentialIds(): () => string {
  let last = 0;
  return () => {
    last += 1;
    return String(last).padStart(10, '0');
  };
}
