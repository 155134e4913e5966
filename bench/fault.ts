/** What makes a benchmark fail: wrong bytes, misses where hits are measured. Never slowness. */

/** A peer did not do what was to be measured. */
export class BenchFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BenchFault';
  }
}

/** A peer cannot do it, and its client goes without: a fault in Rangeway; another peer is left out, and said to be. */
export class Incapable extends BenchFault {
  constructor(message: string) {
    super(message);
    this.name = 'Incapable';
  }
}
