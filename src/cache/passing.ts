/** Requests that go to the origin as they are, and what its responses tell of what is stored. */

import { withField } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { createTether } from '../http/tether.ts';
import type { ForwardReason } from '../semantics/cache-status.ts';
import { isSafeMethod } from '../semantics/method.ts';
import { decideStoring } from '../semantics/storing.ts';
import type { Answer } from './answer.ts';
import { generationAnswer, relayAnswer } from './answers.ts';
import { passedFields } from './asked.ts';
import { Asker } from './asker.ts';
import { errandOf } from './errand.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Arrival } from './flight.ts';
import type { Flights } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { invalidate } from './invalidate.ts';
import { landPosted } from './land-whole.ts';
import { findLength, learnFromHead } from './learn-head.ts';
import type { Received } from './open-generation.ts';
import { selectPosted } from './posted.ts';
import { type Relay, withMoreFields } from './representation.ts';
import { responseTags } from './tags.ts';

/** Passes requests on, and keeps what is known of stored responses true. */
export class Passing {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;

  constructor(context: ExchangeContext, flights: Flights) {
    this.#context = context;
    this.#flights = flights;
  }

  /** Passes a request on as it is. Throws `ProxyError`. */
  async pass(inquiry: Inquiry, forwardReason: ForwardReason, reason: string): Promise<Answer> {
    const { method, signal } = inquiry.request;
    if (method === 'POST' && forwardReason === 'method') return await this.#post(inquiry);
    const received = await this.#ask(inquiry, signal);
    this.#note(inquiry, reason, received);
    await this.#takeEffect(inquiry, forwardReason, received);
    const relay = { ...received, evaluated: true };
    const isHead = method === 'HEAD' && forwardReason !== 'bypass';
    return relayAnswer(isHead ? await this.#completeHead(inquiry, relay) : relay, forwardReason, reason);
  }

  /** Adds to the response to a HEAD what is known here of the response to a GET. */
  async #completeHead(inquiry: Inquiry, relay: Received & Relay): Promise<Relay> {
    const { response, responseAt } = relay;
    const { originFields, policy } = inquiry;
    const sizeBytes = await findLength(this.#context, this.#flights, inquiry, relay);
    const fields =
      sizeBytes === undefined ? response.fields : withField(response.fields, 'content-length', String(sizeBytes));
    const request = { method: 'GET', fields: originFields };
    const decision = decideStoring({ request, response: { ...response, responseAt }, policy });
    return { ...relay, response: { ...response, fields }, isStorable: decision.kind === 'store' };
  }

  /** Passes a POST on. What it brings for a later GET is kept (RFC 9110 §9.3.3), unless that is outdated already. */
  async #post(inquiry: Inquiry): Promise<Answer> {
    using before = this.#flights.watch(inquiry.key);
    const tether = createTether(inquiry.request.signal);
    const received = await this.#ask(inquiry, tether.signal);
    const posted = selectPosted(inquiry, received);
    const tags = responseTags(received.response.fields, inquiry);
    const isOutdated = before.concerns(tags);
    const effect = this.#takeEffect(inquiry, 'method', received);
    // Its own invalidation has been noted by now.
    using since = this.#flights.watch(inquiry.key);
    await effect;
    // Who asks another process for it can read it along only where this one has the lease; it is kept without, too.
    const asked = posted && this.#context.fleet.acquire(inquiry.key, tether.signal);
    const right = asked instanceof Promise ? await asked.catch(() => undefined) : asked;
    try {
      if (posted === undefined || isOutdated || since.concerns(tags)) {
        return relayAnswer({ ...received, evaluated: true }, 'method', 'method');
      }
      // What is kept belongs to no client.
      tether.release();
      const flight = this.#flights.start(
        inquiry.key,
        posted.policy.fill,
        (clearance) => landPosted(this.#context, posted, received, clearance),
        { leader: new Asker(posted) },
      );
      return answerPosted(await flight.lead(inquiry));
    } finally {
      if (right?.kind === 'ours') right.lease.release();
    }
  }

  /** What is not shared has been refused for a reason of its own, which is noted already. */
  #note({ request, key }: Inquiry, reason: string, { response, responseAt }: Received): void {
    if (request.method !== 'GET' || reason === 'unshared') return;
    this.#context.refusals.note(key, { reason, status: response.status, at: responseAt });
  }

  async #ask(inquiry: Inquiry, signal: AbortSignal): Promise<Received> {
    const { request, originTarget, originFields, origin, onInterim } = inquiry;
    const requestAt = this.#context.clock.now();
    const errand = errandOf(inquiry);
    const response = await origin.fetch({
      method: request.method,
      target: originTarget,
      fields: passedFields(originFields),
      body: request.body,
      bodySizeBytes: request.bodySizeBytes,
      signal,
      onInterim,
      errand,
    });
    return { response, requestAt, responseAt: this.#context.clock.now(), errand };
  }

  /** An unsafe method invalidates what it has changed (RFC 9111 §4.4); a HEAD tells of what a GET has stored (§4.3.5). */
  async #takeEffect(inquiry: Inquiry, forwardReason: ForwardReason, received: Received): Promise<void> {
    const { method } = inquiry.request;
    try {
      if (!isSafeMethod(method)) await invalidate(this.#context, this.#flights, inquiry, received.response);
      if (method === 'HEAD' && forwardReason !== 'bypass')
        await learnFromHead(this.#context, this.#flights, inquiry, received);
    } catch (thrown) {
      received.response.body.close();
      throw thrown;
    }
  }
}

function answerPosted(arrival: Arrival): Answer {
  switch (arrival.kind) {
    case 'generation': {
      const representation = withMoreFields(arrival.representation, arrival.personal ?? []);
      return generationAnswer(arrival.generation, representation, { forwardReason: 'method', isJoined: false });
    }
    case 'relay':
      return relayAnswer({ ...arrival.relay, evaluated: true }, 'method', arrival.reason);
    default:
      throw arrival.kind === 'failed' && arrival.failure instanceof ProxyError
        ? arrival.failure
        : new ProxyError('internal', { detail: `a response to POST landed as ${arrival.kind}` });
  }
}
