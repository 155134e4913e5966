/**
 * How much may come from the origin for what is delivered of it. A small request can make an origin send a large body: the
 * whole for a byte, again and again under other names (RangeAmp, DSN 2020). What comes is a debt of the client that began the
 * transfer; what that client is sent pays it back, many times over, and so does time.
 */

import { ProxyError } from '../http/proxy-error.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import { Debts } from './debts.ts';

/** The rules of one route. */
export interface ShareRules {
  /** How many bytes a delivered one pays for: at least 1. */
  readonly factor: number;
  /** How many bytes a client may owe. */
  readonly freeBytes: number;
  /** How long it takes until so many are forgotten. */
  readonly windowMs: number;
}

/** How many clients are remembered. */
const MAX_CLIENTS = 100_000;

/** Of a client that owes more than this part of what it may owe, nothing goes on that no client reads. */
const UNREAD_SHARE = 1 / 2;

/** What the clients of one route owe. */
export class OriginShare {
  /** Whether any client may owe something. */
  isOwed = false;
  readonly #rules: ShareRules;
  readonly #clients: Debts;
  #onSpent: (client: string) => void = () => {};

  /** `now` gives milliseconds that never go back. */
  constructor(rules: ShareRules, now: () => number) {
    this.#rules = rules;
    this.#clients = new Debts({ maxNames: MAX_CLIENTS, now });
  }

  /** Sets the function that is called with a client that may begin nothing more, each time that it owes more. */
  watch(onSpent: (client: string) => void): void {
    this.#onSpent = onSpent;
  }

  /** Takes note of bytes that came. */
  charge(client: string, bytes: number): void {
    this.isOwed = true;
    this.#clients.add(client, this.#timeOf(bytes));
    if (this.#clients.of(client) > this.#rules.windowMs) this.#onSpent(client);
  }

  /** Takes note of bytes that were delivered. Costs nothing where nobody owes anything. */
  repay(client: string, bytes: number): void {
    if (!this.isOwed) return;
    this.#clients.repay(client, this.#timeOf(bytes * this.#rules.factor));
    this.isOwed = this.#clients.size > 0;
  }

  /** Throws `ProxyError` `origin_share_spent` where a client may begin no transfer. */
  begin(client: string): void {
    const { windowMs } = this.#rules;
    const owedMs = this.#clients.of(client);
    if (owedMs > windowMs) throw spent(owedMs - windowMs, 'the share of the client');
  }

  /** Why a transfer of a client must not go on unread; undefined where it may. */
  whyNotUnread(client: string): ProxyError | undefined {
    const mostMs = this.#rules.windowMs * UNREAD_SHARE;
    const owedMs = this.#clients.of(client);
    return owedMs > mostMs ? spent(owedMs - mostMs, 'no client reads it') : undefined;
  }

  /** How long it takes until so many bytes are forgotten. */
  #timeOf(bytes: number): number {
    const { freeBytes, windowMs } = this.#rules;
    return (bytes / freeBytes) * windowMs;
  }
}

function spent(waitMs: number, detail: string): ProxyError {
  return new ProxyError('origin_share_spent', { detail, fields: [retryAfter(waitMs)] });
}
