/**
 * Limits by client: requests per time as leaky buckets, which drain by themselves as time goes by, and how many of something there
 * may be at a time, in all and for each client.
 */

import type { Fields } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { rateLimitFields, retryAfter } from '../../semantics/rate-limit-fields.ts';

/** So many requests in so many seconds, and so many of them at once. */
export interface RateRules {
  readonly requests: number;
  readonly seconds: number;
  readonly burst: number;
}

/** The decision about one request. */
interface RateDecision {
  readonly isAllowed: boolean;
  /** Requests that may follow at once. */
  readonly remaining: number;
  /** Until one more may. */
  readonly nextMs: number;
}

/**
 * The generic cell rate algorithm (ITU-T I.371 Annex A): a request costs the time in which one comes back, and is allowed as
 * long as what is owed with it is no more than a burst costs. `owedMs` is what is owed before it. Pure, and in one step,
 * because a hit is answered in the tick in which it is asked for.
 */
export function decideRate({ requests, seconds, burst }: RateRules, owedMs: number): RateDecision {
  const costMs = (seconds * 1000) / requests;
  const isAllowed = costsAtMost(owedMs + costMs, burst * costMs);
  const spent = (isAllowed ? owedMs + costMs : owedMs) / costMs;
  const remaining = Math.max(0, Math.floor(burst - spent + rounding));
  const nextMs = Math.max(0, (spent - (burst - remaining - 1)) * costMs);
  return { isAllowed, remaining: isAllowed ? remaining : 0, nextMs };
}

/** Times are sums of many fractions. */
const rounding = 1e-6;

function costsAtMost(ms: number, limitMs: number): boolean {
  return ms <= limitMs * (1 + rounding);
}

/** The limit of one route. */
export class RateLimit {
  readonly #rules: RateRules;
  readonly #debts: LeakyBuckets;

  constructor(rules: RateRules, table: LeakyBucketsOptions) {
    this.#rules = rules;
    this.#debts = new LeakyBuckets(table);
  }

  /**
   * Counts a request, and gives the fields that tell the client where it stands. Throws `ProxyError` `rate_limited` for one
   * that is too many, which then is not counted: who goes on asking comes no further into debt.
   */
  count(client: string): Fields {
    const decision = decideRate(this.#rules, this.#debts.of(client));
    if (decision.isAllowed) return this.#add(client, decision);
    throw new ProxyError('rate_limited', { fields: [retryAfter(decision.nextMs), ...this.#fields(decision)] });
  }

  /** As `count`, but undefined for one that is too many. */
  countAtOnce(client: string): Fields | undefined {
    const decision = decideRate(this.#rules, this.#debts.of(client));
    return decision.isAllowed ? this.#add(client, decision) : undefined;
  }

  #add(client: string, decision: RateDecision): Fields {
    const { requests, seconds } = this.#rules;
    this.#debts.add(client, (seconds * 1000) / requests);
    return this.#fields(decision);
  }

  #fields({ remaining, nextMs }: RateDecision): Fields {
    const { requests, seconds } = this.#rules;
    return rateLimitFields({ requests, seconds, remaining, nextSeconds: nextMs / 1000 });
  }
}

/** What a table is made with. */
interface LeakyBucketsOptions {
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
 * Leaky buckets by the name of the debtor, as times: how long it takes until nothing is owed any more. One number is kept for each
 * debtor, and no timer. Where there is no room for a new one, one of the smallest debts is forgotten, not the oldest: who
 * wants a large debt forgotten has to run up as many others as there is room for, each as large.
 */
export class LeakyBuckets {
  readonly #options: LeakyBucketsOptions;
  /** When each debt will be over. */
  readonly #overAt = new Map<string, number>();
  /** Goes round the table; kept, because each new iterator would have to pass what was deleted at the beginning. */
  #round: MapIterator<[string, number]>;

  constructor(options: LeakyBucketsOptions) {
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

/** A count for each client that has one; those without cost nothing. */
export class ConcurrencyCounts {
  readonly #counts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** How many clients have one. */
  get clients(): number {
    return this.#counts.size;
  }

  /** How many a client has. */
  of(client: string): number {
    return this.#counts.get(client) ?? 0;
  }

  /** Takes one, and gives the function that gives it back; a second call of that does nothing. */
  take(client: string): () => void {
    this.#total += 1;
    this.#counts.set(client, this.of(client) + 1);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#total -= 1;
      const left = this.of(client) - 1;
      if (left > 0) this.#counts.set(client, left);
      else this.#counts.delete(client);
    };
  }
}
