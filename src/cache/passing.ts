/** Requests that go to the origin as they are, and what its responses tell of what is stored. */

import { ProxyError } from '../http/proxy-error.ts';
import type { ForwardReason } from '../semantics/cache-status.ts';
import { freshened } from '../semantics/freshen.ts';
import { decideHeadEffect } from '../semantics/head.ts';
import { isSafeMethod } from '../semantics/method.ts';
import { decideStoring } from '../semantics/storing.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Answer } from './answer.ts';
import { generationAnswer, relayAnswer } from './answers.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Flights } from './flights.ts';
import { isFragment } from './fragments.ts';
import { withGroupTags } from './group-tags.ts';
import type { Inquiry } from './inquiry.ts';
import { invalidate } from './invalidate.ts';
import { isSameVariant } from './join.ts';
import { landPosted } from './land-whole.ts';
import type { Received } from './open-generation.ts';
import { selectPosted } from './posted.ts';

/** Passes requests on, and keeps what is known of stored responses true. */
export class Passing {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;

  constructor(context: ExchangeContext, flights: Flights) {
    this.#context = context;
    this.#flights = flights;
  }

  /** Passes a request on as it is. What a POST brings for a later GET is kept (RFC 9110 §9.3.3). Throws `ProxyError`. */
  async pass(inquiry: Inquiry, forwardReason: ForwardReason, reason: string): Promise<Answer> {
    const received = await this.#fetch(inquiry, forwardReason);
    const posted = forwardReason === 'method' ? selectPosted(inquiry, received) : undefined;
    if (posted === undefined) return relayAnswer({ ...received, evaluated: true }, forwardReason, reason);
    const flight = this.#flights.start(inquiry.key, posted.policy.fill.onAbort, (clearance) =>
      landPosted(this.#context, posted, received, clearance),
    );
    const arrival = await flight.lead(inquiry.request.signal);
    switch (arrival.kind) {
      case 'generation':
        return generationAnswer(arrival.generation, arrival.representation, { forwardReason, isJoined: false });
      case 'relay':
        return relayAnswer({ ...arrival.relay, evaluated: true }, forwardReason, arrival.reason);
      default:
        throw new ProxyError('internal', { detail: `a response to POST landed as ${arrival.kind}` });
    }
  }

  /** An unsafe method invalidates what it has changed (RFC 9111 §4.4); a HEAD tells of what a GET has stored (§4.3.5). */
  async #fetch(inquiry: Inquiry, forwardReason: ForwardReason): Promise<Received> {
    const { request, originTarget, originFields, origin } = inquiry;
    const { store, clock } = this.#context;
    const requestAt = clock.now();
    const response = await origin.fetch({
      method: request.method,
      target: originTarget,
      fields: originFields,
      body: request.body,
      bodySizeBytes: request.bodySizeBytes,
      signal: request.signal,
      onInterim: inquiry.onInterim,
    });
    const received = { response, requestAt, responseAt: clock.now() };
    try {
      if (!isSafeMethod(request.method)) await invalidate(store, this.#flights, inquiry, response);
      if (request.method === 'HEAD' && forwardReason !== 'bypass')
        await learnFromHead(this.#context, this.#flights, inquiry, received);
    } catch (thrown) {
      response.body.close();
      throw thrown;
    }
    return received;
  }
}

async function learnFromHead(
  context: ExchangeContext,
  flights: Flights,
  inquiry: Inquiry,
  received: Received,
): Promise<void> {
  if (received.response.status !== 200) return;
  const entries = await context.store.find(inquiry.key);
  const concerned = entries.filter(
    (entry) => entry.pinnedUntil === undefined && !isFragment(entry.metadata) && isSameVariant(entry.metadata, inquiry),
  );
  for (const entry of concerned) {
    const metadata = learnt(entry, inquiry, received);
    const updated = metadata === undefined ? undefined : await context.store.replaceMetadata(entry, metadata);
    if (updated !== undefined) flights.freshen(updated);
  }
}

/** What is known of an entry after a HEAD; undefined where that was for its client alone. */
function learnt(
  { metadata, sizeBytes }: StoredEntry,
  inquiry: Inquiry,
  { response, requestAt, responseAt }: Received,
): StoredEntry['metadata'] | undefined {
  const { originFields, policy } = inquiry;
  if (decideHeadEffect(metadata, sizeBytes, response.fields) === 'invalidate') return { ...metadata, isInvalid: true };
  const fresh = withGroupTags(freshened(metadata, response, requestAt, responseAt, policy), inquiry);
  const decision = decideStoring({ request: { method: 'GET', fields: originFields }, response: fresh, policy });
  return decision.kind === 'store' ? fresh : undefined;
}
