/** Answers from what an exchange came to: for the request that has started it, and for those that have waited for it. */

import { ProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { Answer } from './answer.ts';
import { type AnswerContext, generationAnswer, relayAnswer, revalidatedAnswer, staleAnswer } from './answers.ts';
import type { FetchPlan } from './course.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Arrival } from './flight.ts';
import type { Inquiry } from './inquiry.ts';
import { mayTakeAlong } from './join.ts';
import { withMoreFields } from './representation.ts';
import type { StoredAnswers } from './stored-answers.ts';

/** Makes answers of arrivals. */
export class LandedAnswers {
  readonly #context: Pick<ExchangeContext, 'clock'>;
  readonly #stored: StoredAnswers;

  constructor(context: Pick<ExchangeContext, 'clock'>, stored: StoredAnswers) {
    this.#context = context;
    this.#stored = stored;
  }

  /** Undefined when what has arrived does not serve this request. */
  answer(
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
