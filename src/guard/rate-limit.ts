/** How many requests a client may make in a time. */

import type { Fields } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { rateLimitFields, retryAfter } from '../semantics/rate-limit-fields.ts';
import { Debts, type DebtsOptions } from './debts.ts';

/** So many requests in so many seconds, and so many of them at once. */
export interface RateRules {
  readonly requests: number;
  readonly seconds: number;
  readonly burst: number;
}

/** The decision about one request. */
export interface RateDecision {
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
  readonly #debts: Debts;

  constructor(rules: RateRules, table: DebtsOptions) {
    this.#rules = rules;
    this.#debts = new Debts(table);
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
