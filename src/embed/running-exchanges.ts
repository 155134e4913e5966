/** The exchanges and tunnels of an embedded Rangeway that have not ended. */

import type { After } from '../listener/timeouts.ts';

/** Something that runs, and can be cut. */
interface Running {
  breakOff(): void;
}

/** Waits for what runs when Rangeway is closed. */
export class RunningExchanges {
  readonly #running = new Set<Running>();
  readonly #after: After;
  #isClosing = false;
  #onEmpty: (() => void) | undefined;

  constructor(after: After) {
    this.#after = after;
  }

  /** Whether no further exchange may begin. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  add(exchange: Running): void {
    this.#running.add(exchange);
  }

  delete(exchange: Running): void {
    this.#running.delete(exchange);
    if (this.#running.size === 0) this.#onEmpty?.();
  }

  /** Lets no further exchange begin, waits up to `graceMs` for those that run, and cuts the rest. Returns how many were cut. */
  async close(graceMs: number): Promise<number> {
    this.#isClosing = true;
    if (this.#running.size === 0) return 0;
    const emptied = Promise.withResolvers<void>();
    this.#onEmpty = emptied.resolve;
    let cut = 0;
    const cancel = this.#after(graceMs, () => {
      cut = this.#running.size;
      for (const exchange of [...this.#running]) exchange.breakOff();
    });
    await emptied.promise;
    cancel();
    return cut;
  }
}
