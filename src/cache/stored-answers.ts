/** Answers from what is stored, be it whole or in part; where it is in part, those who read it get the rest of the origin. */

import type { Span } from '../bytes/span.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Answer } from './answer.ts';
import { completedAnswer, generationAnswer, hitAnswer, partialAnswer } from './answers.ts';
import { isHead, isOnlyIfCached } from './asked.ts';
import { Asker, isFor } from './asker.ts';
import type { Company } from './company.ts';
import type { StoredPlan } from './course.ts';
import { reopenStored } from './exchange.ts';
import type { ExchangeContext } from './exchange-context.ts';
import { finishAlways } from './fill-policy.ts';
import type { Right } from './fleet.ts';
import type { Arrival, Exchange, Flight } from './flight.ts';
import type { Flights } from './flights.ts';
import { presentWithin } from './fragments.ts';
import type { Inquiry } from './inquiry.ts';
import type { OpenGeneration } from './opened.ts';
import type { Passing } from './passing.ts';
import { isUsable } from './plan.ts';
import { isPresent } from './presence.ts';
import type { ReadAheadRules } from './read-ahead.ts';
import type { ByteReader, Representation } from './representation.ts';
import { createStoredRepresentation } from './stored-representation.ts';
import { isSameVersion, type Version, type Versioned, versionOf } from './version.ts';

/** Opens entries, and has damaged ones mended. */
export class StoredAnswers {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;
  readonly #passing: Passing;
  readonly #reading: ReadAheadRules;

  readonly #company: Company;

  constructor(context: ExchangeContext, flights: Flights, passing: Passing, company: Company) {
    this.#context = context;
    this.#flights = flights;
    this.#passing = passing;
    this.#company = company;
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
    let arrival: Arrival;
    try {
      const open = this.#flights.holderOf(inquiry.key, entry.generation);
      // Those who read it may take their time, and nobody else can open it before they are done.
      if (open === 'held') return await this.#passing.pass(inquiry, 'uri-miss', 'store-unavailable');
      arrival = await (open ?? this.#reopen(entry, inquiry)).lead(inquiry);
    } finally {
      right.lease.release();
    }
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

  async #elsewhere(right: Right | Promise<Right>, inquiry: Inquiry, given: Version | undefined): Promise<Answer> {
    const answer = await this.#company.ask(inquiry, right, given);
    return answer ?? (await this.#passing.pass(inquiry, 'uri-miss', 'lease-unavailable'));
  }

  /**
   * What a request has been given a part of, where it is stored or being put together here; undefined where it is not. How
   * fresh it is does not matter any more.
   */
  async continued(entries: readonly StoredEntry[], inquiry: Inquiry, given: Version): Promise<Answer | undefined> {
    const now = this.#context.clock.now();
    const isGiven = ({ metadata: response, sizeBytes, generation }: StoredEntry) =>
      isSameVersion(versionOf({ response, sizeBytes, generation }, now), given) &&
      (generation === given.generation || isFor(response, inquiry));
    const entry = entries.find((stored) => isGiven(stored) && isUsable(stored, now));
    if (entry !== undefined) return await this.hit({ kind: 'hit', entry, ttlMs: 0, isValidated: false }, inquiry);
    const flight = this.#flights.of(inquiry.key).findLast(({ generation }) => {
      if (generation === undefined || !isSameVersion(versionOf(ofGeneration(generation), now), given)) return false;
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
    const known = versionOf({ ...damaged, response: damaged.metadata }, clock.now());
    const answer = await this.#partial(damaged, 0, inquiry, known);
    if (answer.kind === 'representation') {
      const { representation } = answer;
      const isSame = isSameVersion(versionOf(representation, clock.now()), known);
      if (isSame) return await representation.open(rest, inquiry.request.signal);
      representation.close();
    } else {
      answer.relay.response.body.close();
    }
    throw new ProxyError('bytes_gone', { detail: 'a block is damaged, and the rest cannot be opened' });
  }

  #reopen(entry: StoredEntry, inquiry: Inquiry): Flight {
    const reopen: Exchange = async (clearance) => {
      await this.#flights.released(entry.generation);
      return await reopenStored(this.#context, inquiry, entry, clearance);
    };
    return this.#flights.start(inquiry.key, finishAlways, reopen, {
      leader: new Asker(inquiry),
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
