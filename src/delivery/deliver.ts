/** From an answer to a response: preconditions, range selection, status, fields, body. */

import type { Span } from '../bytes/span.ts';
import type { Answer } from '../cache/answer.ts';
import type { Representation } from '../cache/representation.ts';
import { type Fields, withField } from '../http/fields.ts';
import type { Body, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { formatContentRange } from '../semantics/content-range.ts';
import { withReprDigest } from '../semantics/digest.ts';
import { type EarlySelection, type RangeSpec, selectBeforeLength } from '../semantics/range.ts';
import type { DeliveryContext } from './context.ts';
import { frameParts } from './multipart.ts';
import { bodyOfPieces, type Piece, sizeOfPieces, unreadBody } from './pieces.ts';
import { preconditionFailed, rangeNotSatisfiable } from './refusals.ts';
import { deliverRelay } from './relay.ts';
import { headFields, representationFields, selectNotModifiedFields } from './response-fields.ts';
import { type DecidedSelection, type PartialSelection, selectDelivery, selectSpecs } from './selection.ts';

type RepresentationAnswer = Extract<Answer, { kind: 'representation' }>;

/**
 * Makes the response, in the same tick where memory has what it takes. Rejects with `ProxyError`: `bytes_gone` when the
 * representation is not there any more, `client_gone` when the client left while it was waited for.
 */
export function deliver(
  request: ProxyRequest,
  answer: Answer,
  context: DeliveryContext,
): ProxyResponse | Promise<ProxyResponse> {
  if (answer.kind === 'relay') return deliverRelay(request, answer, context);
  const { representation } = answer;
  const response = deliverRepresentation(request, answer, context);
  if (response instanceof Promise) return response.finally(() => representation.close());
  representation.close();
  return response;
}

function deliverRepresentation(
  request: ProxyRequest,
  answer: RepresentationAnswer,
  context: DeliveryContext,
): ProxyResponse | Promise<ProxyResponse> {
  const { response, sizeBytes } = answer.representation;
  const selection = selectDelivery(request, response, sizeBytes, context.rules, context.clock.now());
  const delivery = new Deliverer(request, answer, context);
  return selection.kind === 'undecided' ? delivery.decideLater(selection.specs) : delivery.perform(selection);
}

/** One delivery from a representation. */
class Deliverer {
  readonly #request: ProxyRequest;
  readonly #representation: Representation;
  readonly #context: DeliveryContext;
  readonly #answer: RepresentationAnswer;

  constructor(request: ProxyRequest, answer: RepresentationAnswer, context: DeliveryContext) {
    this.#request = request;
    this.#representation = answer.representation;
    this.#context = context;
    this.#answer = answer;
  }

  perform(selection: DecidedSelection): ProxyResponse | Promise<ProxyResponse> {
    switch (selection.kind) {
      case 'not-modified':
        return { status: 304, fields: selectNotModifiedFields(this.#fields(false)), body: { kind: 'none' } };
      case 'precondition-failed':
        return this.#forwarded(preconditionFailed(this.#answer));
      case 'unsatisfiable':
        return this.#forwarded(rangeNotSatisfiable(selection.sizeBytes, this.#answer));
      case 'whole':
        return this.#whole();
      case 'partial':
        return this.#partial(selection);
    }
  }

  /** Ranges of a representation whose length is not known yet. Where waiting for it is in vain, they get the whole. */
  async decideLater(specs: readonly RangeSpec[]): Promise<ProxyResponse> {
    const early = selectBeforeLength(specs);
    const isPresent = await this.#waitFor(early);
    const { sizeBytes } = this.#representation;
    if (sizeBytes !== undefined) return await this.perform(selectSpecs(specs, sizeBytes, this.#context.rules));
    if (!isPresent || early.kind !== 'span') return await this.#whole();
    const fields = this.#partOf(early.span, undefined);
    return await this.#respond(206, fields, [{ kind: 'span', span: early.span }]);
  }

  #waitFor(early: EarlySelection): Promise<boolean> {
    const { signal } = this.#request;
    switch (early.kind) {
      case 'span':
        return this.#representation.whenPresent(early.span.end, signal);
      case 'from-start':
        return this.#waitForLength();
      case 'needs-length':
        return this.#representation.whenPresent(Number.POSITIVE_INFINITY, signal);
    }
  }

  #whole(): ProxyResponse | Promise<ProxyResponse> {
    const isUnknown = this.#request.method === 'HEAD' && this.#representation.sizeBytes === undefined;
    return isUnknown ? this.#headOnceKnown() : this.#respondWhole();
  }

  /** The response to a HEAD while a fill brings a body whose length it will tell. It needs no byte, so no failure is one of its own. */
  async #headOnceKnown(): Promise<ProxyResponse> {
    try {
      await this.#waitForLength();
    } catch (thrown) {
      this.#request.signal.throwIfAborted();
      if (!(thrown instanceof ProxyError)) throw thrown;
    }
    return await this.#respondWhole();
  }

  #respondWhole(): ProxyResponse | Promise<ProxyResponse> {
    const end = this.#representation.sizeBytes ?? Number.POSITIVE_INFINITY;
    return this.#respond(this.#representation.response.status, this.#fields(false), [
      { kind: 'span', span: { start: 0, end } },
    ]);
  }

  #partial(selection: PartialSelection): ProxyResponse | Promise<ProxyResponse> {
    const { spans, sizeBytes } = selection;
    const [span, ...more] = spans;
    if (span !== undefined && more.length === 0) {
      return this.#respond(206, this.#partOf(span, sizeBytes), [{ kind: 'span', span }]);
    }
    const framing = frameParts(selection, this.#representation.response, this.#context.random);
    if (framing === undefined) return this.#whole();
    const pieces: Piece[] = spans.flatMap((part, index) => [
      { kind: 'text', bytes: framing.heads[index] ?? new Uint8Array() },
      { kind: 'span', span: part },
    ]);
    const fields = withField(this.#fields(true), 'content-type', framing.contentType);
    return this.#respond(206, fields, [...pieces, { kind: 'text', bytes: framing.tail }]);
  }

  #fields(isPartial: boolean): Fields {
    const { clock, forward, sendsDigest } = this.#context;
    const { representation, isReuse } = this.#answer;
    const { response } = representation;
    const terms = { facts: this.#answer, isReuse, isPartial, now: clock.now(), forward };
    const fields = representationFields(response, terms);
    return sendsDigest && response.bodyDigest !== undefined ? withReprDigest(fields, response.bodyDigest) : fields;
  }

  #partOf(span: Span, sizeBytes: number | undefined): Fields {
    return [...this.#fields(true), ['content-range', formatContentRange(span, sizeBytes)]];
  }

  #forwarded(refusal: ProxyResponse): ProxyResponse {
    return { ...refusal, fields: this.#context.forward(refusal.fields) };
  }

  #respond(status: number, fields: Fields, pieces: readonly Piece[]): ProxyResponse | Promise<ProxyResponse> {
    if (this.#request.method === 'HEAD') {
      return { status, fields: headFields(fields), body: unreadBody(sizeOfPieces(pieces)) };
    }
    const body: Body | Promise<Body> = bodyOfPieces(this.#representation, pieces, this.#request);
    return body instanceof Promise
      ? body.then((opened) => ({ status, fields, body: opened }))
      : { status, fields, body };
  }

  /** Waits for the length, but not for ever: the whole from its first byte on is the same bytes with or without it. */
  async #waitForLength(): Promise<boolean> {
    const patience = new AbortController();
    const stopWaiting = this.#context.clock.after(this.#context.rules.lengthWaitMs, () => patience.abort());
    const signal = AbortSignal.any([patience.signal, this.#request.signal]);
    try {
      return await this.#representation.whenPresent(Number.POSITIVE_INFINITY, signal);
    } catch (error) {
      if (!patience.signal.aborted) throw error;
      this.#request.signal.throwIfAborted();
      return false;
    } finally {
      stopWaiting();
    }
  }
}
