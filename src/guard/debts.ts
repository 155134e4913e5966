/** Who owes how much: debts that are paid back by themselves as time goes by. */

/** What a table is made with. */
export interface DebtsOptions {
  /** How many debtors are remembered. */
  readonly maxNames: number;
  /** Milliseconds that never go back. */
  readonly now: () => number;
}

/** How many debtors are looked at for each new one: the debts that are over are forgotten. */
const SWEPT_NAMES = 4;

/** Among how many the smallest debt is sought when one has to be forgotten. */
const COMPARED_NAMES = 16;

/**
 * Debts by the name of the debtor, as times: how long it takes until nothing is owed any more. One number is kept for each
 * debtor, and no timer. Where there is no room for a new one, one of the smallest debts is forgotten, not the oldest: who
 * wants a large debt forgotten has to run up as many others as there is room for, each as large.
 */
export class Debts {
  readonly #options: DebtsOptions;
  /** When each debt will be over. */
  readonly #overAt = new Map<string, number>();
  /** Goes round the table; kept, because each new iterator would have to pass what was deleted at the beginning. */
  #round: MapIterator<[string, number]>;

  constructor(options: DebtsOptions) {
    this.#options = options;
    this.#round = this.#overAt.entries();
  }

  /** How many are remembered, those whose debt is over included. */
  get size(): number {
    return this.#overAt.size;
  }

  /** What is owed, in milliseconds. */
  of(name: string): number {
    const overAt = this.#overAt.get(name);
    return overAt === undefined ? 0 : Math.max(0, overAt - this.#options.now());
  }

  /** Adds to a debt. */
  add(name: string, ms: number): void {
    const now = this.#options.now();
    const overAt = this.#overAt.get(name);
    if (overAt === undefined) this.#makeRoom(now);
    this.#overAt.set(name, Math.max(overAt ?? now, now) + ms);
  }

  /** Takes from a debt, as far as there is one: nothing is saved up. */
  repay(name: string, ms: number): void {
    const overAt = this.#overAt.get(name);
    if (overAt === undefined) return;
    if (overAt - ms <= this.#options.now()) this.#overAt.delete(name);
    else this.#overAt.set(name, overAt - ms);
  }

  #makeRoom(now: number): void {
    for (let looks = 0; looks < SWEPT_NAMES && this.#overAt.size > 0; looks += 1) {
      const [name, overAt] = this.#next();
      if (overAt <= now) this.#overAt.delete(name);
    }
    if (this.#overAt.size < this.#options.maxNames) return;
    let least = this.#next();
    for (let looks = 1; looks < COMPARED_NAMES; looks += 1) {
      const other = this.#next();
      if (other[1] < least[1]) least = other;
    }
    this.#overAt.delete(least[0]);
  }

  /** Not to be called on an empty table. */
  #next(): [string, number] {
    const next = this.#round.next();
    if (next.done !== true) return next.value;
    this.#round = this.#overAt.entries();
    return this.#next();
  }
}
