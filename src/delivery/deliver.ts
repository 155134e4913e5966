/** From an answer to a response: preconditions, range selection, status, fields, body. */

import type { Answer, AnswerFacts } from '../cache/answer.ts';
import type { Representation } from '../cache/representation.ts';
import { type Fields, withField } from '../http/fields.ts';
import type { Body, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { formatContentRange } from '../semantics/content-range.ts';
import { withReprDigest } from '../semantics/digest.ts';
import { type EarlySelection, type RangeSpec, selectBeforeLength } from '../semantics/range.ts';
import type { DeliveryContext } from './context.ts';
import { frameParts } from './multipart.ts';
import { bodyOfPieces, type Piece, sizeOfPieces, unreadBody } from './pieces.ts';
import { preconditionFailed, rangeNotSatisfiable } from './refusals.ts';
import { deliverRelay } from './relay.ts';
import { headFields, partialFields, representationFields, selectNotModifiedFields } from './response-fields.ts';
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
  readonly #facts: AnswerFacts;
  readonly #fields: Fields;

  constructor(request: ProxyRequest, answer: RepresentationAnswer, context: DeliveryContext) {
    this.#request = request;
    this.#representation = answer.representation;
    this.#context = context;
    this.#facts = answer;
    const { representation, isReuse } = answer;
    const fields = representationFields(representation.response, answer, isReuse, context.clock.now());
    const { bodyDigest } = representation.response;
    this.#fields = context.sendsDigest && bodyDigest !== undefined ? withReprDigest(fields, bodyDigest) : fields;
  }

  perform(selection: DecidedSelection): ProxyResponse | Promise<ProxyResponse> {
    switch (selection.kind) {
      case 'not-modified':
        return { status: 304, fields: selectNotModifiedFields(this.#fields), body: { kind: 'none' } };
      case 'precondition-failed':
        return preconditionFailed(this.#facts);
      case 'unsatisfiable':
        return rangeNotSatisfiable(selection.sizeBytes, this.#facts);
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
    const fields = withField(partialFields(this.#fields), 'content-range', formatContentRange(early.span, undefined));
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
    const end = this.#representation.sizeBytes ?? Number.POSITIVE_INFINITY;
    return this.#respond(this.#representation.response.status, this.#fields, [
      { kind: 'span', span: { start: 0, end } },
    ]);
  }

  #partial(selection: PartialSelection): ProxyResponse | Promise<ProxyResponse> {
    const { spans, sizeBytes } = selection;
    const [span, ...more] = spans;
    if (span !== undefined && more.length === 0) {
      const fields = withField(partialFields(this.#fields), 'content-range', formatContentRange(span, sizeBytes));
      return this.#respond(206, fields, [{ kind: 'span', span }]);
    }
    const framing = frameParts(selection, this.#representation.response, this.#context.random);
    if (framing === undefined) return this.#whole();
    const pieces: Piece[] = spans.flatMap((part, index) => [
      { kind: 'text', bytes: framing.heads[index] ?? new Uint8Array() },
      { kind: 'span', span: part },
    ]);
    const fields = withField(partialFields(this.#fields), 'content-type', framing.contentType);
    return this.#respond(206, fields, [...pieces, { kind: 'text', bytes: framing.tail }]);
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
