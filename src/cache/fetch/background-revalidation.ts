/**
 * Validates in the background what is served stale (stale-while-revalidate, RFC 5861 §3): once, however many requests and
 * processes ask for it, and on behalf of no client.
 */

import { traceFields, withoutTraceFields } from '../../semantics/trace-context.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { Flight } from '../collapse/flight.ts';
import type { Flights } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import type { Lease, Right } from '../fleet.ts';
import { changedInquiry, finishAlways, type Inquiry } from '../inquiry.ts';
import { isFor, planAnswer } from '../lookup/lookup.ts';
import type { Candidate } from './exchange.ts';

/** Where another process has the lease of a key, it is not asked for again so soon, in milliseconds: stale hits may be many. */
const ELSEWHERE_MS = 1_000;
const MAX_KEYS = 10_000;

/** Starts a flight for an entry. */
export type Validate = (inquiry: Inquiry, candidate: Candidate) => Flight;

/** The validations that belong to no request. */
export class BackgroundRevalidation {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;
  readonly #validate: Validate;
  /** Keys that are looked after elsewhere, and until when that is believed, in epoch milliseconds. */
  readonly #elsewhere = new Map<string, number>();

  constructor(context: ExchangeContext, flights: Flights, validate: Validate) {
    this.#context = context;
    this.#flights = flights;
    this.#validate = validate;
  }

  /** Has an entry validated, unless that is being done; not so soon again where what comes cannot be kept. */
  begin(entry: StoredEntry, inquiry: Inquiry): void {
    if (!this.#isDue(entry, inquiry)) return;
    const right = this.#context.fleet.acquire(inquiry.key, never);
    if (right instanceof Promise) void this.#beginLater(right, entry, inquiry);
    else if (right.kind === 'ours') this.#fly(right.lease, entry, inquiry);
  }

  /** Never rejects. */
  async #beginLater(asked: Promise<Right>, entry: StoredEntry, inquiry: Inquiry): Promise<void> {
    try {
      const right = await asked;
      if (right.kind === 'theirs') this.#note(inquiry.key);
      else await this.#flyIfStill(right.lease, entry, inquiry);
    } catch {
      // Nobody can tell who has the lease, or what is stored: it is done when somebody asks again.
      this.#note(inquiry.key);
    }
  }

  /** Whoever had the lease may have done it. Gives the lease back. */
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
    if (this.#context.unshared.has(key, now) || this.#isElsewhere(key, now)) return false;
    return !isBeingValidated(this.#flights.of(key), entry, inquiry);
  }

  /** Gives the lease back; the flight has it by itself. */
  #fly(lease: Lease, entry: StoredEntry, inquiry: Inquiry): void {
    try {
      this.#validate(unattended(inquiry), { entry, serveStaleUntil: Number.POSITIVE_INFINITY }).abandonRelay();
    } finally {
      lease.release();
    }
  }

  #isElsewhere(key: string, now: number): boolean {
    const until = this.#elsewhere.get(key);
    if (until === undefined || now < until) return until !== undefined;
    this.#elsewhere.delete(key);
    return false;
  }

  #note(key: string): void {
    this.#elsewhere.set(key, this.#context.clock.now() + ELSEWHERE_MS);
    const [oldest] = this.#elsewhere.keys();
    if (this.#elsewhere.size > MAX_KEYS && oldest !== undefined) this.#elsewhere.delete(oldest);
  }
}

const never = new AbortController().signal;

/** Whether one of the flights of its key may bring what tells whether an entry is current: it is not asked for twice then. */
export function isBeingValidated(flights: readonly Flight[], entry: StoredEntry, inquiry: Inquiry): boolean {
  return flights.some((flight) => {
    if (flight.hasOpen(entry.generation)) return false;
    return flight.generation === undefined || isFor(flight.generation.response, inquiry);
  });
}

/** The same question, asked on nobody's behalf: nobody is told of what comes before the response, or ends it by leaving. */
function unattended(inquiry: Inquiry): Inquiry {
  const { policy, originFields } = inquiry;
  const fill = { ...policy.fill, ...finishAlways };
  return changedInquiry(inquiry, {
    originFields: withoutTraceFields(originFields),
    causedBy: traceFields(originFields),
    policy: { ...policy, fill },
    isUnattended: true,
    onInterim: () => {},
  });
}
