/**
 * Answers from stored entries; the absent bytes of a partly stored one are fetched from the origin. Also answers from a fetch
 * result, both for the request that started the flight and for the requests that waited for it.
 */

import type { Span } from '../../bytes/span.ts';
import { type Fields, fieldValue, hasField, withField } from '../../http/fields.ts';
import { type BodyStream, changedRequest } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { evaluatePreconditions } from '../../semantics/precondition.ts';
import { formatUnsatisfiedRange, parseContentRange, selectRanges } from '../../semantics/range.ts';
import { strongValidator } from '../../semantics/validator.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { Answer, ByteReader, Representation } from '../answer.ts';
import type { ExchangeFunction, Flight, WaiterResult } from '../collapse/flight.ts';
import { type Flights, mayShareInRound, mayShareWithWaiter } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import { reopenStored } from '../fetch/exchange.ts';
import { withoutCredentials } from '../fetch/open-generation.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';
import { hasBytes, type Outlook } from '../fill/fetch-decision.ts';
import { isSameVersion, type LeaseResult, representationVersion, type Version, type Versioned } from '../fleet.ts';
import {
  changedInquiry,
  fillFields,
  finishAlways,
  hasPrecondition,
  type Inquiry,
  isAskedOnce,
  isHead,
  isOnlyIfCached,
  rangeSpecs,
} from '../inquiry.ts';
import {
  type FetchPlan,
  isUsable,
  mayBeServedTo,
  RequestMatcher,
  type StoredPlan,
  sliceFragment,
} from '../lookup/lookup.ts';
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
  withMoreFields,
} from './answers.ts';
import type { Pass } from './pass.ts';

/** Answers from stored entries, and fetches damaged blocks of them again. */
export class StoredAnswers {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;
  readonly #passer: Pass;
  readonly #readAheadRules: ReadAheadRules;

  readonly #peerFetch: PeerFetch;

  constructor(context: ExchangeContext, flights: Flights, passer: Pass, peerFetch: PeerFetch) {
    this.#context = context;
    this.#flights = flights;
    this.#passer = passer;
    this.#peerFetch = peerFetch;
    this.#readAheadRules = { blockSizeBytes: context.store.blockSizeBytes, budget: context.readAhead };
  }

  /** Answers with an entry as it is; in the same tick where the entry is complete, or the request is a HEAD or for a fragment. */
  hit(plan: StoredPlan, inquiry: Inquiry): Answer | Promise<Answer> {
    const { entry, ttlMs } = plan;
    const present = (stored: StoredEntry) => this.present(stored, inquiry);
    if (plan.kind === 'fragment') {
      return hitAnswer(entry, ttlMs, { present: (stored) => sliceFragment(present(stored), plan.span) });
    }
    if (!entry.isComplete && !isHead(inquiry)) return this.#partial(entry, ttlMs, inquiry);
    return hitAnswer(entry, ttlMs, { present });
  }

  /** Opens a partly stored generation, or joins the flight that has it open, in this process or in the holder of the lease. */
  async #partial(entry: StoredEntry, ttlMs: number, inquiry: Inquiry, given?: Version): Promise<Answer> {
    const right = this.#context.fleet.acquire(inquiry.key, inquiry.request.signal);
    if (right instanceof Promise || right.kind === 'theirs') return await this.#elsewhere(right, inquiry, given);
    let arrival: WaiterResult;
    try {
      const open = this.#flights.holderOf(inquiry.key, entry.generation);
      // The generation is open in a flight that cannot be joined. How long its readers take is unknown, so do not wait.
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

  async #elsewhere(
    right: LeaseResult | Promise<LeaseResult>,
    inquiry: Inquiry,
    given: Version | undefined,
  ): Promise<Answer> {
    const answer = await this.#peerFetch.ask(inquiry, right, given);
    return answer ?? (await this.#passer.pass(inquiry, 'uri-miss', 'lease-unavailable'));
  }

  /**
   * Answers with the version that the client already has a part of (`given`), stored or being filled here; undefined where there
   * is none. Its freshness is not checked: the response has begun.
   */
  async answerVersion(entries: readonly StoredEntry[], inquiry: Inquiry, given: Version): Promise<Answer | undefined> {
    const now = this.#context.clock.now();
    const isGiven = ({ metadata: response, sizeBytes, generation }: StoredEntry) =>
      isSameVersion(representationVersion({ response, sizeBytes, generation }, now), given) &&
      (generation === given.generation || mayBeServedTo(response, inquiry));
    const entry = entries.find((stored) => isGiven(stored) && isUsable(stored, now));
    if (entry !== undefined) return await this.hit({ kind: 'hit', entry, ttlMs: 0, isValidated: false }, inquiry);
    const flight = this.#flights.of(inquiry.key).findLast(({ generation }) => {
      if (generation === undefined || !isSameVersion(representationVersion(ofGeneration(generation), now), given))
        return false;
      return generation.name === given.generation || mayBeServedTo(generation.response, inquiry);
    });
    const arrival = await flight?.wait(inquiry);
    if (arrival?.kind !== 'generation') return undefined;
    const { generation, representation } = arrival;
    return generationAnswer(generation, representation, { isJoined: true, forwardReason: 'partial' });
  }

  /** Returns an entry as a representation. */
  present(entry: StoredEntry, inquiry: Inquiry): Representation {
    return createStoredRepresentation(entry, this.#readAheadRules, (rest, hasBegun) =>
      this.#mend(entry, inquiry, rest, hasBegun),
    );
  }

  /**
   * Opens `rest` anew, because a block is damaged: that block is fetched again. Throws `ProxyError`, `bytes_gone` where it cannot be, and
   * where the whole entry is gone before the response has begun: it is then fetched and stored as one that is absent.
   */
  async #mend(entry: StoredEntry, inquiry: Inquiry, rest: readonly Span[], hasBegun: boolean): Promise<ByteReader> {
    if (isOnlyIfCached(inquiry)) {
      throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and only-if-cached forbids fetching it' });
    }
    const { store, clock } = this.#context;
    const entries = await store.find(inquiry.key);
    const damaged = entries.find(({ generation }) => generation === entry.generation);
    if (damaged === undefined && hasBegun) return await this.#relayRest(entry, inquiry, rest);
    if (damaged === undefined || !isUsable({ metadata: damaged.metadata, isComplete: false }, clock.now())) {
      throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and cannot be fetched again by itself' });
    }
    const { generation, sizeBytes, metadata: response } = damaged;
    const known = representationVersion({ generation, sizeBytes, response }, clock.now());
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

  /**
   * Asks the origin for the rest of an entry that the store does not find any more: it was removed, or its engine is away. Nothing of it
   * is stored. Throws as `#mend`.
   */
  async #relayRest({ metadata }: StoredEntry, inquiry: Inquiry, rest: readonly Span[]): Promise<ByteReader> {
    const { clock } = this.#context;
    const validator = strongValidator(metadata, clock.now());
    const [{ start } = { start: 0 }] = rest;
    if (validator !== undefined) {
      const added: Fields = [
        ['range', `bytes=${start}-`],
        ['if-range', validator],
      ];
      const { request, originFields } = inquiry;
      const asked = changedInquiry(inquiry, {
        request: changedRequest(request, { fields: [...fillFields(request.fields), ...added] }),
        originFields: [...fillFields(originFields), ...added],
        onInterim: () => {},
      });
      const passed = await this.#passer.pass(withoutCredentials(asked, metadata), 'uri-miss', 'store-unavailable');
      if (passed.kind !== 'relay') throw new ProxyError('internal', { detail: 'a request was not passed on' });
      const { response, responseAt } = passed.relay;
      const { status, fields, body } = response;
      const { span } = parseContentRange(fieldValue(fields, 'content-range') ?? '') ?? {};
      const isSame = strongValidator({ fields, responseAt }, clock.now()) === validator;
      if (isSame && (status === 200 || (status === 206 && span?.start === start))) {
        return readRelay(body, status === 200 ? 0 : start);
      }
      body.close();
    }
    throw new ProxyError('bytes_gone', { detail: 'the stored response is gone, and its rest cannot be had' });
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

  /** Completes a stale answer; undefined where bytes are absent: the origin, which has just failed, would have to send them. */
  async completeStale(answer: Answer, entry: StoredEntry, inquiry: Inquiry): Promise<Answer | undefined> {
    if (entry.isComplete || isHead(inquiry)) return answer;
    const partial = await this.#partial(entry, 0, inquiry);
    if (partial.kind === 'relay' || partial.status.hit === true) return completedAnswer(answer, partial);
    partial.representation.close();
    return undefined;
  }

  /** Returns the answer with an entry; where the entry is partly stored, with the bytes of the generation that fetches the rest. */
  complete(answer: Answer, entry: StoredEntry, inquiry: Inquiry): Answer | Promise<Answer> {
    if (entry.isComplete || isHead(inquiry)) return answer;
    return this.#partial(entry, 0, inquiry).then((partial) => completedAnswer(answer, partial));
  }
}

function ofGeneration({ response, sizeBytes, name }: OpenGeneration): Versioned {
  return { response, sizeBytes, generation: name };
}

/** Makes answers from fetch results. */
export class FetchedAnswers {
  readonly #context: Pick<ExchangeContext, 'clock'>;
  readonly #stored: StoredAnswers;
  readonly #passer: Pass;

  constructor(context: Pick<ExchangeContext, 'clock'>, stored: StoredAnswers, passer: Pass) {
    this.#context = context;
    this.#stored = stored;
    this.#passer = passer;
  }

  /**
   * Answers with a fetch result; undefined where it does not serve this request. `leader` is the request that the origin was sent,
   * for a request that came before that. Throws or rejects with `ProxyError`.
   */
  answer(
    arrival: WaiterResult,
    inquiry: Inquiry,
    plan: FetchPlan,
    isJoined: boolean,
    leader?: RequestMatcher,
  ): Answer | Promise<Answer | undefined> | undefined {
    const personal = 'personal' in arrival && !isJoined ? (arrival.personal ?? []) : [];
    const context: AnswerContext = {
      present: (stored) => withMoreFields(this.#stored.present(stored, inquiry), personal),
      policy: inquiry.policy,
      now: this.#context.clock.now(),
      forwardReason: plan.reason,
      isJoined,
    };
    const isFor = (response: StoredResponse) =>
      !isJoined ||
      (leader === undefined
        ? mayShareWithWaiter(response, inquiry, context.now)
        : mayShareInRound(response, inquiry, leader));
    switch (arrival.kind) {
      case 'generation':
        if (isFor(arrival.generation.response)) {
          const { generation, representation } = arrival;
          if (isBehindEnd(representation.sizeBytes, inquiry)) {
            representation.close();
            return this.#passBehindEnd(inquiry, plan, representation.sizeBytes);
          }
          const answer = generationAnswer(generation, withMoreFields(representation, personal), context);
          return generation.whenTaken()?.then(() => answer) ?? answer;
        }
        arrival.representation.close();
        return undefined;
      case 'confirmed':
        if (isFor(arrival.generation.response)) {
          const { generation, representation } = arrival;
          return revalidatedAnswer(generation.response, withMoreFields(representation, personal), 304, context);
        }
        arrival.representation.close();
        return undefined;
      case 'revalidated': {
        const { entry, status } = arrival;
        if (!isFor(entry.metadata)) return undefined;
        const answer = revalidatedAnswer(entry.metadata, context.present(entry), status, context);
        return this.#stored.complete(answer, entry, inquiry);
      }
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

  /**
   * Passes on a range that lies behind the end of what was fetched just now: clients of S3 read the error code in the content of the
   * origin's own 416. Adds the length where the origin leaves it out (RFC 9110 §15.5.17).
   */
  async #passBehindEnd(inquiry: Inquiry, plan: FetchPlan, sizeBytes: number): Promise<Answer> {
    const answer = await this.#passer.pass(inquiry, plan.reason, 'behind-end');
    if (answer.kind !== 'relay') return answer;
    const { response } = answer.relay;
    if (response.status !== 416 || hasField(response.fields, 'content-range')) return answer;
    const fields = withField(response.fields, 'content-range', formatUnsatisfiedRange(sizeBytes));
    return { ...answer, relay: { ...answer.relay, response: { ...response, fields } } };
  }

  /** Answers a failure with the stale entry where it may be served. Otherwise throws the error; undefined for a failed status. */
  async #answerFailure(
    failure: ProxyError | number,
    plan: FetchPlan,
    context: AnswerContext,
    inquiry: Inquiry,
  ): Promise<Answer | undefined> {
    if (plan.kind === 'revalidate' && context.now < plan.serveStaleUntil) {
      const stale = await this.#stored.completeStale(staleAnswer(plan.entry, failure, context), plan.entry, inquiry);
      if (stale !== undefined) return stale;
    }
    if (failure instanceof ProxyError) throw failure;
    return undefined;
  }
}

/** Whether every range of a request begins behind the last byte, and the origin may be asked about it once more. */
function isBehindEnd(sizeBytes: number | undefined, inquiry: Inquiry): sizeBytes is number {
  const specs = rangeSpecs(inquiry);
  if (specs.length === 0 || sizeBytes === undefined || sizeBytes === 0) return false;
  if (hasPrecondition(inquiry) || isAskedOnce(inquiry)) return false;
  return (
    inquiry.rangeSupport.mayRequestFurtherPart &&
    specs.every((spec) => spec.kind !== 'suffix' && spec.first >= sizeBytes)
  );
}

/**
 * Checks whether all bytes that a request will get are present: none where a precondition ends it or its ranges are
 * unsatisfiable, otherwise its ranges, or the whole where it has no range or its If-Range fails. False while the length is unknown.
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

/** Returns a reader of a body that comes once, from the offset `first` on: what lies before a read is dropped. */
function readRelay(body: BodyStream, first: number): ByteReader {
  let at = first;
  const chunks = body[Symbol.asyncIterator]();
  let chunk: Uint8Array = new Uint8Array();
  return {
    peek: () => undefined,
    read: async (offset, end) => {
      for (;;) {
        const dropped = Math.min(offset - at, chunk.length);
        chunk = chunk.subarray(dropped);
        at += dropped;
        const bytes = chunk.subarray(0, end - offset);
        if (at === offset && bytes.length > 0) return bytes;
        const next = await chunks.next();
        if (next.done === true) return undefined;
        chunk = next.value;
      }
    },
    close: () => body.close(),
  };
}
