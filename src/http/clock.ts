/** Time as a dependency, so that tests control it. */

/** Tells the time and waits. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls back once after some milliseconds, unless the returned function is called before that. */
  after(delayMs: number, callback: () => void): () => void;
}
