/**
 * Counters for limits per client: requests per time, as leaky buckets that drain as time goes by; and requests or other things at
 * a time, in total and per client.
 */

import type { Fields } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { rateLimitFields, retryAfter } from '../../semantics/rate-limit-fields.ts';

/** At most `requests` in `seconds`, and at most `burst` of them at once. */
export interface RateRules {
  readonly requests: number;
  readonly seconds: number;
  readonly burst: number;
}

/** The decision about one request. */
interface RateDecision {
  readonly isAllowed: boolean;
  /** Requests that are still allowed at once. */
  readonly remaining: number;
  /** Milliseconds until one more request is allowed. */
  readonly nextMs: number;
}

/**
 * Decides about a request by the generic cell rate algorithm (ITU-T I.371 Annex A). A request costs the time in which the limit
 * restores one request. It is allowed where the time debt including this cost is at most the cost of a burst. `owedMs` is the debt
 * before the request. Pure and synchronous, because a hit is answered in the tick of its request.
 */
export function decideRate({ requests, seconds, burst }: RateRules, owedMs: number): RateDecision {
  const costMs = (seconds * 1000) / requests;
  const isAllowed = costsAtMost(owedMs + costMs, burst * costMs);
  const spent = (isAllowed ? owedMs + costMs : owedMs) / costMs;
  const remaining = Math.max(0, Math.floor(burst - spent + rounding));
  const nextMs = Math.max(0, (spent - (burst - remaining - 1)) * costMs);
  return { isAllowed, remaining: isAllowed ? remaining : 0, nextMs };
}

/** The tolerance for rounding errors: times are sums of many fractions. */
const rounding = 1e-6;

function costsAtMost(ms: number, limitMs: number): boolean {
  return ms <= limitMs * (1 + rounding);
}

/** The rate limit of one route. */
export class RateLimit {
  readonly #rules: RateRules;
  readonly #debts: LeakyBuckets;

  constructor(rules: RateRules, table: LeakyBucketsOptions) {
    this.#rules = rules;
    this.#debts = new LeakyBuckets(table);
  }

  /**
   * Counts a request; returns the fields that tell the client its limit. Throws `ProxyError` `rate_limited` for a request beyond the
   * limit. Such a request is not counted, so a client that keeps sending does not increase its debt.
   */
  count(client: string): Fields {
    const decision = decideRate(this.#rules, this.#debts.of(client));
    if (decision.isAllowed) return this.#add(client, decision);
    throw new ProxyError('rate_limited', { fields: [retryAfter(decision.nextMs), ...this.#fields(decision)] });
  }

  /** As `count`, but undefined for a request beyond the limit. */
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

/** The options of a table. */
interface LeakyBucketsOptions {
  /** The number of debtors that are remembered. */
  readonly maxNames: number;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
}

/** The number of debtors that are examined for each new one; debts that are over are forgotten. */
const SWEPT_NAMES = 4;

/** The number of debts that are compared when one must be forgotten: the smallest of them is. */
const COMPARED_NAMES = 16;

/**
 * Leaky buckets by the name of the debtor, as time debts: the time until nothing is owed. Each debtor costs one number, and no
 * timer. When the table is full, one of the smallest debts is forgotten, not the oldest: a client that wants a large debt forgotten
 * must fill the table with other debts that are as large.
 */
export class LeakyBuckets {
  readonly #options: LeakyBucketsOptions;
  /** When each debt will be over. */
  readonly #overAt = new Map<string, number>();
  /** Goes round the table. Kept, because a new iterator would first skip all entries deleted at the beginning. */
  #round: MapIterator<[string, number]>;

  constructor(options: LeakyBucketsOptions) {
    this.#options = options;
    this.#round = this.#overAt.entries();
  }

  /** The number of debtors that are remembered, including those whose debt is over. */
  get size(): number {
    return this.#overAt.size;
  }

  /** Returns the debt, in milliseconds. */
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

  /** Reduces a debt, at most to zero: no credit is saved up. */
  repay(name: string, ms: number): void {
    const overAt = this.#overAt.get(name);
    if (overAt === undefined) return;
    if (overAt - ms <= this.#options.now()) this.#overAt.delete(name);
    else this.#overAt.set(name, overAt - ms);
  }

  #makeRoom(now: number): void {
    // An iterator that is not moved keeps every table that the map has had since.
    if (this.#overAt.size === 0) this.#round = this.#overAt.entries();
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

  /** Must not be called on an empty table. */
  #next(): [string, number] {
    const next = this.#round.next();
    if (next.done !== true) return next.value;
    this.#round = this.#overAt.entries();
    return this.#next();
  }
}

/** Counts what each client holds at a time. A client that holds nothing takes no memory. */
export class ConcurrencyCounts {
  readonly #counts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** The number of clients that hold something. */
  get clients(): number {
    return this.#counts.size;
  }

  /** Returns how many a client holds. */
  of(client: string): number {
    return this.#counts.get(client) ?? 0;
  }

  /** Takes one for a client; returns the function that releases it. A second call of that function does nothing. */
  take(client: string): () => void;
  /** The same, where the client holds fewer than `most`; otherwise returns undefined. */
  take(client: string, most: number): (() => void) | undefined;
  take(client: string, most = Number.POSITIVE_INFINITY): (() => void) | undefined {
    const held = this.#counts.get(client) ?? 0;
    if (held >= most) return undefined;
    this.#total += 1;
    this.#counts.set(client, held + 1);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#total -= 1;
      const left = (this.#counts.get(client) ?? 0) - 1;
      if (left > 0) this.#counts.set(client, left);
      else this.#counts.delete(client);
    };
  }
}
