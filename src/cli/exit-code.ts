/** What the exit codes of the commands mean. */

/** 0: done; 1: it could not be done here and now; 2: it was asked for wrongly. */
export const exitCode = { done: 0, failed: 1, misused: 2 } as const;
