/**
 * Explains how the cache would answer a request. Sends nothing to the origin, starts nothing, and counts no use. The decisions
 * come from the same functions that decide for real requests.
 */

import { type Span, SpanSet, spanOfBlock, spanSize } from '../../bytes/span.ts';
import { type Fields, fieldValue } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { NominatedField, StoredResponse } from '../../http/stored-response.ts';
import { readRequestDirectives } from '../../semantics/cache-control.ts';
import { type CacheStatus, type ForwardReason, formatCacheStatus } from '../../semantics/cache-status.ts';
import { lifetimeField } from '../../semantics/freshness.ts';
import { parseDateField } from '../../semantics/http-date.ts';
import { isSpellingTag } from '../../semantics/invalidation.ts';
import { isForAll, type ReuseTerms, reuseTerms } from '../../semantics/reuse.ts';
import {
  conditionalFields,
  effectiveEntityTag,
  parseEntityTag,
  strongLastModified,
  strongValidator,
} from '../../semantics/validator.ts';
import { nominatedFields, selectedValues } from '../../semantics/vary.ts';
import type { StoredEntry } from '../../store/store.ts';
import { generationStatus, hitStatus, partialStatus, relayStatus } from '../answers/answers.ts';
import { isPresent } from '../answers/stored-answers.ts';
import type { Flight } from '../collapse/flight.ts';
import { type Flights, mayShareWithWaiter, roundName, selectFlight } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import { isBeingValidated } from '../fetch/background-revalidation.ts';
import { partFields, selectPart } from '../fetch/exchange.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';
import type { Outlook } from '../fill/fetch-decision.ts';
import { createPartSource } from '../fill/part-source.ts';
import {
  fillFields,
  growsOpenRanges,
  hasRange,
  type Inquiry,
  isAskedOnce,
  isHead,
  isOnlyIfCached,
  isOpenEnded,
  passedFields,
  rangeAndPreconditionFields,
} from '../inquiry.ts';
import type { UseCounts } from '../lookup/hit-for-pass.ts';
import {
  decideBypass,
  decideNextStep,
  type FetchPlan,
  forwardReasonOf,
  isFragment,
  isUsable,
  type KeyFacts,
  planAnswer,
  RequestMatcher,
  type StoredPlan,
} from '../lookup/lookup.ts';
import type {
  ChosenExplanation,
  Decision,
  EntryExplanation,
  Explained,
  FlightExplanation,
  FreshnessExplanation,
  OriginQuestion,
  ValidatorsExplanation,
} from './explanation.ts';

/** The largest number of stored responses that an explanation lists. */
const MAX_ENTRIES = 50;

/** Explains how the cache would answer a request now. */
export async function explainInquiry(parts: ExplainSources, inquiry: Inquiry): Promise<Explained> {
  const { store, clock, flights, notStoredReasons } = parts;
  const { key, rangeSupport } = inquiry;
  const stored = await store.find(key);
  const now = clock.now();
  const { decision, question, snapshot, source, fragmentSpan } = await new DecisionExplainer(parts, inquiry, now).find(
    stored,
  );
  const entries = stored.slice(0, MAX_ENTRIES);
  const refusal = notStoredReasons.last(key);
  const matcher = new RequestMatcher(inquiry);
  const { isKnown, mayRequestPart: mayAsk, mayRequestFurtherPart: mayAskMore } = rangeSupport;
  return {
    explanation: {
      key,
      decision,
      originQuestion: question,
      variant: explainVariant(entries, snapshot, inquiry),
      entryCount: stored.length,
      entries: entries.map((entry) => explainEntry(entry, snapshot, matcher, now)),
      chosen: snapshot === undefined ? undefined : explainChosen(snapshot, inquiry, now),
      flights: flights.of(key).map(explainFlight),
      origin: { isKnown, mayAsk, mayAskMore, refusal: rangeSupport.refusal?.reason, manner: mannerOf(inquiry) },
      notStored: refusal === undefined ? undefined : { ...refusal, agoMs: now - refusal.at },
    },
    subject: source === undefined ? undefined : { response: source.response, outlook: source.outlook, fragmentSpan },
  };
}

function mannerOf(inquiry: Inquiry): 'once' | 'parts-only' | undefined {
  if (inquiry.rangeSupport.givesPartsOnly) return 'parts-only';
  return isOpenEnded(inquiry) && isAskedOnce(inquiry) ? 'once' : undefined;
}

/** Lists the request fields that select a variant, with the values of this request. The values of other clients are secret. */
function explainVariant(
  entries: readonly StoredEntry[],
  snapshot: Snapshot | undefined,
  { originFields, policy }: Inquiry,
): readonly NominatedField[] {
  const responses = [
    ...entries.map(({ metadata }) => metadata),
    ...(snapshot === undefined ? [] : [snapshot.response]),
  ];
  const names = responses.flatMap(({ nominated }) => nominated.map(([name]) => name)).filter((name) => name !== '*');
  const asked = fillFields(originFields);
  return [...nominatedFields([], asked, names), ...(selectedValues(asked, policy.key) ?? [])];
}

function explainEntry(
  entry: StoredEntry,
  snapshot: Snapshot | undefined,
  matcher: RequestMatcher,
  now: number,
): EntryExplanation {
  const { generation, metadata, sizeBytes, isComplete, pinnedUntil } = entry;
  return {
    generation,
    status: metadata.status,
    sizeBytes,
    isComplete,
    isFragment: isFragment(metadata),
    pinnedUntil,
    differs: matcher.differences(metadata),
    isUsable: isUsable(entry, now),
    isChosen: generation === snapshot?.generation,
  };
}

function explainFlight({ generation }: Flight): FlightExplanation {
  if (generation === undefined) return { hasLanded: false, receivedBytes: 0, readers: 0, transfers: [] };
  const { name, received, readerCount, outlook } = generation;
  const transfers = outlook.fills.map(({ frontier, limit }) => {
    return { at: frontier, end: Number.isFinite(limit) ? limit : undefined };
  });
  return {
    hasLanded: true,
    generation: name,
    sizeBytes: outlook.sizeBytes,
    receivedBytes: received,
    readers: readerCount,
    transfers,
  };
}

/** The parts of a cache that an explanation reads. */
type ExplainSources = Pick<ExchangeContext, 'store' | 'clock' | 'hitForPass' | 'notStoredReasons'> & {
  readonly flights: Flights;
  readonly rounds: { isBusy(name: string): boolean };
  readonly uses: UseCounts;
};

/** A decision, and the data that it is based on. */
interface ExplainedDecision {
  readonly decision: Decision;
  readonly question?: OriginQuestion | undefined;
  readonly snapshot?: Snapshot | undefined;
  /** The response that would be served; undefined where that depends on the origin's answer. */
  readonly source?: Snapshot | undefined;
  /** The bytes of a fragment that would be sent, as offsets in the whole. */
  readonly fragmentSpan?: Span | undefined;
}

const onlyIfCached: Decision = { kind: 'refuse', reason: 'only-if-cached' };

/** Follows the steps that answer a request, without changing anything. */
class DecisionExplainer {
  readonly #parts: ExplainSources;
  readonly #inquiry: Inquiry;
  readonly #now: number;
  readonly #facts: KeyFacts;

  constructor(parts: ExplainSources, inquiry: Inquiry, now: number) {
    const { key } = inquiry;
    this.#parts = parts;
    this.#inquiry = inquiry;
    this.#now = now;
    this.#facts = { unshared: () => parts.hitForPass.why(key, now), uses: () => parts.uses.count(key) + 1 };
  }

  /** Finds the decision; `entries` are the stored entries of the key. */
  async find(entries: readonly StoredEntry[]): Promise<ExplainedDecision> {
    const inquiry = this.#inquiry;
    const bypass = decideBypass(inquiry);
    if (bypass !== undefined) return this.#pass(forwardReasonOf(bypass), bypass);
    const step = decideNextStep(planAnswer(entries, inquiry, this.#now), inquiry, this.#facts);
    switch (step.kind) {
      case 'stored':
        return step.plan.kind === 'hit' ? await this.#reuse(step.plan) : await this.#reuseFragment(step.plan);
      case 'refuse':
        return { decision: onlyIfCached };
      case 'pass':
        return this.#pass(step.plan.reason, step.reason);
      case 'fetch':
        return await this.#fetch(step.plan, step.isAlone);
    }
  }

  async #reuse(plan: Extract<StoredPlan, { kind: 'hit' }>): Promise<ExplainedDecision> {
    const { entry, ttlMs } = plan;
    const snapshot = await this.#snapshot(entry);
    const question = this.#isValidated(plan) ? this.#validation(entry) : undefined;
    const hit = { decision: hitDecision(plan, this.#inquiry), snapshot, source: snapshot, question };
    if (entry.isComplete || isHead(this.#inquiry)) return hit;
    if (this.#parts.flights.holderOf(entry.key, entry.generation) === 'held') {
      return this.#pass('uri-miss', 'store-unavailable');
    }
    if (isPresent(snapshot, this.#inquiry, this.#now)) return hit;
    if (isOnlyIfCached(this.#inquiry)) return { decision: onlyIfCached, snapshot };
    const cacheStatus = formatCacheStatus(partialStatus(false, ttlMs));
    return { ...hit, decision: { kind: 'complete', reason: 'partial', forwardReason: 'partial', cacheStatus } };
  }

  #isValidated({ entry, isValidated }: Extract<StoredPlan, { kind: 'hit' }>): boolean {
    const flights = this.#parts.flights.of(entry.key);
    return isValidated && this.#facts.unshared() === undefined && !isBeingValidated(flights, entry, this.#inquiry);
  }

  async #reuseFragment({ entry, ttlMs, span }: Extract<StoredPlan, { kind: 'fragment' }>): Promise<ExplainedDecision> {
    const { start = 0 } = entry.metadata.fragment ?? {};
    const snapshot = await this.#snapshot(entry);
    return {
      decision: { kind: 'hit', reason: 'fragment', cacheStatus: formatCacheStatus(hitStatus(ttlMs)) },
      snapshot,
      source: snapshot,
      fragmentSpan: span ?? { start, end: start + entry.sizeBytes },
    };
  }

  async #fetch(plan: FetchPlan, isAlone: boolean): Promise<ExplainedDecision> {
    const inquiry = this.#inquiry;
    const snapshot = plan.kind === 'revalidate' ? await this.#snapshot(plan.entry) : undefined;
    const flights = this.#parts.flights.of(inquiry.key).filter(({ generation }) => {
      return generation === undefined || mayShareWithWaiter(generation.response, inquiry, this.#now);
    });
    const flight = isAlone
      ? undefined
      : selectFlight(flights, inquiry, plan, this.#now, this.#parts.hitForPass.isBound(inquiry.key, this.#now));
    if (flight !== undefined) {
      const { generation } = flight;
      if (generation === undefined) return { decision: this.#fetchDecision('join', plan), snapshot };
      const status = generationStatus(generation, plan.reason, true);
      const joined = generationSnapshot(generation);
      return { decision: this.#fetchDecision('join', plan, status), snapshot: joined, source: joined };
    }
    // The request waits for the exchange that runs, and then for one that is sent after it came.
    const round = plan.kind === 'revalidate' && !isAlone ? roundName(inquiry, plan) : undefined;
    if (round !== undefined && this.#parts.rounds.isBusy(round) && this.#facts.unshared() === undefined) {
      return { decision: this.#fetchDecision('join', plan), snapshot };
    }
    if (isHead(inquiry)) {
      const { decision, question } = this.#pass(plan.reason, 'method');
      // Where the origin fails, a HEAD gets the stale response that a GET would get.
      const { serveStaleUntil } = this.#fetchDecision(plan.kind, plan);
      return { decision: { ...decision, serveStaleUntil }, question, snapshot };
    }
    const question = plan.kind === 'revalidate' ? this.#validation(plan.entry) : this.#fill();
    // An entry without a validator is fetched anew: only the origin's answer will be served.
    const source = question.fields.length === 0 ? undefined : snapshot;
    return { decision: this.#fetchDecision(plan.kind, plan), snapshot, source, question };
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

  #pass(forwardReason: ForwardReason, reason: string): ExplainedDecision {
    const { request } = this.#inquiry;
    const cacheStatus = formatCacheStatus(relayStatus(forwardReason, reason));
    return {
      decision: { kind: 'pass', reason, forwardReason, cacheStatus },
      question: this.#question(request.method, rangeAndPreconditionFields(passedFields(this.#inquiry))),
    };
  }

  /** Takes a snapshot of an entry; from its open generation where there is one. */
  async #snapshot(entry: StoredEntry): Promise<Snapshot> {
    const holder = entry.isComplete ? undefined : this.#parts.flights.holderOf(entry.key, entry.generation);
    const generation = holder === 'held' ? undefined : holder?.generation;
    return generation === undefined
      ? await entrySnapshot(this.#parts, this.#inquiry, entry)
      : generationSnapshot(generation);
  }

  #validation({ metadata }: StoredEntry): OriginQuestion {
    return this.#question('GET', conditionalFields(metadata));
  }

  #fill(): OriginQuestion {
    const inquiry = this.#inquiry;
    if (hasRange(inquiry) && inquiry.rangeSupport.givesPartsOnly) {
      return this.#question('GET', rangeAndPreconditionFields(passedFields(inquiry)));
    }
    const part = selectPart(inquiry, this.#parts.store.blockSizeBytes);
    return this.#question('GET', part === undefined ? [] : partFields(inquiry, part.spec));
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
    // With only-if-cached, an entry within its stale-while-revalidate time is used without being validated.
    const { maxStale } = readRequestDirectives(request.fields, policy);
    return { kind, reason: 'request', directive: maxStale === undefined ? 'only-if-cached' : 'max-stale', cacheStatus };
  }
  return { kind, reason: 'fresh', cacheStatus };
}

/** The largest number of runs of bytes that an explanation lists. */
const MAX_RUNS = 100;

function termsOf(stored: StoredResponse, inquiry: Inquiry, now: number): ReuseTerms {
  const { originFields, policy } = inquiry;
  return reuseTerms({ requestFields: originFields, hasRange: hasRange(inquiry), stored, now, policy });
}

function explainChosen(snapshot: Snapshot, inquiry: Inquiry, now: number): ChosenExplanation {
  const { generation, response, isComplete, pinnedUntil, outlook } = snapshot;
  return {
    generation,
    status: response.status,
    sizeBytes: outlook.sizeBytes,
    present: explainPresence(outlook),
    isComplete,
    fragment: response.fragment,
    pinnedUntil,
    isInvalid: response.isInvalid === true,
    expiredAt: response.expiredAt,
    tags: response.tags?.filter((tag) => !isSpellingTag(tag)) ?? [],
    boundTo: isForAll(response, inquiry.policy) ? undefined : (response.identity?.names ?? []),
    receivedAt: response.responseAt,
    freshness: explainFreshness(termsOf(response, inquiry, now)),
    validators: explainValidators(response, now),
  };
}

function explainPresence({ present, blockSizeBytes, sizeBytes }: Outlook): ChosenExplanation['present'] {
  const runs = [...present].map(({ start, end }): Span => {
    const last = spanOfBlock(end - 1, blockSizeBytes, sizeBytes ?? Number.POSITIVE_INFINITY);
    return { start: start * blockSizeBytes, end: last.end };
  });
  const bytes = runs.reduce((sum, run) => sum + spanSize(run), 0);
  return { bytes, runs: runs.length, spans: runs.slice(0, MAX_RUNS) };
}

function explainFreshness(terms: ReuseTerms): FreshnessExplanation {
  const { freshness, lifetimeMs, age, ttlMs, staleness, staleBan, control } = terms;
  return {
    lifetimeMs,
    source: lifetimeMs === freshness.lifetimeMs ? freshness.source : 'range-reuse',
    field: lifetimeField(freshness.source, control),
    age,
    ttlMs,
    stale: { ...staleness, forbiddenBy: staleBan },
  };
}

function explainValidators(response: StoredResponse, now: number): ValidatorsExplanation {
  return {
    entityTag: explainEntityTag(response),
    lastModified: explainLastModified(response, now),
    combinedBy: strongValidator(response, now),
    conditions: conditionalFields(response),
  };
}

function explainEntityTag(response: StoredResponse): ValidatorsExplanation['entityTag'] {
  const value = effectiveEntityTag(response);
  if (value === undefined) return undefined;
  const owner = response.ownEntityTag === undefined ? 'origin' : 'rangeway';
  return { value, strength: parseEntityTag(value)?.kind ?? 'malformed', owner };
}

function explainLastModified(response: StoredResponse, now: number): ValidatorsExplanation['lastModified'] {
  const value = fieldValue(response.fields, 'last-modified');
  if (value === undefined) return undefined;
  if (parseDateField(response.fields, 'last-modified', now) === undefined) return { value, strength: 'malformed' };
  return { value, strength: strongLastModified(response, now) === undefined ? 'weak' : 'strong' };
}

/** The state of a stored response or an open generation at one instant. */
interface Snapshot {
  /** The name of the generation in the store. */
  readonly generation: string;
  readonly response: StoredResponse;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
  readonly outlook: Outlook;
}

function generationSnapshot({ name, response, outlook }: OpenGeneration): Snapshot {
  const { sizeBytes, present, blockSizeBytes } = outlook;
  const isComplete = sizeBytes !== undefined && present.size === Math.ceil(sizeBytes / blockSizeBytes);
  return { generation: name, response, isComplete, pinnedUntil: undefined, outlook };
}

/** Takes a snapshot of an entry that is not open. All blocks of a partly stored one count as absent when it cannot be opened. */
async function entrySnapshot(
  { store, clock }: Pick<ExchangeContext, 'store' | 'clock'>,
  inquiry: Inquiry,
  entry: StoredEntry,
): Promise<Snapshot> {
  const { generation, metadata, sizeBytes, isComplete, pinnedUntil } = entry;
  const { blockSizeBytes } = store;
  const { fill } = inquiry.policy;
  const { seekAheadBytes, seekAheadMs } = fill;
  const source = createPartSource({ inquiry, response: metadata, sizeBytes, clock });
  const present = isComplete
    ? new SpanSet([{ start: 0, end: Math.ceil(sizeBytes / blockSizeBytes) }])
    : await readPresence(entry);
  const { mayAskForParts } = source;
  const asking = { mayAskForParts, seekAheadBytes, seekAheadMs, latencyMs: 0 };
  const growing = growsOpenRanges(fill, sizeBytes) && source.mayJoinParts;
  const outlook = {
    sizeBytes,
    blockSizeBytes,
    present,
    fills: [],
    isProbing: false,
    ...asking,
    growsOpenRanges: growing,
  };
  return { generation, response: metadata, isComplete, pinnedUntil, outlook };
}

async function readPresence(entry: StoredEntry): Promise<SpanSet> {
  try {
    return await entry.readPresence();
  } catch (thrown) {
    if (thrown instanceof ProxyError && thrown.code === 'bytes_gone') return new SpanSet();
    throw thrown;
  }
}
