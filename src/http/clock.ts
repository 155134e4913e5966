/** Time as it is passed in, so that tests drive it. */

/** Tells the time and waits. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls back once after some milliseconds, unless the returned function is called before. */
  after(delayMs: number, callback: () => void): () => void;
}
