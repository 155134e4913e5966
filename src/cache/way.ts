/** The way of a request that is explained: decided by the functions that decide about a request that is answered. */

import type { Span } from '../bytes/span.ts';
import type { Fields } from '../http/fields.ts';
import { readRequestDirectives } from '../semantics/cache-control.ts';
import { type CacheStatus, type ForwardReason, formatCacheStatus } from '../semantics/cache-status.ts';
import { formatRange } from '../semantics/range.ts';
import { conditionalFields } from '../semantics/revalidation.ts';
import type { StoredEntry } from '../store/store.ts';
import type { UseCounts } from './admission.ts';
import { generationStatus, hitStatus, partialStatus, relayStatus } from './answers.ts';
import { isHead, isOnlyIfCached, passedFields, selectingLines } from './asked.ts';
import { termsOf } from './chosen.ts';
import { decideCourse, type FetchPlan, type KeyFacts, type StoredPlan } from './course.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Decision, OriginQuestion } from './explanation.ts';
import type { Flights } from './flights.ts';
import { type Held, heldEntry, heldGeneration } from './held.ts';
import type { Inquiry } from './inquiry.ts';
import { mayTakeAlong, selectFlight } from './join.ts';
import { selectPart } from './land-part.ts';
import { isBeingValidated } from './meanwhile.ts';
import { decideBypass, planAnswer } from './plan.ts';
import { isPresent } from './presence.ts';

/** What of a cache is looked at. */
export type LookedAt = Pick<ExchangeContext, 'store' | 'clock' | 'unshared' | 'refusals'> & {
  readonly flights: Flights;
  readonly uses: UseCounts;
};

/** A decision, and what it is about. */
export interface Way {
  readonly decision: Decision;
  readonly question?: OriginQuestion | undefined;
  readonly held?: Held | undefined;
  /** What the response would be made from; undefined where only the origin's answer will tell. */
  readonly source?: Held | undefined;
  /** The bytes of a fragment that are the answer, as offsets in the whole. */
  readonly fragmentSpan?: Span | undefined;
}

const onlyIfCached: Decision = { kind: 'refuse', reason: 'only-if-cached' };

/** Walks the way of a request, as far as nothing is changed by it. */
export class WayFinder {
  readonly #parts: LookedAt;
  readonly #inquiry: Inquiry;
  readonly #now: number;
  readonly #facts: KeyFacts;

  constructor(parts: LookedAt, inquiry: Inquiry, now: number) {
    const { key } = inquiry;
    this.#parts = parts;
    this.#inquiry = inquiry;
    this.#now = now;
    this.#facts = { unshared: () => parts.unshared.why(key, now), uses: () => parts.uses.count(key) + 1 };
  }

  /** The way, where these entries are stored under the key. */
  async find(entries: readonly StoredEntry[]): Promise<Way> {
    const inquiry = this.#inquiry;
    const bypass = decideBypass(inquiry);
    if (bypass !== undefined) return this.#pass(bypass, bypass);
    const course = decideCourse(planAnswer(entries, inquiry, this.#now), inquiry, this.#facts);
    switch (course.kind) {
      case 'stored':
        return course.plan.kind === 'hit' ? await this.#reuse(course.plan) : await this.#reuseFragment(course.plan);
      case 'refuse':
        return { decision: onlyIfCached };
      case 'pass':
        return this.#pass(course.plan.reason, course.reason);
      case 'fetch':
        return await this.#fetch(course.plan, course.isAlone);
    }
  }

  async #reuse(plan: Extract<StoredPlan, { kind: 'hit' }>): Promise<Way> {
    const { entry, ttlMs } = plan;
    const held = await this.#hold(entry);
    const question = this.#isValidated(plan) ? this.#validation(entry) : undefined;
    const hit = { decision: hitDecision(plan, this.#inquiry), held, source: held, question };
    if (entry.isComplete || isHead(this.#inquiry)) return hit;
    if (this.#parts.flights.holderOf(entry.key, entry.generation) === 'held') {
      return this.#pass('uri-miss', 'store-unavailable');
    }
    if (isPresent(held, this.#inquiry, this.#now)) return hit;
    if (isOnlyIfCached(this.#inquiry)) return { decision: onlyIfCached, held };
    const cacheStatus = formatCacheStatus(partialStatus(false, ttlMs));
    return { ...hit, decision: { kind: 'complete', reason: 'partial', forwardReason: 'partial', cacheStatus } };
  }

  #isValidated({ entry, isValidated }: Extract<StoredPlan, { kind: 'hit' }>): boolean {
    const flights = this.#parts.flights.of(entry.key);
    return isValidated && this.#facts.unshared() === undefined && !isBeingValidated(flights, entry, this.#inquiry);
  }

  async #reuseFragment({ entry, ttlMs, span }: Extract<StoredPlan, { kind: 'fragment' }>): Promise<Way> {
    const { start = 0 } = entry.metadata.fragment ?? {};
    const held = await this.#hold(entry);
    return {
      decision: { kind: 'hit', reason: 'fragment', cacheStatus: formatCacheStatus(hitStatus(ttlMs)) },
      held,
      source: held,
      fragmentSpan: span ?? { start, end: start + entry.sizeBytes },
    };
  }

  async #fetch(plan: FetchPlan, isAlone: boolean): Promise<Way> {
    const inquiry = this.#inquiry;
    const held = plan.kind === 'revalidate' ? await this.#hold(plan.entry) : undefined;
    const flights = this.#parts.flights.of(inquiry.key).filter(({ generation }) => {
      return generation === undefined || mayTakeAlong(generation.response, inquiry, this.#now);
    });
    const flight = isAlone
      ? undefined
      : selectFlight(flights, inquiry, plan, this.#now, this.#parts.unshared.isBound(inquiry.key, this.#now));
    if (flight !== undefined) {
      const { generation } = flight;
      if (generation === undefined) return { decision: this.#fetchDecision('join', plan), held };
      const status = generationStatus(generation, plan.reason, true);
      const joined = heldGeneration(generation);
      return { decision: this.#fetchDecision('join', plan, status), held: joined, source: joined };
    }
    if (isHead(inquiry)) {
      const { decision, question } = this.#pass(plan.reason, 'method');
      // Where the origin fails it gets what a GET would.
      const { serveStaleUntil } = this.#fetchDecision(plan.kind, plan);
      return { decision: { ...decision, serveStaleUntil }, question, held };
    }
    const question = plan.kind === 'revalidate' ? this.#validation(plan.entry) : this.#fill();
    // What cannot be validated is fetched anew.
    const source = question.fields.length === 0 ? undefined : held;
    return { decision: this.#fetchDecision(plan.kind, plan), held, source, question };
  }

  #fetchDecision(
    kind: 'join' | FetchPlan['kind'],
    plan: FetchPlan,
    status: CacheStatus = { fwd: plan.reason },
  ): Decision {
    const common = { kind, forwardReason: plan.reason, cacheStatus: formatCacheStatus(status) };
    if (plan.kind === 'fill') return { ...common, reason: plan.reason };
    const { metadata } = plan.entry;
    const { ban, demand } = termsOf(metadata, this.#inquiry, this.#now);
    const isOutdated = demand === undefined && metadata.isInvalid === true;
    return {
      ...common,
      reason: ban === undefined ? (isOutdated ? 'invalid' : plan.reason) : 'response',
      directive: ban ?? demand,
      serveStaleUntil: plan.serveStaleUntil > this.#now ? plan.serveStaleUntil : undefined,
    };
  }

  #pass(forwardReason: ForwardReason, reason: string): Way {
    const { request, originFields } = this.#inquiry;
    const cacheStatus = formatCacheStatus(relayStatus(forwardReason, reason));
    return {
      decision: { kind: 'pass', reason, forwardReason, cacheStatus },
      question: this.#question(request.method, selectingLines(passedFields(originFields))),
    };
  }

  /** An entry, as those know it who have it open. */
  async #hold(entry: StoredEntry): Promise<Held> {
    const holder = entry.isComplete ? undefined : this.#parts.flights.holderOf(entry.key, entry.generation);
    const generation = holder === 'held' ? undefined : holder?.generation;
    return generation === undefined ? await heldEntry(this.#parts, this.#inquiry, entry) : heldGeneration(generation);
  }

  #validation({ metadata }: StoredEntry): OriginQuestion {
    return this.#question('GET', conditionalFields(metadata));
  }

  #fill(): OriginQuestion {
    const part = selectPart(this.#inquiry, this.#parts.store.blockSizeBytes);
    return this.#question('GET', part === undefined ? [] : [['range', formatRange([part.spec])]]);
  }

  #question(method: string, fields: Fields): OriginQuestion {
    return { method, target: this.#inquiry.originTarget, fields };
  }
}

function hitDecision(
  { entry, ttlMs, isValidated }: Extract<StoredPlan, { kind: 'hit' }>,
  { request, policy }: Inquiry,
): Decision {
  const cacheStatus = formatCacheStatus(hitStatus(ttlMs));
  if (isValidated) return { kind: 'stale-while-revalidate', reason: 'stale-while-revalidate', cacheStatus };
  const kind = ttlMs < 0 ? 'stale' : 'hit';
  if (entry.pinnedUntil !== undefined) return { kind, reason: 'pinned', cacheStatus };
  if (kind === 'stale') {
    // Within its time of stale-while-revalidate it is used, but not validated, for who wants nothing to be asked.
    const { maxStale } = readRequestDirectives(request.fields, policy);
    return { kind, reason: 'request', directive: maxStale === undefined ? 'only-if-cached' : 'max-stale', cacheStatus };
  }
  return { kind, reason: 'fresh', cacheStatus };
}
