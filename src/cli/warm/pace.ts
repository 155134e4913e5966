/** Keeps requests and bytes below a rate. */

/** The limits; undefined where there is none. */
export interface PaceLimits {
  readonly requestsPerSecond?: number | undefined;
  readonly bytesPerSecond?: number | undefined;
}

/** The time, in milliseconds. */
export interface PaceClock {
  now(): number;
  /** Resolves after a time, or earlier once the signal aborts. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

/**
 * Spaces requests evenly, and lets the next one wait until the bytes so far are paid for. How many bytes a URL has is known once
 * it is fetched: the rate of bytes holds on average, not within one URL.
 */
export class Pacer {
  readonly #limits: PaceLimits;
  readonly #clock: PaceClock;
  #nextAt = Number.NEGATIVE_INFINITY;
  #paidAt = Number.NEGATIVE_INFINITY;

  constructor(limits: PaceLimits, clock: PaceClock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Resolves when the next request may begin, or once the signal aborts. */
  async turn(signal: AbortSignal): Promise<void> {
    const { requestsPerSecond } = this.#limits;
    const now = this.#clock.now();
    const startAt = Math.max(now, this.#nextAt);
    if (requestsPerSecond !== undefined) this.#nextAt = startAt + 1000 / requestsPerSecond;
    if (startAt > now) await this.#clock.wait(startAt - now, signal);
    // Another request may be charged for while this one waits.
    while (!signal.aborted && this.#paidAt > this.#clock.now()) {
      await this.#clock.wait(this.#paidAt - this.#clock.now(), signal);
    }
  }

  /** Charges for bytes that were fetched. */
  charge(bytes: number): void {
    const { bytesPerSecond } = this.#limits;
    if (bytesPerSecond === undefined) return;
    this.#paidAt = Math.max(this.#clock.now(), this.#paidAt) + (1000 * bytes) / bytesPerSecond;
  }
}

/** Parses a rate of requests: `20`, `20/s`, `100/min`, `1000/h`. Returns requests per second; undefined for other text. */
export function parseRate(text: string): number | undefined {
  const [, count = '', unit = 's'] = /^(\d{1,9}(?:\.\d{1,3})?)(?:\/(s|min|h))?$/.exec(text) ?? [];
  const seconds = { s: 1, min: 60, h: 3600 }[unit] ?? 1;
  const rate = Number(count) / seconds;
  return count !== '' && rate > 0 ? rate : undefined;
}
