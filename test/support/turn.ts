/** One turn of the event loop: all that follows from what has happened so far, without timers or I/O, has happened then. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
