/**
 * Answers requests from the store and the origin. Read this file first, then the folders in this order: `lookup/` chooses a
 * stored response, `collapse/` lets requests for the same key share a flight, `fetch/` asks the origin, `fill/` takes its bytes
 * into a generation, `read/` reads stored bytes, `answers/` makes the answer.
 */

import type { Span } from '../bytes/span.ts';
import { fieldValue, hasField } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { hasDirectives } from '../semantics/cache-control.ts';
import { decideHeadEffect } from '../semantics/freshen.ts';
import { mayAddLength } from '../semantics/head-length.ts';
import { isForOneClient } from '../semantics/storing.ts';
import { LogThrottle } from '../store/log-throttle.ts';
import type { Store, StoredEntry } from '../store/store.ts';
import type { Answer, Representation } from './answer.ts';
import { failedStatus, generationAnswer, revalidatedAnswer } from './answers/answers.ts';
import { Pass } from './answers/pass.ts';
import { FetchedAnswers, StoredAnswers } from './answers/stored-answers.ts';
import { type Flight, untilAborted, type WaiterResult } from './collapse/flight.ts';
import {
  Flights,
  isLeaderLimit,
  isWaitingPointless,
  listArriving,
  listFills,
  mayShareInRound,
  type RunningFill,
  roundName,
  selectFlight,
  stopFill,
} from './collapse/flights.ts';
import { type RoundExchange, Rounds } from './collapse/rounds.ts';
import type { ExchangeContext } from './context.ts';
import { explainInquiry } from './explain/explain.ts';
import type { Explained } from './explain/explanation.ts';
import { BackgroundRevalidation } from './fetch/background-revalidation.ts';
import { type Candidate, exchange } from './fetch/exchange.ts';
import { UnreadTransfers } from './fill/fill-scheduler.ts';
import { type InvalidationMessage, type Lease, type PeerAnswer, representationVersion, type Version } from './fleet.ts';
import { type Inquiry, isHead, isOnlyIfCached, isPlain } from './inquiry.ts';
import { applyInvalidation } from './invalidate/invalidate.ts';
import { type CachePurge, purge } from './invalidate/purge.ts';
import { createUseCounts, HitForPassKeys, NotStoredReasons } from './lookup/hit-for-pass.ts';
import {
  decideBypass,
  decideNextStep,
  type FetchPlan,
  forwardReasonOf,
  mayBeServedTo,
  type Plan,
  planAnswer,
  RequestMatcher,
  type StoredPlan,
} from './lookup/lookup.ts';
import { PeerFetch } from './peers/peer-fetch.ts';

/** Answers requests from the store and the origin. */
export interface Cache {
  /** Answers a request; in the same tick when it is a hit in memory. Throws or rejects with `ProxyError`. */
  answer(inquiry: Inquiry): Answer | Promise<Answer>;
  /** The store that the cache answers from. */
  readonly store: Pick<Store, 'peek' | 'blockSizeBytes'>;
  /** Returns a stored entry as a representation for a request. A block that turns out to be damaged is fetched again. */
  present(entry: StoredEntry, inquiry: Inquiry): Representation;
  /** Passes on a request whose stored bytes cannot be read now. Rejects with `ProxyError`. */
  passUnreadable(inquiry: Inquiry): Promise<Answer>;
  /** Explains what `answer` would do now. Sends nothing to the origin and changes nothing. */
  explain(inquiry: Inquiry): Promise<Explained>;
  /** Removes or expires entries and running flights, in all processes; returns the count: see `purge`. */
  purge(order: CachePurge): Promise<number>;
  /**
   * Answers a request of a peer that believes this process to hold the lease of the key. Undefined where it does not hold it.
   * `given` names the version that the client already has a part of. Rejects with `ProxyError`, or the signal's reason.
   */
  answerPeer(inquiry: Inquiry, given?: Version): Promise<PeerAnswer | undefined>;
  /** Returns the running fills of this process. */
  listFills(): readonly RunningFill[];
  /** Returns the spans of a generation that its running fills still have to bring. */
  listArriving(generation: string): readonly Span[];
  /** Stops a fill; clients reading it are disconnected. Returns whether it was running here. */
  stopFill(id: string): boolean;
  /** Applies an invalidation message of another process. Resolves when nothing that it forbids is served or stored any more. */
  applyInvalidation(news: InvalidationMessage): Promise<void>;
  /** Stops all flights, and waits until they have ended. */
  close(): Promise<void>;
}

/** The dependencies of a cache. */
export type CacheContext = Omit<ExchangeContext, 'unread' | 'hitForPass' | 'notStoredReasons' | 'logThrottle'>;

/** Creates the cache over a store. */
export function createCache(context: CacheContext): Cache {
  return new StoreCache(context);
}

/** The number of rounds that a request takes part in before it goes to the origin alone. */
const MAX_ROUNDS = 3;

/** What a round gives to one of its requests. */
interface RoundResult {
  /** Undefined where the response is of use to its leader only. */
  readonly arrival: WaiterResult | undefined;
  /** Undefined for the request that leads: it gets whatever came. */
  readonly leader: RequestMatcher | undefined;
  /** The answer to a HEAD that leads. */
  readonly answer?: Answer;
}

/**
 * How long requests for a holder gather before the next question is sent, where the last one is not answered yet, in milliseconds. They
 * do not wait for its answer, because the holder lets each question wait for a round of its own.
 */
const QUESTION_INTERVAL_MS = 10;

/** What the answer of a holder is to one of the requests that its question was for. */
interface HeldAnswer {
  /** Undefined for the request that was asked for: it gets whatever came. */
  readonly leader: RequestMatcher | undefined;
  readonly answer?: Answer;
  /** Undefined where the answer is of use to the leader only; `left` where the leader's client has left. */
  readonly held?: Held | 'left' | undefined;
}

/** A response that the holder has validated, fetched or found for a request. */
interface Held {
  readonly response: StoredResponse;
  readonly version: Version & { readonly generation: string };
  readonly outcome: 'revalidated' | 'miss' | 'hit';
  /** The status of the origin's response. */
  readonly status: number;
}

/** The largest number of keys whose uses are counted. */
const MAX_COUNTED_KEYS = 100_000;

class StoreCache implements Cache {
  readonly store: Cache['store'];
  readonly #context: ExchangeContext;
  readonly #stored: StoredAnswers;
  readonly #fetched: FetchedAnswers;
  readonly #flights: Flights;
  readonly #passer: Pass;
  readonly #peerFetch: PeerFetch;
  readonly #validation: BackgroundRevalidation;
  readonly #rounds = new Rounds<Inquiry, RoundResult>();
  /** The requests that the next question to the holder of a lease serves. */
  readonly #questions = new Rounds<Inquiry, HeldAnswer>();
  readonly #unshared = new HitForPassKeys();
  readonly #uses = createUseCounts({ maxKeys: MAX_COUNTED_KEYS });

  constructor(context: CacheContext) {
    this.store = context.store;
    this.#context = {
      ...context,
      unread: new UnreadTransfers(),
      hitForPass: this.#unshared,
      notStoredReasons: new NotStoredReasons(),
      logThrottle: new LogThrottle(),
    };
    this.#flights = new Flights(this.#context);
    this.#passer = new Pass(this.#context, this.#flights);
    this.#peerFetch = new PeerFetch(this.#context, (lease, inquiry, given) => this.#answerUnder(lease, inquiry, given));
    this.#stored = new StoredAnswers(this.#context, this.#flights, this.#passer, this.#peerFetch);
    this.#fetched = new FetchedAnswers(this.#context, this.#stored, this.#passer);
    this.#validation = new BackgroundRevalidation(this.#context, this.#flights, (inquiry, candidate) =>
      this.#fly(inquiry, candidate),
    );
  }

  answer(inquiry: Inquiry): Answer | Promise<Answer> {
    const bypass = decideBypass(inquiry);
    if (bypass !== undefined) return this.#passer.pass(inquiry, forwardReasonOf(bypass), bypass);
    const entries = this.#context.store.peek(inquiry.key);
    if (entries !== undefined) return this.#answerFrom(entries, inquiry);
    return this.#context.store.find(inquiry.key).then((found) => this.#answerFrom(found, inquiry));
  }

  present(entry: StoredEntry, inquiry: Inquiry): Representation {
    return this.#stored.present(entry, inquiry);
  }

  async passUnreadable(inquiry: Inquiry): Promise<Answer> {
    if (isOnlyIfCached(inquiry)) throw new ProxyError('not_in_cache');
    return await this.#passer.pass(inquiry, 'miss', 'bytes_gone');
  }

  explain(inquiry: Inquiry): Promise<Explained> {
    return explainInquiry(
      { ...this.#context, flights: this.#flights, rounds: this.#rounds, uses: this.#uses },
      inquiry,
    );
  }

  purge(order: CachePurge): Promise<number> {
    return purge(this.#context, this.#flights, order);
  }

  async answerPeer(inquiry: Inquiry, given?: Version): Promise<PeerAnswer | undefined> {
    const { key } = inquiry;
    const lease = await this.#context.fleet.hold(key);
    if (lease === undefined) return undefined;
    const answer = await this.#answerUnder(lease, inquiry, given);
    const unshared = this.#unshared.why(key, this.#context.clock.now());
    const refusal = answer?.kind === 'representation' ? undefined : this.#context.notStoredReasons.last(key);
    return { answer, unshared, refusal };
  }

  listFills(): readonly RunningFill[] {
    return listFills(this.#flights);
  }

  listArriving(generation: string): readonly Span[] {
    return listArriving(this.#flights, generation);
  }

  stopFill(id: string): boolean {
    return stopFill(this.#flights, id);
  }

  applyInvalidation(news: InvalidationMessage): Promise<void> {
    return applyInvalidation(this.#context, this.#flights, news);
  }

  close(): Promise<void> {
    return this.#flights.stopAll(new ProxyError('client_gone', { detail: 'the server stops' }));
  }

  #answerFrom(entries: readonly StoredEntry[], inquiry: Inquiry): Answer | Promise<Answer> {
    const { key } = inquiry;
    const now = this.#context.clock.now();
    const step = decideNextStep(planAnswer(entries, inquiry, now), inquiry, {
      unshared: () => this.#unshared.why(key, this.#context.clock.now()),
      uses: () => this.#uses.note(key),
    });
    switch (step.kind) {
      case 'stored':
        return this.#hit(step.plan, inquiry);
      case 'refuse':
        throw new ProxyError('not_in_cache');
      case 'pass':
        return withApartBy(this.#passer.pass(inquiry, step.plan.reason, step.reason), step.plan);
      case 'fetch':
        return withApartBy(step.isAlone ? this.#lead(inquiry, step.plan) : this.#fetch(inquiry, step.plan), step.plan);
    }
  }

  /** Fetches under the lease of the key: at once where this process holds it or is the only one, otherwise through the holder. */
  #fetch(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const { fleet } = this.#context;
    if (plan.kind === 'revalidate') {
      const held = fleet.hold(inquiry.key);
      if (held !== undefined && !(held instanceof Promise)) return this.#joinOrLead(inquiry, plan, held);
      void held?.then((lease) => lease?.release());
      return this.#askTogether(inquiry, plan);
    }
    const right = fleet.acquire(inquiry.key, inquiry.request.signal);
    if (!(right instanceof Promise) && right.kind === 'ours') return this.#joinOrLead(inquiry, plan, right.lease);
    return this.#askHolder(inquiry, plan, right);
  }

  async #askHolder(
    inquiry: Inquiry,
    plan: FetchPlan,
    right = this.#context.fleet.acquire(inquiry.key, inquiry.request.signal),
    given?: Version,
  ): Promise<Answer> {
    return (await this.#peerFetch.ask(inquiry, right, given)) ?? (await this.#goAlone(inquiry, plan));
  }

  /**
   * Has a stored response validated through the holder of the lease: one question serves all requests of this process that came before
   * it was sent. The validation is sent after that, so it serves them too: see `Rounds`.
   */
  async #askTogether(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const name = this.#questionName(inquiry, plan);
      if (name === undefined) break;
      const result = await this.#questions.join(
        name,
        inquiry,
        async (leader) => () => this.#sendQuestion(leader, plan),
      );
      if (result?.answer !== undefined) return result.answer;
      if (result?.held !== 'left') return await this.#answerHeld(result, inquiry, plan);
    }
    return await this.#askHolder(inquiry, plan);
  }

  /**
   * Undefined where the request asks for itself: what the holder answers would be of no use to others. Requests with other directives
   * ask apart: the holder may answer a plain one by an exchange that began before a reload came.
   */
  #questionName(inquiry: Inquiry, plan: FetchPlan): string | undefined {
    if (plan.kind !== 'revalidate' || !plan.entry.isComplete || isHead(inquiry)) return undefined;
    if (this.#unshared.why(inquiry.key, this.#context.clock.now()) !== undefined) return undefined;
    const name = roundName(inquiry, plan);
    const { fields } = inquiry.request;
    if (name === undefined || !hasDirectives(fields)) return name;
    return `${name} ${JSON.stringify(['cache-control', 'pragma'].map((each) => fieldValue(fields, each)))}`;
  }

  #sendQuestion(leader: Inquiry, plan: FetchPlan): RoundExchange<Inquiry, HeldAnswer> {
    const { clock } = this.#context;
    const answer = this.#askHolder(leader, plan);
    const held = answer.then(
      (given) => heldBy(given, clock.now()),
      () => (leader.request.signal.aborted ? 'left' : undefined),
    );
    const { promise: landed, resolve: land } = Promise.withResolvers<void>();
    const stopWaiting = clock.after(QUESTION_INTERVAL_MS, land);
    void held.then(stopWaiting).then(land);
    const matcher = new RequestMatcher(leader);
    return {
      landed,
      serve: async ({ request }, isLeader) =>
        isLeader
          ? { leader: undefined, answer: await answer }
          : { leader: matcher, held: await untilAborted(held, request.signal) },
    };
  }

  /** Answers with what the holder has: from the common store, or through the holder while the bytes arrive there. */
  async #answerHeld(result: HeldAnswer | undefined, inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const { leader, held } = result ?? {};
    if (leader === undefined || held === undefined || held === 'left') return await this.#askHolder(inquiry, plan);
    const { store, clock } = this.#context;
    const entries = store.peek(inquiry.key) ?? (await store.find(inquiry.key));
    if (held.outcome === 'hit') {
      const again = this.#plan(entries, inquiry);
      if (again.kind === 'hit' || again.kind === 'fragment') return this.#hit(again, inquiry);
    }
    const entry = entries.find(({ generation }) => generation === held.version.generation);
    const isCurrent = held.outcome !== 'hit' && entry?.isComplete === true && isStillHeld(entry, held);
    if (isCurrent && mayShareInRound(entry.metadata, inquiry, leader)) {
      const { metadata } = entry;
      const context = { policy: inquiry.policy, now: clock.now(), forwardReason: plan.reason, isJoined: true };
      const present = this.#stored.present(entry, inquiry);
      return held.outcome === 'revalidated'
        ? revalidatedAnswer(metadata, present, held.status, context)
        : generationAnswer({ originStatus: held.status, received: 0 }, present, context);
    }
    const mayShare = held.outcome !== 'hit' && mayShareInRound(held.response, inquiry, leader);
    const given = mayShare ? held.version : undefined;
    return await this.#askHolder(inquiry, plan, undefined, given);
  }

  /** Goes to the origin for this request alone: the responses of the key are not shared, or no lease could be had. */
  #goAlone(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const why = this.#unshared.why(inquiry.key, this.#context.clock.now());
    if (plan.kind === 'fill' && why === 'personal' && isPlain(inquiry)) return this.#lead(inquiry, plan);
    return this.#passer.pass(inquiry, plan.reason, why === undefined ? 'lease-unavailable' : 'unshared');
  }

  /** See `AnswerUnder`. The request counts as admitted: its use was counted before it waited for the lease. */
  async #answerUnder(lease: Lease, inquiry: Inquiry, given?: Version): Promise<Answer | undefined> {
    try {
      const entries = await this.#context.store.find(inquiry.key);
      const same = given && (await this.#stored.answerVersion(entries, inquiry, given));
      if (same !== undefined) return same;
      const step = decideNextStep(this.#plan(entries, inquiry), inquiry, {
        unshared: () => this.#unshared.why(inquiry.key, this.#context.clock.now()),
        uses: () => Number.POSITIVE_INFINITY,
      });
      if (step.kind === 'stored') return await this.#hit(step.plan, inquiry);
      if (step.kind === 'refuse') throw new ProxyError('not_in_cache');
      if (step.kind === 'pass' || step.isAlone) return undefined;
      return await this.#joinOrLead(inquiry, step.plan, lease);
    } finally {
      lease.release();
    }
  }

  #plan(entries: readonly StoredEntry[], inquiry: Inquiry): Plan {
    return planAnswer(entries, inquiry, this.#context.clock.now());
  }

  #hit(plan: StoredPlan, inquiry: Inquiry): Answer | Promise<Answer> {
    if (plan.kind === 'hit' && plan.isValidated) this.#validation.begin(plan.entry, inquiry);
    return this.#stored.hit(plan, inquiry);
  }

  /**
   * Waits for running flights of the key, one after another. Where none serves this request, starts one, or passes a HEAD on.
   * Releases the lease: each flight holds it for itself.
   */
  async #joinOrLead(inquiry: Inquiry, first: FetchPlan, lease: Lease): Promise<Answer> {
    let plan = first;
    let apartBy: readonly string[] = [];
    let mayShareNext = false;
    const tried = new Set<Flight>();
    try {
      for (let flight = this.#nextFlight(inquiry, plan, tried); flight !== undefined; ) {
        tried.add(flight);
        const arrival = await flight.wait(inquiry);

        const isJoined = !isLeaderLimit(arrival, inquiry);
        const joined = isJoined ? await this.#fetched.answer(arrival, inquiry, plan, true) : undefined;
        if (joined !== undefined) return joined;
        if (arrival.kind === 'generation') {
          const { response } = arrival.generation;
          apartBy = new RequestMatcher(inquiry).apartBy(response);
          mayShareNext = mayBeServedTo(response, inquiry);
        }
        // The result does not serve this request, but a response that does may have been stored meanwhile.
        const again = this.#plan(await this.#context.store.find(inquiry.key), inquiry);
        if (again.kind === 'hit' || again.kind === 'fragment') return this.#hit(again, inquiry);
        plan = again;
        flight = isWaitingPointless(arrival, inquiry, this.#context.clock.now())
          ? undefined
          : this.#nextFlight(inquiry, plan, tried);
      }
      // A flight starts within this tick, so that the next request finds it.
      const takesTurns =
        (plan.kind === 'revalidate' || mayShareNext) &&
        this.#unshared.why(inquiry.key, this.#context.clock.now()) === undefined;
      const shared = takesTurns ? await this.#inRounds(inquiry, plan) : undefined;
      const answer = shared ?? (await this.#alone(inquiry, plan));
      return apartBy.length > 0 ? { ...answer, apartBy } : answer;
    } finally {
      lease.release();
    }
  }

  #alone(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    return isHead(inquiry) ? this.#passHead(inquiry, plan) : this.#lead(inquiry, plan);
  }

  /**
   * Shares an exchange that is sent after the request came: see `Rounds`. Undefined where the request goes to the origin alone: for
   * a first fetch, which later requests join as a flight, and where the response to a round is only for its leader.
   */
  async #inRounds(inquiry: Inquiry, first: FetchPlan): Promise<Answer | undefined> {
    let plan = first;
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const name = roundName(inquiry, plan);
      if (name === undefined) return undefined;
      const result = await this.#rounds.join(name, inquiry, (leader) => this.#prepareRound(leader));
      const answer = result && (await this.#answerRound(result, inquiry, plan));
      if (answer === 'alone') return undefined;
      if (answer !== undefined) return answer;
      const again = this.#plan(await this.#context.store.find(inquiry.key), inquiry);
      if (again.kind === 'hit' || again.kind === 'fragment') return this.#hit(again, inquiry);
      plan = again;
    }
    return undefined;
  }

  /** The plan of a request whose round has failed: a stale response must be the one that is stored by now. */
  async #planAfterFailure(inquiry: Inquiry, plan: FetchPlan): Promise<FetchPlan> {
    const again = this.#plan(await this.#context.store.find(inquiry.key), inquiry);
    return again.kind === 'revalidate' ? again : plan;
  }

  /** Prepares the exchange of a round; undefined where the store answers the leader meanwhile. */
  async #prepareRound(leader: Inquiry): Promise<(() => RoundExchange<Inquiry, RoundResult>) | undefined> {
    const { store } = this.#context;
    const entries = store.peek(leader.key) ?? (await store.find(leader.key));
    const plan = this.#plan(entries, leader);
    if (plan.kind === 'hit' || plan.kind === 'fragment') return undefined;
    return isHead(leader) ? () => this.#sendHead(leader, plan) : () => this.#sendRound(leader, plan, entries);
  }

  #sendRound(leader: Inquiry, plan: FetchPlan, entries: readonly StoredEntry[]): RoundExchange<Inquiry, RoundResult> {
    const arriving = this.#flights.arrivingFor(leader, entries);
    const stored = plan.kind === 'revalidate' ? plan : { entry: undefined, serveStaleUntil: 0 };
    const isFirst = arriving === undefined && stored.entry === undefined;
    const flight = this.#fly(leader, isFirst ? undefined : { ...stored, arriving });
    if (leader.request.signal.aborted) flight.abandonRelay();
    const matcher = new RequestMatcher(leader);
    return {
      landed: flight.fetchResult,
      serve: async (member, isLeader) =>
        isLeader
          ? { arrival: await flight.lead(member), leader: undefined }
          : { arrival: await flight.wait(member), leader: matcher },
    };
  }

  #sendHead(leader: Inquiry, plan: FetchPlan): RoundExchange<Inquiry, RoundResult> {
    const answer = this.#passHead(leader, plan);
    const landed = this.#resultOfHead(answer, leader, plan);
    const matcher = new RequestMatcher(leader);
    return {
      landed,
      serve: async ({ request }, isLeader) =>
        isLeader
          ? { arrival: undefined, leader: undefined, answer: await answer }
          : { arrival: await untilAborted(landed, request.signal), leader: matcher },
    };
  }

  /** What the response to a HEAD is to the other requests of its round: undefined where it does not show that what is stored is current. */
  async #resultOfHead(answer: Promise<Answer>, inquiry: Inquiry, plan: FetchPlan): Promise<WaiterResult | undefined> {
    const { client, request } = inquiry;
    const { store } = this.#context;
    let passed: Answer;
    try {
      passed = await answer;
    } catch (thrown) {
      if (request.signal.aborted) return { kind: 'unusable', reason: 'outdated' };
      return { kind: 'failed', failure: toProxyError(thrown), client };
    }
    if (plan.kind === 'fill' || passed.kind !== 'relay' || passed.relay.response.status !== 200) return undefined;
    const { fields } = passed.relay.response;
    const entry = (await store.find(inquiry.key)).find(({ generation }) => generation === plan.entry.generation);
    if (entry === undefined || isForOneClient(inquiry.originFields, fields, inquiry.policy)) return undefined;
    const isEnded = entry.metadata.isInvalid === true || entry.metadata.expiredAt !== undefined;
    const isCurrent = !isEnded && decideHeadEffect(entry.metadata, entry.sizeBytes, fields) === 'freshen';
    return isCurrent ? { kind: 'revalidated', entry, alike: [], status: 200 } : undefined;
  }

  /** Answers by the exchange of a round. `alone`: it serves only its leader. Undefined: the request may take part in another round. */
  async #answerRound(
    { arrival, leader, answer }: RoundResult,
    inquiry: Inquiry,
    plan: FetchPlan,
  ): Promise<Answer | 'alone' | undefined> {
    if (answer !== undefined) return answer;
    if (arrival === undefined) return 'alone';
    const current = arrival.kind === 'failed' ? await this.#planAfterFailure(inquiry, plan) : plan;
    if (leader === undefined) return await this.#answerLeader(arrival, inquiry, current);
    if (arrival.kind === 'unusable' || isLeaderLimit(arrival, inquiry)) return undefined;
    return (await this.#fetched.answer(arrival, inquiry, current, true, leader)) ?? 'alone';
  }

  #nextFlight(inquiry: Inquiry, plan: FetchPlan, tried: ReadonlySet<Flight>): Flight | undefined {
    const untried = this.#flights.of(inquiry.key).filter((flight) => !tried.has(flight));
    const now = this.#context.clock.now();
    return selectFlight(untried, inquiry, plan, now, this.#unshared.isBound(inquiry.key, now));
  }

  async #lead(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const candidate = plan.kind === 'revalidate' ? plan : undefined;
    return await this.#answerLeader(await this.#fly(inquiry, candidate).lead(inquiry), inquiry, plan);
  }

  async #answerLeader(arrival: WaiterResult, inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    if (arrival.kind === 'unusable') return await this.#passer.pass(inquiry, plan.reason, arrival.reason);
    const answer = await this.#fetched.answer(arrival, inquiry, plan, false);
    // The flight dropped an error status in favour of a stale response, which may no longer be served: ask again.
    return answer ?? (await this.#passer.pass(inquiry, plan.reason, 'status'));
  }

  /** Passes a HEAD on. Where the origin fails, by an error or a status, it gets the stale response that a GET would get. */
  async #passHead(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const passed = await this.#passer.pass(inquiry, plan.reason, 'method').catch(toProxyError);
    const failure = passed instanceof ProxyError ? passed : failedStatus(passed);
    const arrival = failure && ({ kind: 'failed', failure, client: inquiry.client } as const);
    const stale = arrival ? await this.#fetched.answer(arrival, inquiry, plan, false) : undefined;
    if (passed instanceof ProxyError) return stale ?? Promise.reject(passed);
    if (stale !== undefined && passed.kind === 'relay') passed.relay.response.body.close();
    const isFetched = inquiry.policy.fill.headLength === 'fetch' && lacksLength(passed);
    return stale ?? (isFetched ? await this.#fetchForHead(inquiry, plan, passed) : passed);
  }

  /** Fetches the body, because the response to the HEAD had no length. Falls back to that response where the fetch fails. */
  async #fetchForHead(inquiry: Inquiry, plan: FetchPlan, passed: Answer): Promise<Answer> {
    try {
      return await this.#lead(inquiry, plan);
    } catch (thrown) {
      inquiry.request.signal.throwIfAborted();
      if (!(thrown instanceof ProxyError)) throw thrown;
      return passed;
    }
  }

  #fly(inquiry: Inquiry, candidate: Candidate | undefined): Flight {
    return this.#flights.start(
      inquiry.key,
      inquiry.policy.fill,
      (clearance) => exchange(this.#context, inquiry, candidate, clearance),
      { leader: new RequestMatcher(inquiry) },
    );
  }
}

/** Whether the response to a HEAD has no length but may have one, and the response to a GET may be stored. */
function lacksLength(answer: Answer): boolean {
  if (answer.kind !== 'relay' || answer.relay.isStorable !== true) return false;
  const { status, fields } = answer.relay.response;
  return status === 200 && !hasField(fields, 'content-length') && mayAddLength(fields);
}

/** Returns what a holder has by its answer; undefined where others cannot share that. `now` in epoch milliseconds. */
function heldBy(answer: Answer, now: number): Held | undefined {
  const { outcome, status } = answer;
  if (answer.kind !== 'representation' || outcome === 'stale' || outcome === 'uncacheable') return undefined;
  const { generation, ...version } = representationVersion(answer.representation, now);
  if (generation === undefined) return undefined;
  return {
    response: answer.representation.response,
    version: { ...version, generation },
    outcome,
    status: status.fwdStatus ?? 200,
  };
}

/** Checks that nothing has made a stored response invalid since the holder had it, and that it is not an older form of it. */
function isStillHeld({ metadata, pinnedUntil }: StoredEntry, { response }: Held): boolean {
  const { responseAt, isInvalid, expiredAt } = metadata;
  return (
    pinnedUntil === undefined && responseAt >= response.responseAt && isInvalid !== true && expiredAt === undefined
  );
}

/** Adds to an answer the names that kept a stored response from its request, if there are any. */
function withApartBy(answer: Promise<Answer>, plan: FetchPlan): Promise<Answer> {
  const apartBy = plan.kind === 'fill' ? plan.apartBy : undefined;
  return apartBy === undefined ? answer : answer.then((given) => ({ ...given, apartBy }));
}
