/** From an answer to a response: preconditions, range selection, status, fields, body. */

import type { Answer, AnswerFacts } from '../cache/answer.ts';
import type { Representation } from '../cache/representation.ts';
import { type Fields, withField } from '../http/fields.ts';
import type { Body, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { createBoundary, frameByteranges } from '../semantics/byteranges.ts';
import { formatContentRange } from '../semantics/content-range.ts';
import { type RangeSpec, selectBeforeLength } from '../semantics/range.ts';
import type { DeliveryContext } from './context.ts';
import { bodyOfPieces, type Piece, sizeOfPieces, unreadBody } from './pieces.ts';
import { preconditionFailed, rangeNotSatisfiable } from './refusals.ts';
import { deliverRelay } from './relay.ts';
import { representationFields, selectNotModifiedFields } from './response-fields.ts';
import { type DecidedSelection, type PartialSelection, partType, selectDelivery, selectSpecs } from './selection.ts';

type RepresentationAnswer = Extract<Answer, { kind: 'representation' }>;

/** A multipart body may cost this much more than the whole before the whole is sent instead, in bytes. */
const MAX_MULTIPART_EXCESS_BYTES = 4096;

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
  const now = context.clock.now();
  const selection = selectDelivery(request, representation.response, representation.sizeBytes, context.rules, now);
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
    this.#fields = representationFields(representation.response, answer, isReuse, context.clock.now());
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

  /** Ranges of a representation whose length is not known yet. */
  async decideLater(specs: readonly RangeSpec[]): Promise<ProxyResponse> {
    const early = selectBeforeLength(specs);
    const { signal } = this.#request;
    switch (early.kind) {
      case 'span': {
        await this.#representation.whenPresent(early.span.end, signal);
        if (this.#representation.sizeBytes !== undefined) break;
        const fields = withField(this.#fields, 'content-range', formatContentRange(early.span, undefined));
        return await this.#respond(206, fields, [{ kind: 'span', span: early.span }]);
      }
      case 'from-start':
        await this.#waitForLength();
        break;
      case 'needs-length':
        await this.#representation.whenPresent(Number.POSITIVE_INFINITY, signal);
        break;
    }
    const { sizeBytes } = this.#representation;
    if (sizeBytes === undefined) return await this.#whole();
    const selection = selectSpecs(specs, sizeBytes, this.#context.rules);
    return await this.perform(selection);
  }

  #whole(): ProxyResponse | Promise<ProxyResponse> {
    const end = this.#representation.sizeBytes ?? Number.POSITIVE_INFINITY;
    return this.#respond(this.#representation.response.status, this.#fields, [
      { kind: 'span', span: { start: 0, end } },
    ]);
  }

  #partial({ spans, sizeBytes }: PartialSelection): ProxyResponse | Promise<ProxyResponse> {
    const [span, ...more] = spans;
    if (span !== undefined && more.length === 0) {
      const fields = withField(this.#fields, 'content-range', formatContentRange(span, sizeBytes));
      return this.#respond(206, fields, [{ kind: 'span', span }]);
    }
    const boundary = createBoundary(this.#context.random);
    const whole = { sizeBytes, contentType: partType(this.#representation.response) };
    const framing = frameByteranges(spans, whole, boundary);
    if (framing.sizeBytes > sizeBytes + MAX_MULTIPART_EXCESS_BYTES) return this.#whole();
    const pieces: Piece[] = spans.flatMap((part, index) => [
      { kind: 'text', bytes: framing.heads[index] ?? new Uint8Array() },
      { kind: 'span', span: part },
    ]);
    const fields = withField(this.#fields, 'content-type', framing.contentType);
    return this.#respond(206, fields, [...pieces, { kind: 'text', bytes: framing.tail }]);
  }

  #respond(status: number, fields: Fields, pieces: readonly Piece[]): ProxyResponse | Promise<ProxyResponse> {
    if (this.#request.method === 'HEAD') return { status, fields, body: unreadBody(sizeOfPieces(pieces)) };
    const body: Body | Promise<Body> = bodyOfPieces(this.#representation, pieces);
    return body instanceof Promise
      ? body.then((opened) => ({ status, fields, body: opened }))
      : { status, fields, body };
  }

  /** Waits for the length, but not for ever: the whole from its first byte on is the same bytes with or without it. */
  async #waitForLength(): Promise<void> {
    const patience = new AbortController();
    const stopWaiting = this.#context.clock.after(this.#context.rules.lengthWaitMs, () => patience.abort());
    const signal = AbortSignal.any([patience.signal, this.#request.signal]);
    try {
      await this.#representation.whenPresent(Number.POSITIVE_INFINITY, signal);
    } catch (error) {
      if (!patience.signal.aborted || this.#request.signal.aborted) throw error;
    } finally {
      stopWaiting();
    }
  }
}
