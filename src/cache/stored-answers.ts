/** Answers from what is stored, be it whole or in part; where it is in part, those who read it get the rest of the origin. */

import type { Span } from '../bytes/span.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Answer } from './answer.ts';
import { completedAnswer, hitAnswer, partialAnswer } from './answers.ts';
import { isHead, isOnlyIfCached } from './asked.ts';
import type { StoredPlan } from './course.ts';
import { reopenStored } from './exchange.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Exchange, Flight, Flights } from './flights.ts';
import { presentWithin } from './fragments.ts';
import type { Inquiry } from './inquiry.ts';
import type { Passing } from './passing.ts';
import { isUsable } from './plan.ts';
import { isPresent } from './presence.ts';
import type { ReadAheadRules } from './read-ahead.ts';
import type { ByteReader, Representation } from './representation.ts';
import { createStoredRepresentation } from './stored-representation.ts';

/** Opens entries, and has damaged ones mended. */
export class StoredAnswers {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;
  readonly #passing: Passing;
  readonly #reading: ReadAheadRules;

  constructor(context: ExchangeContext, flights: Flights, passing: Passing) {
    this.#context = context;
    this.#flights = flights;
    this.#passing = passing;
    this.#reading = { blockSizeBytes: context.store.blockSizeBytes, budget: context.readAhead };
  }

  /** With an entry as it is; in the same tick where no more is wanted than is there. */
  hit(plan: StoredPlan, inquiry: Inquiry): Answer | Promise<Answer> {
    const { entry, ttlMs } = plan;
    const present = (stored: StoredEntry) => this.present(stored, inquiry);
    if (plan.kind === 'fragment') {
      return hitAnswer(entry, ttlMs, { present: (stored) => presentWithin(present(stored), plan.span) });
    }
    if (entry.isComplete || isHead(inquiry)) return hitAnswer(entry, ttlMs, { present });
    return this.#partial(entry, ttlMs, inquiry);
  }

  /** Opens a stored generation that is there in part, or joins those who have it open. */
  async #partial(entry: StoredEntry, ttlMs: number, inquiry: Inquiry): Promise<Answer> {
    const open = this.#flights.holderOf(inquiry.key, entry.generation);
    // Those who read it may take their time, and nobody else can open it before they are done.
    if (open === 'held') return await this.#passing.pass(inquiry, 'uri-miss', 'store-unavailable');
    const arrival = await (open ?? this.#reopen(entry, inquiry)).lead(inquiry);
    if (arrival.kind === 'unusable') return await this.#passing.pass(inquiry, 'uri-miss', arrival.reason);
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

  /** Makes an entry readable. */
  present(entry: StoredEntry, inquiry: Inquiry): Representation {
    return createStoredRepresentation(entry, this.#reading, (rest) => this.#mend(entry, inquiry, rest));
  }

  /** Reads on where a block turned out to be damaged after the head was sent: that block is fetched again. */
  async #mend(entry: StoredEntry, inquiry: Inquiry, rest: readonly Span[]): Promise<ByteReader> {
    const { store, clock } = this.#context;
    const entries = await store.find(inquiry.key);
    const damaged = entries.find(({ generation }) => generation === entry.generation);
    if (damaged === undefined || !isUsable({ ...damaged, isComplete: false }, clock.now())) {
      throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and cannot be had again by itself' });
    }
    const answer = await this.#partial(damaged, 0, inquiry);
    if (answer.kind === 'representation') return await answer.representation.open(rest, inquiry.request.signal);
    answer.relay.response.body.close();
    throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and the rest cannot be opened' });
  }

  #reopen(entry: StoredEntry, inquiry: Inquiry): Flight {
    const reopen: Exchange = async (clearance) => {
      await this.#flights.released(entry.generation);
      return await reopenStored(this.#context, inquiry, entry, clearance);
    };
    return this.#flights.start(inquiry.key, 'finish', reopen, entry.generation);
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
