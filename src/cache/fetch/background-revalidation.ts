/**
 * Runs background revalidations of entries that are served stale (stale-while-revalidate, RFC 5861 §3). Each entry is validated
 * once, however many requests and processes ask for it, and on behalf of no client.
 */

import { ExpiringMap } from '../../http/collections.ts';
import { traceFields, withoutTraceFields } from '../../semantics/trace-context.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { Flight } from '../collapse/flight.ts';
import type { Flights } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import type { Lease, LeaseResult } from '../fleet.ts';
import { changedInquiry, finishAlways, type Inquiry } from '../inquiry.ts';
import { mayBeServedTo, planAnswer } from '../lookup/lookup.ts';
import type { Candidate } from './exchange.ts';

/** How long a lease that another process has is not requested again, in milliseconds: stale hits may be many. */
const ELSEWHERE_MS = 1_000;
const MAX_KEYS = 10_000;

/** Starts a flight that validates an entry. */
export type Validate = (inquiry: Inquiry, candidate: Candidate) => Flight;

/** Starts background revalidations, which belong to no request. */
export class BackgroundRevalidation {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;
  readonly #validate: Validate;
  /** Keys whose lease another process has, as far as is assumed. */
  readonly #elsewhere = new ExpiringMap<true>(MAX_KEYS);

  constructor(context: ExchangeContext, flights: Flights, validate: Validate) {
    this.#context = context;
    this.#flights = flights;
    this.#validate = validate;
  }

  /** Starts the validation of an entry, unless one is running, or a response of the key lately turned out not to be shareable. */
  begin(entry: StoredEntry, inquiry: Inquiry): void {
    if (!this.#isDue(entry, inquiry)) return;
    const right = this.#context.fleet.acquire(inquiry.key, never);
    if (right instanceof Promise) void this.#beginLater(right, entry, inquiry);
    else if (right.kind === 'ours') this.#fly(right.lease, entry, inquiry);
  }

  /** Never rejects. */
  async #beginLater(acquiring: Promise<LeaseResult>, entry: StoredEntry, inquiry: Inquiry): Promise<void> {
    try {
      const right = await acquiring;
      if (right.kind === 'theirs') this.#note(inquiry.key);
      else await this.#flyIfStill(right.lease, entry, inquiry);
    } catch {
      // The lease holder or the stored entries are unknown. A later request tries again.
      this.#note(inquiry.key);
    }
  }

  /** Starts the validation if it is still due: the process that had the lease may have done it. Releases the lease. */
  async #flyIfStill(lease: Lease, entry: StoredEntry, inquiry: Inquiry): Promise<void> {
    try {
      const entries = await this.#context.store.find(inquiry.key);
      const plan = planAnswer(entries, inquiry, this.#context.clock.now());
      const isStill = plan.kind === 'hit' && plan.isValidated && plan.entry.generation === entry.generation;
      if (isStill && this.#isDue(entry, inquiry)) this.#fly(lease, entry, inquiry);
    } finally {
      lease.release();
    }
  }

  #isDue(entry: StoredEntry, inquiry: Inquiry): boolean {
    const { key } = inquiry;
    const now = this.#context.clock.now();
    if (this.#context.hitForPass.has(key, now) || this.#isElsewhere(key, now)) return false;
    return !isBeingValidated(this.#flights.of(key), entry, inquiry);
  }

  /** Starts the validation and releases the lease. The flight holds the lease by itself. */
  #fly(lease: Lease, entry: StoredEntry, inquiry: Inquiry): void {
    try {
      this.#validate(unattended(inquiry), { entry, serveStaleUntil: Number.POSITIVE_INFINITY }).abandonRelay();
    } finally {
      lease.release();
    }
  }

  #isElsewhere(key: string, now: number): boolean {
    return this.#elsewhere.get(key, now) === true;
  }

  #note(key: string): void {
    this.#elsewhere.set(key, true, this.#context.clock.now() + ELSEWHERE_MS);
  }
}

const never = new AbortController().signal;

/** Checks whether a flight of the key may show whether an entry is current, so that no second validation is needed. */
export function isBeingValidated(flights: readonly Flight[], entry: StoredEntry, inquiry: Inquiry): boolean {
  return flights.some((flight) => {
    if (flight.hasOpen(entry.generation)) return false;
    return flight.generation === undefined || mayBeServedTo(flight.generation.response, inquiry);
  });
}

/** The inquiry on behalf of no client: interim responses are dropped, and no client that leaves ends the exchange. */
function unattended(inquiry: Inquiry): Inquiry {
  const { policy, originFields } = inquiry;
  const fill = { ...policy.fill, ...finishAlways };
  return changedInquiry(inquiry, {
    originFields: withoutTraceFields(originFields),
    causedBy: traceFields(originFields),
    policy: { ...policy, fill },
    isBackground: true,
    onInterim: () => {},
  });
}
