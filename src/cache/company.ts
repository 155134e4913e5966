/** What a request gets where another process may have the lease of its key: under the lease here, or from the one that has it. */

import { changedRequest } from '../http/changed-request.ts';
import type { BodyStream } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Answer } from './answer.ts';
import { fillFields } from './asked.ts';
import { createContinuedRepresentation } from './continued-representation.ts';
import type { ExchangeContext } from './exchange-context.ts';
import { type HeldAnswer, type Holder, HolderLost, type Lease, type Right } from './fleet.ts';
import { changedInquiry, type Inquiry } from './inquiry.ts';
import { withoutCredentials } from './open-generation.ts';
import type { Relay } from './representation.ts';
import type { Version } from './version.ts';

/**
 * So often the lease is asked for on behalf of one request: it passes on while it is asked for, and who has it dies. Then the
 * request goes to the origin for itself alone.
 */
const MAX_ROUNDS = 5;

/**
 * Answers under a lease that has been waited for, which it gives back: with what is stored by now, or what a flight brings.
 * `given` is what the request has been given a part of, and is to go on with if that can be had. Undefined where the request
 * is to go its own way.
 */
export type AnswerUnder = (lease: Lease, inquiry: Inquiry, given?: Version) => Promise<Answer | undefined>;

/** The other processes, as requests meet them. */
export class Company {
  readonly #context: ExchangeContext;
  readonly #answerUnder: AnswerUnder;

  constructor(context: ExchangeContext, answerUnder: AnswerUnder) {
    this.#context = context;
    this.#answerUnder = answerUnder;
  }

  /**
   * Where the lease is granted, what is stored is looked up anew: whoever had it may have stored what is wanted. A change of
   * the store is told to all processes, and heeded by them, before the step that has caused it is over; the flight that has
   * taken the step ends after it, and gives its lease back then. So whoever is granted it next finds all of it by
   * `Store.find`, and needs not look past what it has in memory.
   *
   * Undefined where the request is to go its own way. Rejects with `ProxyError`, or the signal's reason.
   */
  async ask(inquiry: Inquiry, first: Right | Promise<Right>, given?: Version): Promise<Answer | undefined> {
    const { key, request } = inquiry;
    let lost: Holder | undefined;
    for (let round = 1; round <= MAX_ROUNDS; round += 1) {
      const asked = round === 1 ? first : this.#context.fleet.acquire(key, request.signal, lost);
      const right = await this.#granted(asked, inquiry);
      if (right === undefined) return undefined;
      if (right.kind === 'ours') return await this.#answerUnder(right.lease, inquiry, given);
      const held = await askHolder(right.holder, inquiry, given);
      if (held !== undefined && held !== 'lost') {
        this.#learn(key, held);
        return held.answer && this.#continuing(held.answer, right.holder, inquiry);
      }
      lost = held === 'lost' ? right.holder : undefined;
    }
    return undefined;
  }

  /** Undefined where nobody can tell who has the lease: the one who keeps the table is gone. */
  async #granted(asked: Right | Promise<Right>, { request }: Inquiry): Promise<Right | undefined> {
    try {
      return await asked;
    } catch {
      request.signal.throwIfAborted();
      return undefined;
    }
  }

  /** What has turned out there is known here too. */
  #learn(key: string, { answer, unshared, refusal }: HeldAnswer): void {
    const { unshared: keys, refusals, clock } = this.#context;
    if (unshared !== undefined) keys.learn(key, unshared, clock.now());
    if (refusal !== undefined) refusals.note(key, refusal);
    else if (answer?.kind === 'representation') refusals.forget(key);
  }

  /** An answer that outlives the process that gives it, as far as its bytes can be had elsewhere. */
  #continuing(answer: Answer, holder: Holder, inquiry: Inquiry): Answer {
    if (answer.kind === 'relay') return { ...answer, relay: severable(answer.relay) };
    const { fleet, clock } = this.#context;
    const { key, request } = inquiry;
    const { response } = answer.representation;
    const elsewhere = async (given: Version, lost: Holder) => {
      const whole = withoutCredentials(wholeOf(inquiry), response);
      const next = await this.ask(whole, fleet.acquire(key, request.signal, lost), given);
      if (next?.kind === 'representation') return next.representation;
      next?.relay.response.body.close();
      // What is passed on is nothing to go on with: the store takes no more, or the origin says something else.
      const isOther = next !== undefined && next.relay.response.status !== 200;
      throw new ProxyError(isOther ? 'origin_failed_rest' : 'bytes_gone', {
        detail: 'it cannot be had from elsewhere',
      });
    };
    return {
      ...answer,
      representation: createContinuedRepresentation(answer.representation, { holder, elsewhere, clock }),
    };
  }
}

/** What is passed on comes once: it breaks off with the process that it comes through. */
function severable(relay: Relay): Relay {
  const { body } = relay.response;
  const severed: BodyStream = {
    trailers: body.trailers,
    close: () => body.close(),
    async *[Symbol.asyncIterator]() {
      try {
        yield* body;
      } catch (thrown) {
        if (!(thrown instanceof HolderLost)) throw thrown;
        throw new ProxyError('origin_reset', { detail: 'the process that has passed it on is lost' });
      }
    },
  };
  return { ...relay, response: { ...relay.response, body: severed } };
}

/** The question of one who has its head already: the part that it wants is a matter of its reader. */
function wholeOf(inquiry: Inquiry): Inquiry {
  const { request, originFields } = inquiry;
  return changedInquiry(inquiry, {
    request: changedRequest(request, { fields: fillFields(request.fields) }),
    originFields: fillFields(originFields),
    onInterim: () => {},
  });
}

async function askHolder(
  holder: Holder,
  inquiry: Inquiry,
  given: Version | undefined,
): Promise<HeldAnswer | 'lost' | undefined> {
  try {
    return await holder.answer(inquiry, given);
  } catch (thrown) {
    if (thrown instanceof HolderLost) return 'lost';
    throw thrown;
  }
}
