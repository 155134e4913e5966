/** The conversation between store and origin: what a request gets, and from where. */

import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { StoredEntry } from '../store/store.ts';
import { Telling } from '../store/telling.ts';
import { createUseCounts } from './admission.ts';
import type { Answer } from './answer.ts';
import {
  type AnswerContext,
  failedStatus,
  generationAnswer,
  relayAnswer,
  revalidatedAnswer,
  staleAnswer,
} from './answers.ts';
import { isHead, isOnlyIfCached } from './asked.ts';
import { decideCourse, type FetchPlan, type StoredPlan } from './course.ts';
import { type Candidate, exchange } from './exchange.ts';
import type { ExchangeContext } from './exchange-context.ts';
import { explainInquiry } from './explain.ts';
import type { Explained } from './explanation.ts';
import { type Arrival, type Flight, Flights } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { isOfLeader, isWaitingVain, mayTakeAlong, selectFlight } from './join.ts';
import { isBeingValidated, unattended } from './meanwhile.ts';
import { Passing } from './passing.ts';
import { decideBypass, type Plan, planAnswer } from './plan.ts';
import { Refusals } from './refusals.ts';
import { withMoreFields } from './representation.ts';
import { StoredAnswers } from './stored-answers.ts';
import { UnsharedKeys } from './unshared-keys.ts';

/** Answers requests from the store and the origin. */
export interface Cache {
  /** What a request gets; in the same tick when memory has it. Throws or rejects with `ProxyError`. */
  answer(inquiry: Inquiry): Answer | Promise<Answer>;
  /** What the origin says, for a request whose stored bytes cannot be read now. Rejects with `ProxyError`. */
  passBy(inquiry: Inquiry): Promise<Answer>;
  /** What `answer` would do now. Asks nothing of the origin and changes nothing. */
  explain(inquiry: Inquiry): Promise<Explained>;
  /** Cuts off what is still under way between store and origin, and waits until it has ended. */
  close(): Promise<void>;
}

/** What a cache is made of. */
export type CacheContext = Omit<ExchangeContext, 'unshared' | 'refusals' | 'telling'>;

/** Creates the cache over a store. */
export function createCache(context: CacheContext): Cache {
  return new StoreCache(context);
}

/** Of how many keys it is known how often they were asked for. */
const MAX_COUNTED_KEYS = 100_000;

class StoreCache implements Cache {
  readonly #context: ExchangeContext;
  readonly #stored: StoredAnswers;
  readonly #flights = new Flights();
  readonly #passing: Passing;
  readonly #unshared = new UnsharedKeys();
  readonly #uses = createUseCounts({ maxKeys: MAX_COUNTED_KEYS });

  constructor(context: CacheContext) {
    this.#context = { ...context, unshared: this.#unshared, refusals: new Refusals(), telling: new Telling() };
    this.#passing = new Passing(this.#context, this.#flights);
    this.#stored = new StoredAnswers(this.#context, this.#flights, this.#passing);
  }

  answer(inquiry: Inquiry): Answer | Promise<Answer> {
    const bypass = decideBypass(inquiry);
    if (bypass !== undefined) return this.#passing.pass(inquiry, bypass, bypass);
    const entries = this.#context.store.peek(inquiry.key);
    if (entries !== undefined) return this.#answerFrom(entries, inquiry);
    return this.#context.store.find(inquiry.key).then((found) => this.#answerFrom(found, inquiry));
  }

  async passBy(inquiry: Inquiry): Promise<Answer> {
    if (isOnlyIfCached(inquiry)) throw new ProxyError('not_in_cache');
    return await this.#passing.pass(inquiry, 'miss', 'bytes_gone');
  }

  explain(inquiry: Inquiry): Promise<Explained> {
    return explainInquiry({ ...this.#context, flights: this.#flights, uses: this.#uses }, inquiry);
  }

  close(): Promise<void> {
    return this.#flights.stopAll(new ProxyError('client_gone', { detail: 'the server stops' }));
  }

  #answerFrom(entries: readonly StoredEntry[], inquiry: Inquiry): Answer | Promise<Answer> {
    const { key } = inquiry;
    const course = decideCourse(this.#plan(entries, inquiry), inquiry, {
      unshared: () => this.#unshared.why(key, this.#context.clock.now()),
      uses: () => this.#uses.note(key),
    });
    switch (course.kind) {
      case 'stored':
        return this.#hit(course.plan, inquiry);
      case 'refuse':
        throw new ProxyError('not_in_cache');
      case 'pass':
        return this.#passing.pass(inquiry, course.plan.reason, course.reason);
      case 'fetch':
        return course.isAlone ? this.#lead(inquiry, course.plan) : this.#joinOrLead(inquiry, course.plan);
    }
  }

  #plan(entries: readonly StoredEntry[], inquiry: Inquiry): Plan {
    return planAnswer(entries, inquiry, this.#context.clock.now());
  }

  #hit(plan: StoredPlan, inquiry: Inquiry): Answer | Promise<Answer> {
    if (plan.kind === 'hit' && plan.isValidated) this.#validateMeanwhile(plan.entry, inquiry);
    return this.#stored.hit(plan, inquiry);
  }

  /** Waits for what others have started for this key; where that does not serve this request, starts a flight. */
  async #joinOrLead(inquiry: Inquiry, first: FetchPlan): Promise<Answer> {
    let plan = first;
    const tried = new Set<Flight>();
    for (let flight = this.#nextFlight(inquiry, plan, tried); flight !== undefined; ) {
      tried.add(flight);
      const arrival = await flight.wait(inquiry);
      const joined = isOfLeader(arrival, inquiry) ? undefined : await this.#answerArrival(arrival, inquiry, plan, true);
      if (joined !== undefined) return joined;
      // What was waited for was not for this request; what is may have been stored meanwhile.
      const again = this.#plan(await this.#context.store.find(inquiry.key), inquiry);
      if (again.kind === 'hit' || again.kind === 'fragment') return this.#hit(again, inquiry);
      plan = again;
      flight = isWaitingVain(arrival, inquiry, this.#context.clock.now())
        ? undefined
        : this.#nextFlight(inquiry, plan, tried);
    }
    return isHead(inquiry) ? await this.#passHead(inquiry, plan) : await this.#lead(inquiry, plan);
  }

  #nextFlight(inquiry: Inquiry, plan: FetchPlan, tried: ReadonlySet<Flight>): Flight | undefined {
    const untried = this.#flights.of(inquiry.key).filter((flight) => !tried.has(flight));
    return selectFlight(untried, inquiry, plan, this.#context.clock.now());
  }

  async #lead(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const candidate = plan.kind === 'revalidate' ? plan : undefined;
    const arrival = await this.#fly(inquiry, candidate).lead(inquiry);
    if (arrival.kind === 'unusable') return await this.#passing.pass(inquiry, plan.reason, arrival.reason);
    const answer = await this.#answerArrival(arrival, inquiry, plan, false);
    // An error was put aside for a stale response that cannot be given any more.
    return answer ?? (await this.#passing.pass(inquiry, plan.reason, 'status'));
  }

  /** A HEAD goes to the origin as it is; where that fails, it gets what a GET would. */
  async #passHead(inquiry: Inquiry, plan: FetchPlan): Promise<Answer> {
    const passed = await this.#passing.pass(inquiry, plan.reason, 'method').catch(toProxyError);
    const failure = passed instanceof ProxyError ? passed : failedStatus(passed);
    const arrival = failure && ({ kind: 'failed', failure, client: inquiry.client } as const);
    const stale = arrival ? await this.#answerArrival(arrival, inquiry, plan, false) : undefined;
    if (passed instanceof ProxyError) return stale ?? Promise.reject(passed);
    if (stale !== undefined && passed.kind === 'relay') passed.relay.response.body.close();
    return stale ?? passed;
  }

  #fly(inquiry: Inquiry, candidate: Candidate | undefined): Flight {
    return this.#flights.start(inquiry.key, inquiry.policy.fill.onAbort, (clearance) =>
      exchange(this.#context, inquiry, candidate, clearance),
    );
  }

  /** Validates what is being served stale, once however many ask for it; not so soon again where it cannot be kept. */
  #validateMeanwhile(entry: StoredEntry, inquiry: Inquiry): void {
    const isUnshared = this.#unshared.has(inquiry.key, this.#context.clock.now());
    if (isUnshared || isBeingValidated(this.#flights.of(inquiry.key), entry, inquiry)) return;
    this.#fly(unattended(inquiry), { entry, serveStaleUntil: Number.POSITIVE_INFINITY }).abandonRelay();
  }

  /** Undefined when what has arrived does not serve this request. */
  #answerArrival(
    arrival: Arrival,
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
          return generationAnswer(arrival.generation, withMoreFields(arrival.representation, personal), context);
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
