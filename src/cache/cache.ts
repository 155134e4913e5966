/** The conversation between store and origin: what a request gets, and from where. */

import { ProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { parseRequestDirectives } from '../semantics/cache-control.ts';
import type { ForwardReason } from '../semantics/cache-status.ts';
import { isSafeMethod } from '../semantics/method.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Answer } from './answer.ts';
import { type AnswerContext, fillAnswer, hitAnswer, relayAnswer, revalidatedAnswer, staleAnswer } from './answers.ts';
import { exchange } from './exchange.ts';
import { type Arrival, type Flight, Flights, type Landing } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { invalidate } from './invalidate.ts';
import { isShareable, isWaitingVain, mayJoinFill, mayTakeAlong } from './join.ts';
import type { FillContext } from './new-fill.ts';
import { type Plan, planAnswer } from './plan.ts';
import { UnsharedKeys } from './unshared-keys.ts';

/** Answers requests from the store and the origin. */
export interface Cache {
  /** What a request gets; in the same tick when memory has it. Throws or rejects with `ProxyError`. */
  answer(inquiry: Inquiry): Answer | Promise<Answer>;
  /** Cuts off what is still under way between store and origin, and waits until it has ended. */
  close(): Promise<void>;
}

/** What a cache is made of. */
export type CacheContext = Omit<FillContext, 'unshared'>;

/** Creates the cache over a store. */
export function createCache(context: CacheContext): Cache {
  return new StoreCache(context);
}

/** A plan that needs the origin. */
type FetchPlan = Exclude<Plan, { kind: 'hit' }>;

class StoreCache implements Cache {
  readonly #context: FillContext;
  readonly #flights = new Flights();
  readonly #unshared = new UnsharedKeys();

  constructor(context: CacheContext) {
    this.#context = { ...context, unshared: this.#unshared };
  }

  answer(inquiry: Inquiry): Answer | Promise<Answer> {
    const bypass = decideBypass(inquiry);
    if (bypass !== undefined) return this.#pass(inquiry, bypass, bypass);
    const entries = this.#context.store.peek(inquiry.key);
    if (entries !== undefined) return this.#answerFrom(entries, inquiry);
    return this.#context.store.find(inquiry.key).then((found) => this.#answerFrom(found, inquiry));
  }

  close(): Promise<void> {
    return this.#flights.stopAll(new ProxyError('client_gone', { detail: 'the server stops' }));
  }

  #answerFrom(entries: readonly StoredEntry[], inquiry: Inquiry): Answer | Promise<Answer> {
    const plan = this.#plan(entries, inquiry);
    if (plan.kind === 'hit') return this.#hit(plan);
    if (parseRequestDirectives(inquiry.request.fields).onlyIfCached) throw new ProxyError('not_in_cache');
    if (plan.kind === 'fill' && this.#unshared.has(inquiry.key, this.#context.clock.now())) {
      return this.#pass(inquiry, plan.reason, 'unshared');
    }
    return this.#joinOrLead(inquiry, plan);
  }

  #plan(entries: readonly StoredEntry[], inquiry: Inquiry): Plan {
    return planAnswer(entries, inquiry, this.#context.clock.now());
  }

  #hit({ entry, ttlMs }: Extract<Plan, { kind: 'hit' }>): Answer {
    return hitAnswer(entry, ttlMs, this.#context.store.blockSizeBytes);
  }

  /** Waits for what others have started for this key; where that does not serve this request, starts a flight. */
  async #joinOrLead(inquiry: Inquiry, first: FetchPlan): Promise<Answer> {
    let plan = first;
    const tried = new Set<Flight>();
    for (let flight = this.#nextFlight(inquiry, plan, tried); flight !== undefined; ) {
      tried.add(flight);
      const arrival = await flight.wait(inquiry.request.signal);
      const joined = this.#answerArrival(arrival, inquiry, plan, true);
      if (joined !== undefined) return joined;
      // What was waited for was not for this request; what is may have been stored meanwhile.
      const again = this.#plan(await this.#context.store.find(inquiry.key), inquiry);
      if (again.kind === 'hit') return this.#hit(again);
      plan = again;
      flight = isWaitingVain(arrival, inquiry) ? undefined : this.#nextFlight(inquiry, plan, tried);
    }
    if (inquiry.request.method === 'HEAD') return await this.#pass(inquiry, plan.reason, 'method');
    return await this.#lead(inquiry, plan);
  }

  #nextFlight(inquiry: Inquiry, plan: FetchPlan, tried: ReadonlySet<Flight>): Flight | undefined {
    const now = this.#context.clock.now();
    const mayWait = plan.kind === 'fill' || isShareable(plan.entry.metadata, inquiry.policy);
    const mayJoin = ({ fill }: Flight) => (fill === undefined ? mayWait : mayJoinFill(fill, inquiry, now));
    return this.#flights.of(inquiry.key).findLast((flight) => !tried.has(flight) && mayJoin(flight));
  }

  async #lead(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const candidate = plan.kind === 'revalidate' ? plan : undefined;
    const flight = this.#flights.start(inquiry.key, inquiry.policy.onAbort, (clearance) =>
      exchange(this.#context, inquiry, candidate, clearance),
    );
    let arrival: Arrival;
    try {
      arrival = await flight.wait(inquiry.request.signal);
    } catch (error) {
      // A response that is for this request alone must not be left behind unread when its client has gone.
      void flight.landed.then(closeRelay);
      throw error;
    }
    const answer = this.#answerArrival(arrival, inquiry, plan, false);
    if (answer === undefined)
      throw new ProxyError('internal', { detail: 'a flight landed with nothing for its leader' });
    return answer;
  }

  /** Undefined when what has arrived does not serve this request. */
  #answerArrival(arrival: Arrival, inquiry: Inquiry, plan: FetchPlan, isJoined: boolean): Answer | undefined {
    const context: AnswerContext = {
      blockSizeBytes: this.#context.store.blockSizeBytes,
      policy: inquiry.policy,
      now: this.#context.clock.now(),
      forwardReason: plan.reason,
      isJoined,
    };
    const isFor = (response: StoredResponse) => !isJoined || mayTakeAlong(response, inquiry);
    switch (arrival.kind) {
      case 'fill':
        if (isFor(arrival.fill.response)) return fillAnswer(arrival.fill, arrival.representation, context);
        arrival.representation.close();
        return undefined;
      case 'revalidated':
        return isFor(arrival.entry.metadata) ? revalidatedAnswer(arrival.entry, context) : undefined;
      case 'relay':
        return isJoined ? undefined : relayAnswer(arrival.relay, plan.reason, arrival.reason);
      case 'failed':
        return answerFailure(arrival.failure, plan, context);
    }
  }

  /** Passes a request on as it is, and invalidates what an unsafe method has changed (RFC 9111 §4.4). */
  async #pass(inquiry: Inquiry, forwardReason: ForwardReason, reason: string): Promise<Answer> {
    const { request, originTarget, originFields, origin } = inquiry;
    const requestAt = this.#context.clock.now();
    const response = await origin.fetch({
      method: request.method,
      target: originTarget,
      fields: originFields,
      body: request.body,
      bodySizeBytes: request.bodySizeBytes,
      signal: request.signal,
      onInterim: inquiry.onInterim,
    });
    try {
      if (!isSafeMethod(request.method)) await invalidate(this.#context.store, this.#flights, inquiry, response);
    } catch (thrown) {
      response.body.close();
      throw thrown;
    }
    const relay = { response, requestAt, responseAt: this.#context.clock.now(), evaluated: true };
    return relayAnswer(relay, forwardReason, reason);
  }
}

/** Why a request is not for the cache. */
function decideBypass({ request, policy }: Inquiry): 'method' | 'bypass' | 'request' | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') return 'method';
  if (!policy.isEnabled || request.body !== undefined) return 'bypass';
  return parseRequestDirectives(request.fields).noStore ? 'request' : undefined;
}

/** What is stored where it may be served stale; otherwise throws the error, or gives nothing for a bad status. */
function answerFailure(failure: ProxyError | number, plan: FetchPlan, context: AnswerContext): Answer | undefined {
  if (plan.kind === 'revalidate' && plan.mayServeStale) return staleAnswer(plan.entry, failure, context);
  if (failure instanceof ProxyError) throw failure;
  return undefined;
}

function closeRelay(landing: Landing): void {
  if (landing.kind === 'relay') landing.relay.response.body.close();
}
