/** How many requests may be sent again: a share of those of late, so that an origin in trouble is not asked ever more. */

/** The time that counts as of late, in milliseconds. */
const windowMs = 10_000;

/** So many in that time may be sent again besides, so that a quiet route is not left without. */
const freeResends = 10;

interface Count {
  requests: number;
  resends: number;
}

/** Counts in windows: the present one, and as much of the one before as lies within the time that counts. */
export class ResendBudget {
  readonly #percent: number;
  readonly #now: () => number;
  #windowAt: number;
  #present: Count = { requests: 0, resends: 0 };
  #before: Count = { requests: 0, resends: 0 };

  constructor(percent: number, now: () => number) {
    this.#percent = percent;
    this.#now = now;
    this.#windowAt = now();
  }

  /** A request came. */
  note(): void {
    this.#move();
    this.#present.requests += 1;
  }

  /** Takes one resend out of the budget; false when it is spent. */
  take(): boolean {
    this.#move();
    const share = 1 - (this.#now() - this.#windowAt) / windowMs;
    const requests = this.#present.requests + share * this.#before.requests;
    const resends = this.#present.resends + share * this.#before.resends;
    if (resends + 1 > freeResends + (this.#percent / 100) * requests) return false;
    this.#present.resends += 1;
    return true;
  }

  #move(): void {
    const passed = this.#now() - this.#windowAt;
    if (passed >= 0 && passed < windowMs) return;
    this.#before = passed >= 0 && passed < 2 * windowMs ? this.#present : { requests: 0, resends: 0 };
    this.#present = { requests: 0, resends: 0 };
    this.#windowAt = passed >= 0 && passed < 2 * windowMs ? this.#windowAt + windowMs : this.#now();
  }
}
