/**
 * Turns an answer of the cache into a response: preconditions, range selection, status, fields, body. Ranges are cut out of a
 * relayed response while it is passed on. Read this first, then `selection.ts`.
 */

import { type Span, spanSize } from '../bytes/span.ts';
import type { Answer, Representation } from '../cache/answer.ts';
import { streamPace } from '../cache/inquiry.ts';
import { cutPieces, cutSpan } from '../http/cut-body.ts';
import { type Fields, fieldValue, withField, withoutFields } from '../http/fields.ts';
import type { Body, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { formatCacheStatus, withCacheStatus } from '../semantics/cache-status.ts';
import { withReprDigest } from '../semantics/digest.ts';
import { mayAddLength } from '../semantics/head-length.ts';
import {
  type ByterangesFraming,
  type EarlySelection,
  formatContentRange,
  formatLiveRange,
  hasOtherUnit,
  type RangeSpec,
  selectBeforeLength,
  withoutByteRange,
} from '../semantics/range.ts';
import { isLiveStream } from '../semantics/storing.ts';
import { type BodyPart, bodyOfParts, sizeOfParts, unreadBody } from './pieces.ts';
import { preconditionFailed, rangeNotSatisfiable } from './problem.ts';
import { headFields, partialFields, representationFields, selectNotModifiedFields } from './response-fields.ts';
import {
  type DecidedSelection,
  type DeliveryContext,
  frameParts,
  type PartialSelection,
  type Selection,
  selectDelivery,
  selectSpecs,
} from './selection.ts';

type RepresentationAnswer = Extract<Answer, { kind: 'representation' }>;

/**
 * Makes the response, in the same tick where everything it needs is in memory. Rejects with `ProxyError`: `bytes_gone` when the
 * representation no longer exists, `client_gone` when the client left while it was waited for.
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

  /** Answers a request with ranges while the length is unknown. The whole is sent where waiting does not help. */
  async decideLater(specs: readonly RangeSpec[]): Promise<ProxyResponse> {
    const early = selectBeforeLength(specs);
    const isPresent = await this.#waitFor(early);
    const { sizeBytes } = this.#representation;
    if (sizeBytes !== undefined) return await this.perform(selectSpecs(specs, sizeBytes, this.#context.rules));
    if (!isPresent) return await this.#whole();
    if (early.kind === 'live') {
      const fields: Fields = [...this.#fields(true), ['content-range', formatLiveRange(early.first)]];
      const span = { start: early.first, end: Number.POSITIVE_INFINITY };
      return await this.#respond(206, fields, [{ kind: 'span', span }]);
    }
    if (early.kind !== 'span') return await this.#whole();
    const fields = this.#partOf(early.span, undefined);
    return await this.#respond(206, fields, [{ kind: 'span', span: early.span }]);
  }

  /** Waits for the bytes of a range, or for the length that it needs. The whole is sent where neither comes soon. */
  async #waitFor(early: EarlySelection): Promise<boolean> {
    const { lengthWaitMs } = this.#context.rules;
    const askForLength = () => this.#waitWhileFast(Number.POSITIVE_INFINITY, lengthWaitMs / 5, lengthWaitMs);
    const waitUpTo = (end: number) => this.#waitWhileFast(end, lengthWaitMs / 2, 6 * lengthWaitMs);
    switch (early.kind) {
      case 'span':
        return (early.asksLength && (await askForLength())) || (await waitUpTo(early.span.end));
      case 'live':
        return await waitUpTo(early.first + 1);
      case 'from-start':
        return await askForLength();
      case 'needs-length':
        return await waitUpTo(Number.POSITIVE_INFINITY);
    }
  }

  /**
   * Waits as `whenPresent`, at most `mostMs`, and only while bytes arrive faster than a stream brings them: at the end of each
   * `windowMs` it is looked how many have come so far. False where the wait was in vain.
   */
  async #waitWhileFast(end: number, windowMs: number, mostMs: number): Promise<boolean> {
    for (let elapsedMs = windowMs; ; elapsedMs += windowMs) {
      const outcome = await this.#waitAtMost(windowMs, end, elapsedMs * streamPace);
      if (outcome !== 'fast' || elapsedMs >= mostMs) return outcome === 'present';
    }
  }

  #whole(): ProxyResponse | Promise<ProxyResponse> {
    if (this.#request.method !== 'HEAD') return this.#respondWhole();
    const { response, sizeBytes } = this.#representation;
    if (!mayAddLength(response.fields)) {
      return { status: response.status, fields: headFields(this.#fields(false)), body: unreadBody(undefined) };
    }
    return sizeBytes === undefined ? this.#headOnceKnown() : this.#respondWhole();
  }

  /** Answers a HEAD while a fill is running that will bring the length. The response needs no byte, so a failed fill does not fail it. */
  async #headOnceKnown(): Promise<ProxyResponse> {
    try {
      const { lengthWaitMs } = this.#context.rules;
      await this.#waitAtMost(lengthWaitMs, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
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
    const fields = withField(this.#fields(true), 'content-type', framing.contentType);
    return this.#respond(206, fields, partsOf(spans, framing));
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

  #respond(status: number, fields: Fields, pieces: readonly BodyPart[]): ProxyResponse | Promise<ProxyResponse> {
    if (this.#request.method === 'HEAD') {
      return { status, fields: headFields(fields), body: unreadBody(sizeOfParts(pieces)) };
    }
    const body: Body | Promise<Body> = bodyOfParts(this.#representation, pieces, this.#request);
    return body instanceof Promise
      ? body.then((opened) => ({ status, fields, body: opened }))
      : { status, fields, body };
  }

  /**
   * Waits as `whenPresent`, at most `waitMs`. `absent`: the bytes are not stored, so waiting is no use. Where the time is over, tells
   * whether `fastBytes` have arrived by then.
   */
  async #waitAtMost(waitMs: number, end: number, fastBytes: number): Promise<'present' | 'absent' | 'fast' | 'slow'> {
    const patience = new AbortController();
    const stopWaiting = this.#context.clock.after(waitMs, () => patience.abort());
    const signal = AbortSignal.any([patience.signal, this.#request.signal]);
    let isFast = false;
    const noteFast = (isPresent: boolean) => {
      isFast = isPresent;
    };
    if (Number.isFinite(fastBytes)) this.#representation.whenPresent(fastBytes, signal).then(noteFast, () => {});
    try {
      return (await this.#representation.whenPresent(end, signal)) ? 'present' : 'absent';
    } catch (error) {
      if (!patience.signal.aborted) throw error;
      this.#request.signal.throwIfAborted();
      return isFast ? 'fast' : 'slow';
    } finally {
      stopWaiting();
      patience.abort();
    }
  }
}

type RelayAnswer = Extract<Answer, { kind: 'relay' }>;

const conditions = new Set(['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since']);

/** Makes the response of a relayed one. Closes the origin's body where it is not sent. */
function deliverRelay(request: ProxyRequest, answer: RelayAnswer, context: DeliveryContext): ProxyResponse {
  const { response } = answer.relay;
  const own = response.status === 200 || response.status === 203 ? withoutByteRange(response.fields) : response.fields;
  const passed = withCacheStatus(own, formatCacheStatus(answer.status));
  const fields =
    givesRanges(request, answer) && !hasOtherUnit(request.fields)
      ? withField(passed, 'accept-ranges', 'bytes')
      : passed;
  const selection = selectRelay(request, answer, context);
  switch (selection.kind) {
    case 'not-modified':
      response.body.close();
      return { status: 304, fields: selectNotModifiedFields(fields), body: { kind: 'none' } };
    case 'precondition-failed':
      response.body.close();
      return preconditionFailed(answer);
    case 'unsatisfiable':
      response.body.close();
      return rangeNotSatisfiable(selection.sizeBytes, answer);
    case 'partial': {
      const parts = relayedParts(selection, fields, answer.relay, context);
      if (parts !== undefined) return parts;
      break;
    }
    case 'whole':
    case 'undecided':
      break;
  }
  return { status: response.status, fields, body: wholeBody(request, answer) };
}

/** Evaluates what the origin has not evaluated. Ranges count for a GET that got a 200, but not for a live stream, whatever its length. */
function selectRelay(request: ProxyRequest, { relay }: RelayAnswer, context: DeliveryContext): Selection {
  const { response, evaluated, responseAt } = relay;
  if (request.method !== 'GET' || response.status !== 200 || isLiveStream(response.fields)) return { kind: 'whole' };
  const asked = evaluated ? { method: 'GET', fields: withoutFields(request.fields, conditions) } : request;
  const selectable = { status: 200, fields: response.fields, responseAt };
  return selectDelivery(asked, selectable, response.sizeBytes, context.rules, context.clock.now());
}

/**
 * Whether a GET with a Range can get a 206: its range is cut out of a whole of known length, or of what is stored. Otherwise
 * the origin gets the Range, and its Accept-Ranges counts (RFC 9110 §14.3).
 */
function givesRanges({ method }: ProxyRequest, { relay }: RelayAnswer): boolean {
  const { response, isStorable = false } = relay;
  if (response.status !== 200 || isLiveStream(response.fields)) return false;
  if (method === 'HEAD') return isStorable || headLength(response.fields) !== undefined;
  return method === 'GET' && response.sizeBytes !== undefined;
}

/** The length that a response to HEAD states; undefined where it states none. */
function headLength(fields: Fields): number | undefined {
  const length = fieldValue(fields, 'content-length');
  return length !== undefined && /^[0-9]{1,15}$/.test(length) ? Number(length) : undefined;
}

function wholeBody(request: ProxyRequest, { relay }: RelayAnswer): Body {
  const { response } = relay;
  if (request.method === 'HEAD') {
    response.body.close();
    return unreadBody(headLength(response.fields));
  }
  if (response.framing === 'none') {
    response.body.close();
    return { kind: 'none' };
  }
  return { kind: 'stream', sizeBytes: response.sizeBytes, stream: response.body };
}

/**
 * Makes a 206 of the spans, which are cut out of a body that is read from its start; undefined where the whole costs less. Several parts
 * come in the order of the body, because it can be read only once (RFC 9110 §15.3.7.2).
 */
function relayedParts(
  selection: PartialSelection,
  fields: Fields,
  { response, responseAt }: RelayAnswer['relay'],
  { random }: DeliveryContext,
): ProxyResponse | undefined {
  const [span, ...more] = selection.spans;
  if (span === undefined) return undefined;
  if (more.length === 0) {
    const cut: Body = { kind: 'stream', sizeBytes: spanSize(span), stream: cutSpan(response.body, span) };
    const contentRange = formatContentRange(span, selection.sizeBytes);
    return { status: 206, fields: withField(partialFields(fields), 'content-range', contentRange), body: cut };
  }
  const ordered = { ...selection, spans: selection.spans.toSorted((a, b) => a.start - b.start) };
  const framing = frameParts(ordered, { status: 200, fields: response.fields, responseAt }, random);
  if (framing === undefined) return undefined;
  const pieces = partsOf(ordered.spans, framing).map((piece) => (piece.kind === 'text' ? piece.bytes : piece.span));
  return {
    status: 206,
    fields: withField(partialFields(fields), 'content-type', framing.contentType),
    body: { kind: 'stream', sizeBytes: framing.sizeBytes, stream: cutPieces(response.body, pieces) },
  };
}

/** The pieces of a multipart body. */
function partsOf(spans: readonly Span[], { heads, tail }: ByterangesFraming): readonly BodyPart[] {
  const pieces = spans.flatMap((span, index): BodyPart[] => [
    { kind: 'text', bytes: heads[index] ?? new Uint8Array() },
    { kind: 'span', span },
  ]);
  return [...pieces, { kind: 'text', bytes: tail }];
}

/** Errors from opening stored bytes that are damaged, cannot be read now, or have changed. */
const outdated: ReadonlySet<string> = new Set(['bytes_gone', 'generation_changed']);

/** Returns the response, or the result of the next alternative each time that stored bytes could not be used. */
export function withRetries<T>(response: T | Promise<T>, others: readonly (() => T | Promise<T>)[]): T | Promise<T> {
  if (!(response instanceof Promise)) return response;
  return others.reduce<Promise<T>>(
    (tried, next) =>
      tried.catch((thrown: unknown) => (outdated.has(toProxyError(thrown).code) ? next() : Promise.reject(thrown))),
    response,
  );
}
