/**
 * Answers from what is stored, whole or in part; where it is in part, its readers get the rest from the origin. And answers
 * from the result of an exchange, for the request that started it and for those that waited for it.
 */

import type { Span } from '../../bytes/span.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { evaluatePreconditions } from '../../semantics/precondition.ts';
import { selectRanges } from '../../semantics/range.ts';
import type { StoredEntry } from '../../store/store.ts';
import { type Answer, type ByteReader, type Representation, withMoreFields } from '../answer.ts';
import type { ExchangeFunction, Flight, WaiterResult } from '../collapse/flight.ts';
import { type Flights, mayTakeAlong } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import { reopenStored } from '../fetch/exchange.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';
import { hasBytes, type Outlook } from '../fill/fetch-decision.ts';
import { isSameVersion, type Right, representationVersion, type Version, type Versioned } from '../fleet.ts';
import { finishAlways, type Inquiry, isHead, isOnlyIfCached, rangeSpecs } from '../inquiry.ts';
import { type FetchPlan, isFor, isUsable, presentWithin, RequestMatcher, type StoredPlan } from '../lookup/lookup.ts';
import type { PeerFetch } from '../peers/peer-fetch.ts';
import type { ReadAheadRules } from '../read/read-ahead.ts';
import { createStoredRepresentation } from '../read/stored-representation.ts';
import {
  type AnswerContext,
  completedAnswer,
  generationAnswer,
  hitAnswer,
  partialAnswer,
  relayAnswer,
  revalidatedAnswer,
  staleAnswer,
} from './answers.ts';
import type { Pass } from './pass.ts';

/** Opens entries, and has damaged ones mended. */
export class StoredAnswers {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;
  readonly #passer: Pass;
  readonly #reading: ReadAheadRules;

  readonly #peerFetch: PeerFetch;

  constructor(context: ExchangeContext, flights: Flights, passer: Pass, peerFetch: PeerFetch) {
    this.#context = context;
    this.#flights = flights;
    this.#passer = passer;
    this.#peerFetch = peerFetch;
    this.#reading = { blockSizeBytes: context.store.blockSizeBytes, budget: context.readAhead };
  }

  /** With an entry as it is; in the same tick where no more is wanted than is there. */
  hit(plan: StoredPlan, inquiry: Inquiry): Answer | Promise<Answer> {
    const { entry, ttlMs } = plan;
    const present = (stored: StoredEntry) => this.present(stored, inquiry);
    if (plan.kind === 'fragment') {
      return hitAnswer(entry, ttlMs, { present: (stored) => presentWithin(present(stored), plan.span) });
    }
    if (!entry.isComplete && !isHead(inquiry)) return this.#partial(entry, ttlMs, inquiry);
    return hitAnswer(entry, ttlMs, { present });
  }

  /** Opens a stored generation that is there in part, or joins those who have it open, in this process or another one. */
  async #partial(entry: StoredEntry, ttlMs: number, inquiry: Inquiry, given?: Version): Promise<Answer> {
    const right = this.#context.fleet.acquire(inquiry.key, inquiry.request.signal);
    if (right instanceof Promise || right.kind === 'theirs') return await this.#elsewhere(right, inquiry, given);
    let arrival: WaiterResult;
    try {
      const open = this.#flights.holderOf(inquiry.key, entry.generation);
      // Those who read it may take their time, and nobody else can open it before they are done.
      if (open === 'held') return await this.#passer.pass(inquiry, 'uri-miss', 'store-unavailable');
      arrival = await (open ?? this.#reopen(entry, inquiry)).lead(inquiry);
    } finally {
      right.lease.release();
    }
    if (arrival.kind === 'unusable') return await this.#passer.pass(inquiry, 'uri-miss', arrival.reason);
    if (arrival.kind === 'failed' && arrival.failure instanceof ProxyError) throw arrival.failure;
    if (arrival.kind !== 'generation') throw new ProxyError('internal', { detail: 'a generation was not reopened' });
    const { generation, representation } = arrival;
    const isEnough = isPresent(generation, inquiry, this.#context.clock.now());
    if (!isEnough && isOnlyIfCached(inquiry)) {
      representation.close();
      throw new ProxyError('not_in_cache');
    }
    return partialAnswer(generation, representation, isEnough, ttlMs);
  }

  async #elsewhere(right: Right | Promise<Right>, inquiry: Inquiry, given: Version | undefined): Promise<Answer> {
    const answer = await this.#peerFetch.ask(inquiry, right, given);
    return answer ?? (await this.#passer.pass(inquiry, 'uri-miss', 'lease-unavailable'));
  }

  /**
   * What a request has been given a part of, where it is stored or being put together here; undefined where it is not. How
   * fresh it is does not matter any more.
   */
  async continued(entries: readonly StoredEntry[], inquiry: Inquiry, given: Version): Promise<Answer | undefined> {
    const now = this.#context.clock.now();
    const isGiven = ({ metadata: response, sizeBytes, generation }: StoredEntry) =>
      isSameVersion(representationVersion({ response, sizeBytes, generation }, now), given) &&
      (generation === given.generation || isFor(response, inquiry));
    const entry = entries.find((stored) => isGiven(stored) && isUsable(stored, now));
    if (entry !== undefined) return await this.hit({ kind: 'hit', entry, ttlMs: 0, isValidated: false }, inquiry);
    const flight = this.#flights.of(inquiry.key).findLast(({ generation }) => {
      if (generation === undefined || !isSameVersion(representationVersion(ofGeneration(generation), now), given))
        return false;
      return generation.name === given.generation || isFor(generation.response, inquiry);
    });
    const arrival = await flight?.wait(inquiry);
    if (arrival?.kind !== 'generation') return undefined;
    const { generation, representation } = arrival;
    return generationAnswer(generation, representation, { isJoined: true, forwardReason: 'partial' });
  }

  /** Makes an entry readable. */
  present(entry: StoredEntry, inquiry: Inquiry): Representation {
    return createStoredRepresentation(entry, this.#reading, (rest) => this.#mend(entry, inquiry, rest));
  }

  /** Reads on where a block turned out to be damaged after the head was sent: that block is fetched again. */
  async #mend(entry: StoredEntry, inquiry: Inquiry, rest: readonly Span[]): Promise<ByteReader> {
    if (isOnlyIfCached(inquiry)) {
      throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and nothing of the origin is wanted' });
    }
    const { store, clock } = this.#context;
    const entries = await store.find(inquiry.key);
    const damaged = entries.find(({ generation }) => generation === entry.generation);
    if (damaged === undefined || !isUsable({ ...damaged, isComplete: false }, clock.now())) {
      throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and cannot be had again by itself' });
    }
    const known = representationVersion({ ...damaged, response: damaged.metadata }, clock.now());
    const answer = await this.#partial(damaged, 0, inquiry, known);
    if (answer.kind === 'representation') {
      const { representation } = answer;
      const isSame = isSameVersion(representationVersion(representation, clock.now()), known);
      if (isSame) return await representation.open(rest, inquiry.request.signal);
      representation.close();
    } else {
      answer.relay.response.body.close();
    }
    throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and the rest cannot be opened' });
  }

  #reopen(entry: StoredEntry, inquiry: Inquiry): Flight {
    const reopen: ExchangeFunction = async (clearance) => {
      await this.#flights.released(entry.generation);
      return await reopenStored(this.#context, inquiry, entry, clearance);
    };
    return this.#flights.start(inquiry.key, finishAlways, reopen, {
      leader: new RequestMatcher(inquiry),
      reopens: entry.generation,
    });
  }

  /** Undefined where the origin, which has failed just now, would have to be asked for some of the bytes. */
  async inPresentPart(answer: Answer, entry: StoredEntry, inquiry: Inquiry): Promise<Answer | undefined> {
    if (entry.isComplete || isHead(inquiry)) return answer;
    const partial = await this.#partial(entry, 0, inquiry);
    if (partial.kind === 'relay' || partial.status.hit === true) return completedAnswer(answer, partial);
    partial.representation.close();
    return undefined;
  }

  /** An answer from an entry; where it is there in part only, from the generation that brings the rest. */
  completing(answer: Answer, entry: StoredEntry, inquiry: Inquiry): Answer | Promise<Answer> {
    if (entry.isComplete) return answer;
    return this.#partial(entry, 0, inquiry).then((partial) => completedAnswer(answer, partial));
  }
}

function ofGeneration({ response, sizeBytes, name }: OpenGeneration): Versioned {
  return { response, sizeBytes, generation: name };
}

/** Makes answers of arrivals. */
export class FetchedAnswers {
  readonly #context: Pick<ExchangeContext, 'clock'>;
  readonly #stored: StoredAnswers;

  constructor(context: Pick<ExchangeContext, 'clock'>, stored: StoredAnswers) {
    this.#context = context;
    this.#stored = stored;
  }

  /** Undefined when what has arrived does not serve this request. */
  answer(
    arrival: WaiterResult,
    inquiry: Inquiry,
    plan: FetchPlan,
    isJoined: boolean,
  ): Answer | Promise<Answer | undefined> | undefined {
    const personal = 'personal' in arrival && !isJoined ? (arrival.personal ?? []) : [];
    const context: AnswerContext = {
      present: (stored) => withMoreFields(this.#stored.present(stored, inquiry), personal),
      policy: inquiry.policy,
      now: this.#context.clock.now(),
      forwardReason: plan.reason,
      isJoined,
    };
    const isFor = (response: StoredResponse) => !isJoined || mayTakeAlong(response, inquiry, context.now);
    switch (arrival.kind) {
      case 'generation':
        if (isFor(arrival.generation.response)) {
          const { generation, representation } = arrival;
          const answer = generationAnswer(generation, withMoreFields(representation, personal), context);
          return generation.whenTaken()?.then(() => answer) ?? answer;
        }
        arrival.representation.close();
        return undefined;
      case 'revalidated':
        if (!isFor(arrival.entry.metadata)) return undefined;
        return this.#stored.completing(revalidatedAnswer(arrival.entry, context), arrival.entry, inquiry);
      case 'relay':
        return isJoined
          ? undefined
          : relayAnswer(arrival.relay, plan.reason, arrival.reason, arrival.kept !== undefined);
      case 'failed':
        return this.#answerFailure(arrival.failure, plan, context, inquiry);
      case 'unusable':
        return undefined;
    }
  }

  /** What is stored where it may be served stale; otherwise throws the error, or gives nothing for a bad status. */
  async #answerFailure(
    failure: ProxyError | number,
    plan: FetchPlan,
    context: AnswerContext,
    inquiry: Inquiry,
  ): Promise<Answer | undefined> {
    if (plan.kind === 'revalidate' && context.now < plan.serveStaleUntil) {
      const stale = await this.#stored.inPresentPart(staleAnswer(plan.entry, failure, context), plan.entry, inquiry);
      if (stale !== undefined) return stale;
    }
    if (failure instanceof ProxyError) throw failure;
    return undefined;
  }
}

/**
 * Looks at what the request will get: nothing of the body, its ranges, or the whole, where it has none or an If-Range that
 * does not hold.
 */
export function isPresent(
  { response, outlook }: { readonly response: StoredResponse; readonly outlook: Outlook },
  inquiry: Inquiry,
  now: number,
): boolean {
  const { sizeBytes } = outlook;
  if (sizeBytes === undefined) return false;
  const asked = { method: inquiry.request.method, fields: inquiry.originFields };
  const outcome = evaluatePreconditions(asked, response, now);
  if (outcome.kind !== 'proceed') return true;
  const specs = outcome.range === 'apply' ? rangeSpecs(inquiry) : [];
  const selected = specs.length === 0 ? undefined : selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 });
  if (selected?.kind === 'unsatisfiable') return true;
  if (selected?.kind === 'partial') return selected.spans.every((span) => hasBytes(outlook, span));
  return hasBytes(outlook, { start: 0, end: sizeBytes });
}
