/** How often a broken transfer is taken up again, and after which pause. */

/** The rules of a budget. */
export interface RetryRules {
  /** Attempts in a row that may fail without a byte of progress between them. */
  readonly maxAttempts: number;
  /** The first pause in milliseconds; each further one is twice as long, up to the longest. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
}

/** Counts attempts; progress gives all of them back. */
export interface RetryBudget {
  /** The pause before the next attempt, in milliseconds, or undefined when there is none left. `frontier` tells the progress. */
  next(frontier: number): number | undefined;
}

/** Creates a budget that starts at `frontier`. */
export function createRetryBudget(rules: RetryRules, frontier: number): RetryBudget {
  let reached = frontier;
  let failures = 0;
  return {
    next(now) {
      if (now > reached) failures = 0;
      reached = Math.max(reached, now);
      failures += 1;
      if (failures > rules.maxAttempts) return undefined;
      return Math.min(rules.maxDelayMs, rules.firstDelayMs * 2 ** (failures - 1));
    },
  };
}
