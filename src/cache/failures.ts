/** Which transfers of a generation were given up, so that those who counted on them learn of it, and nobody else. */

import type { Span } from '../bytes/span.ts';
import type { ProxyError } from '../http/proxy-error.ts';

/** How many are remembered: who waits for one that is older has been told. */
const MAX_FAILURES = 64;

interface Failure {
  /** What the transfer would have brought. */
  readonly span: Span;
  readonly error: ProxyError;
}

/** The failures of one generation, in their order. */
export class Failures {
  readonly #latest: Failure[] = [];
  #count = 0;

  /** How many there have been in all. */
  get count(): number {
    return this.#count;
  }

  /** Takes note of one. */
  add(failure: Failure): void {
    this.#latest.push(failure);
    this.#count += 1;
    if (this.#latest.length > MAX_FAILURES) this.#latest.shift();
  }

  /** Why the byte at `offset` did not come, by a transfer that failed after the first `since` ones; undefined if it is not known. */
  find(offset: number, since: number): ProxyError | undefined {
    const known = this.#latest.slice(Math.max(0, this.#latest.length - (this.#count - since)));
    return known.findLast(({ span }) => span.start <= offset && offset < span.end)?.error;
  }
}
