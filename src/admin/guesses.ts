/** Keeps tokens from being guessed, and the log from being filled with guesses. */

import { clientName } from '../guard/client-name.ts';
import { Debts } from '../guard/debts.ts';

/** So many wrong tokens at once, and one more each second, from one client. */
const burst = 20;
const costMs = 1000;

/** So many refusals are told at once, and one more each second, of all clients. */
const toldBurst = 10;

const maxClients = 10_000;

/**
 * Wrong tokens, by who has shown them. Who has shown too many is not listened to for a while: not even when the next one is
 * right, because that is what somebody who guesses would find out.
 */
export class Guesses {
  readonly #wrong: Debts;
  readonly #told: Debts;
  #untold = 0;

  /** `now` gives milliseconds that never go back. */
  constructor(now: () => number) {
    this.#wrong = new Debts({ maxNames: maxClients, now });
    this.#told = new Debts({ maxNames: 1, now });
  }

  /** How long a client has to wait until a token of its is looked at again, in milliseconds; 0 where it need not. */
  waitMs(address: string): number {
    return Math.max(0, this.#wrong.of(clientName(address)) - (burst - 1) * costMs);
  }

  /** Counts a wrong token. */
  note(address: string): void {
    this.#wrong.add(clientName(address), costMs);
  }

  /** Whether a refusal is to be told now: then how many were not told before it. Undefined where it is not. */
  tell(): { readonly untold: number } | undefined {
    if (this.#told.of('') > (toldBurst - 1) * costMs) {
      this.#untold += 1;
      return undefined;
    }
    this.#told.add('', costMs);
    const untold = this.#untold;
    this.#untold = 0;
    return { untold };
  }
}
