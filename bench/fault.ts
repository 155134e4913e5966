/** What goes wrong in a benchmark: wrong bytes, misses where hits are measured, a server that does not start. Never slowness. */

/**
 * A peer did not do what was to be measured. It is a failure of the benchmark where that peer is Rangeway; another one is
 * left out, and the reason is said.
 */
export class BenchFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BenchFault';
  }
}
