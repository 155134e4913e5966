/** The conversation between store and origin: what a request gets, and from where. */

import type { Fields } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { NominatedField } from '../http/stored-response.ts';
import { parseRequestDirectives } from '../semantics/cache-control.ts';
import type { ForwardReason } from '../semantics/cache-status.ts';
import { isSafeMethod } from '../semantics/method.ts';
import { matchesNominated } from '../semantics/vary.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Answer } from './answer.ts';
import { type AnswerContext, fillAnswer, hitAnswer, relayAnswer, revalidatedAnswer, staleAnswer } from './answers.ts';
import { type ExchangeContext, exchange } from './exchange.ts';
import { type Flight, Flights, type Landing } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { invalidate } from './invalidate.ts';
import { mayJoinFill } from './join.ts';
import { fillFields, type Plan, planAnswer } from './plan.ts';
import { UnsharedKeys } from './unshared-keys.ts';

/** Answers requests from the store and the origin. */
export interface Cache {
  /** What a request gets; in the same tick when memory has it. Throws or rejects with `ProxyError`. */
  answer(inquiry: Inquiry): Answer | Promise<Answer>;
  /** Cuts off the fills that still run, and waits until they have let go of the store. */
  close(): Promise<void>;
}

/** Creates the cache over a store. */
export function createCache(context: ExchangeContext): Cache {
  return new StoreCache(context);
}

class StoreCache implements Cache {
  readonly #context: ExchangeContext;
  readonly #flights = new Flights();
  readonly #unshared = new UnsharedKeys();

  constructor(context: ExchangeContext) {
    this.#context = context;
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

  #plan(entries: readonly StoredEntry[], { originFields, policy }: Inquiry): Plan {
    return planAnswer(entries, originFields, policy, this.#context.clock.now());
  }

  #hit({ entry, ttlMs }: Extract<Plan, { kind: 'hit' }>): Answer {
    return hitAnswer(entry, ttlMs, this.#context.store.blockSizeBytes);
  }

  /** Waits for what others have started for this key; where that does not serve this request, starts a flight. */
  async #joinOrLead(inquiry: Inquiry, first: Exclude<Plan, { kind: 'hit' }>): Promise<Answer> {
    let plan = first;
    const tried = new Set<Flight>();
    for (let flight = this.#nextFlight(inquiry, tried); flight !== undefined; ) {
      tried.add(flight);
      const landing = await flight.wait(inquiry.request.signal);
      const joined = this.#answerLanding(landing, inquiry, plan, true);
      if (joined !== undefined) return joined;
      if (landing.kind === 'relay') break;
      // What was waited for was another variant; the one asked for may have been stored meanwhile.
      const again = this.#plan(await this.#context.store.find(inquiry.key), inquiry);
      if (again.kind === 'hit') return this.#hit(again);
      plan = again;
      flight = this.#nextFlight(inquiry, tried);
    }
    if (inquiry.request.method === 'HEAD') return await this.#pass(inquiry, plan.reason, 'method');
    return await this.#lead(inquiry, plan);
  }

  #nextFlight(inquiry: Inquiry, tried: ReadonlySet<Flight>): Flight | undefined {
    const now = this.#context.clock.now();
    const mayJoin = ({ fill }: Flight) => fill === undefined || mayJoinFill(fill, inquiry, now);
    return this.#flights.of(inquiry.key).findLast((flight) => !tried.has(flight) && mayJoin(flight));
  }

  async #lead(inquiry: Inquiry, plan: Exclude<Plan, { kind: 'hit' }>): Promise<Answer> {
    const candidate = plan.kind === 'revalidate' ? plan : undefined;
    const flight = this.#flights.start(inquiry.key, inquiry.policy.onAbort, (signal) =>
      exchange(this.#context, inquiry, candidate, signal),
    );
    let landing: Landing;
    try {
      landing = await flight.wait(inquiry.request.signal);
    } catch (error) {
      // A response that is for this request alone must not be left behind unread when its client has gone.
      flight.landed.then(closeRelay, () => {});
      throw error;
    }
    if (landing.kind === 'relay') this.#unshared.note(inquiry.key, landing.reason, this.#context.clock.now());
    const answer = this.#answerLanding(landing, inquiry, plan, false);
    if (answer === undefined)
      throw new ProxyError('internal', { detail: 'a flight landed with nothing for its leader' });
    return answer;
  }

  /** Undefined when the landing does not serve this request. */
  #answerLanding(
    landing: Landing,
    inquiry: Inquiry,
    plan: Exclude<Plan, { kind: 'hit' }>,
    isJoined: boolean,
  ): Answer | undefined {
    const context: AnswerContext = {
      blockSizeBytes: this.#context.store.blockSizeBytes,
      policy: inquiry.policy,
      now: this.#context.clock.now(),
      forwardReason: plan.reason,
      isJoined,
    };
    if (landing.kind === 'relay') {
      return isJoined ? undefined : relayAnswer(landing.relay, plan.reason, landing.reason);
    }
    const { nominated } = landing.kind === 'fill' ? landing.fill.response : landing.entry.metadata;
    if (isJoined && !isSameVariant(nominated, inquiry.originFields)) return undefined;
    switch (landing.kind) {
      case 'fill':
        return fillAnswer(landing.fill, context);
      case 'revalidated':
        return revalidatedAnswer(landing.entry, context);
      case 'stale':
        return staleAnswer(landing, context);
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
    if (!isSafeMethod(request.method)) await invalidate(this.#context.store, this.#flights, inquiry, response);
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

function isSameVariant(nominated: readonly NominatedField[], originFields: Fields): boolean {
  return matchesNominated(nominated, fillFields(originFields));
}

function closeRelay(landing: Landing): void {
  if (landing.kind === 'relay') landing.relay.response.body.close();
}
