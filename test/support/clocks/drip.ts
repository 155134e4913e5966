/** A peer that keeps sending, a little at a time, while a time limit of the system runs that a test cannot move. */

/** Calls `send` every `everyMs`, until it is disposed of. Nothing waits for it: the limit ends the wait of a test. */
export function drip(send: () => void, everyMs = 20): Disposable {
  const timer = setInterval(send, everyMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
