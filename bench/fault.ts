/** The error of a benchmark: wrong bytes, misses where hits are measured, or a server that does not start. Slowness is no error. */

/**
 * A peer cannot run the workload, or did not do what the workload measures. If the peer is Rangeway, the benchmark fails.
 * Another peer is left out, and the message is printed as the reason.
 */
export class BenchFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BenchFault';
  }
}
