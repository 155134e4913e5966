/** What makes a benchmark fail: wrong bytes, misses where hits are measured. Never slowness. */

/** A peer did not do what was to be measured. */
export class BenchFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BenchFault';
  }
}
