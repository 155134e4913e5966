/** Names and instants for tests that are told beforehand: each one comes after the one before it. */

/** Gives `0000000001`, `0000000002`, … */
export function sequentialIds(): () => string {
  let last = 0;
  return () => {
    last += 1;
    return String(last).padStart(10, '0');
  };
}

/** A clock in which a millisecond passes with every look at it. */
export function tickingClock(): () => number {
  let now = 1_700_000_000_000;
  return () => {
    now += 1;
    return now;
  };
}
