/**
 * Requests bytes of one generation from the origin, and checks that the response holds them: the validator, the Content-Range
 * and the digests must agree (RFC 9110 §15.3.7.3, RFC 9530). A part that is no answer to the requested range is not used, and the
 * origin is asked for the whole from then on.
 */

import type { Hash } from 'node:crypto';
import type { Span } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { type Fields, fieldValue } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { ChargedClients, OriginResponse } from '../../origin/origin.ts';
import { type RangeSupport, rangeRefusals } from '../../origin/range-ability.ts';
import { type Digest, selectContentDigest, selectReprDigest } from '../../semantics/digest.ts';
import { formatRange, isCodedAlone, parseContentRange, type RangeSpec, statesPart } from '../../semantics/range.ts';
import { traceFields, withoutTraceFields } from '../../semantics/trace-context.ts';
import { compareVersions, strongValidator } from '../../semantics/validator.ts';
import { fillFields, type Inquiry, isAskedOnce } from '../inquiry.ts';
import { asWhole, doubtWhole, isWholeStatus, isWrongPart, wholeInsteadOf } from './fetch-decision.ts';

/** Requests the bytes of one generation from the origin. */
export interface PartSource {
  /** Whether a strong validator names the generation, so that parts of it may be combined (RFC 9110 §15.3.7.3). */
  readonly isProvable: boolean;
  /** Whether the origin may be asked for a part of this generation. */
  readonly mayAskForParts: boolean;
  /** Whether the origin is known to send parts, so that absent bytes can be requested later by themselves. */
  readonly givesParts: boolean;
  /** Whether an open-ended range may be requested in spans, one after the other. */
  readonly mayJoinParts: boolean;
  /** See `isAskedOnce`. */
  readonly isAskedOnce: boolean;
  /** Whether earlier parts may be wrong, because the origin was found lying about ranges. */
  readonly isDoubted: boolean;
  /** Reports a response that is no answer to its range. No more parts are requested. See `RangeSupport.distrust`. */
  doubt(reason: string, fault?: 'lie' | 'odd'): void;
  /**
   * Requests `[start, end)`; the origin may send the whole instead. Undefined when the response is a lie about ranges, or no strong
   * validator names the generation. Throws `ProxyError`: `generation_changed` when the origin has another version now.
   */
  fetchPart(start: number, end: number, charged: ChargedClients, signal: AbortSignal): Promise<Part | undefined>;
  /** Requests the whole. Throws `ProxyError` as `fetchPart` does. */
  fetchWhole(charged: ChargedClients, signal: AbortSignal): Promise<Part>;
}

/** A response, and when its request was sent and its head arrived, in epoch milliseconds. */
interface Received {
  readonly response: OriginResponse;
  readonly requestAt: number;
  readonly responseAt: number;
}

/** Options of a part source. */
interface PartSourceOptions {
  readonly inquiry: Inquiry;
  readonly response: StoredResponse;
  /** The length of the whole where it is known. */
  readonly sizeBytes: number | undefined;
  readonly clock: Clock;
  /** Whether the client's request waits for the first response, because nothing of the generation is arriving yet. */
  readonly isAwaited?: boolean;
}

/** Creates the source of the generation that a response belongs to. */
export function createPartSource(options: PartSourceOptions): PartSource {
  return new OriginPartSource(options);
}

class OriginPartSource implements PartSource {
  readonly #options: PartSourceOptions;
  readonly #validator: string | undefined;
  readonly #isAdvertised: boolean;
  /** Whether the origin sent the whole of this resource where a part was requested, or refused the part. */
  #gaveWhole = false;
  /** Whether the origin lied about a range of this resource. */
  #hasLied = false;
  #isAwaited: boolean;

  constructor(options: PartSourceOptions) {
    const { response, sizeBytes, clock, isAwaited = false } = options;
    this.#options = options;
    this.#isAwaited = isAwaited;
    const isWhole = response.status === 200 && sizeBytes !== undefined;
    this.#validator = isWhole ? strongValidator(response, clock.now()) : undefined;
    this.#isAdvertised = fieldValue(response.fields, 'accept-ranges')?.toLowerCase() === 'bytes';
  }

  get isProvable(): boolean {
    return this.#validator !== undefined;
  }

  get mayAskForParts(): boolean {
    if (this.#validator === undefined || this.#gaveWhole || this.#hasLied) return false;
    const { mayRequestPart, mayRequestFurtherPart } = this.#options.inquiry.rangeSupport;
    return this.#isAdvertised ? mayRequestPart : mayRequestFurtherPart;
  }

  get givesParts(): boolean {
    return this.mayAskForParts && (this.#isAdvertised || this.#options.inquiry.rangeSupport.isKnown);
  }

  get mayJoinParts(): boolean {
    return this.#options.inquiry.rangeSupport.mayJoinParts && !this.isAskedOnce;
  }

  get isAskedOnce(): boolean {
    return isAskedOnce(this.#options.inquiry);
  }

  get isDoubted(): boolean {
    return this.#hasLied || this.#options.inquiry.rangeSupport.isDistrusted;
  }

  doubt(reason: string, fault: 'lie' | 'odd' = 'lie'): void {
    this.#hasLied = true;
    this.#options.inquiry.rangeSupport.distrust(reason, fault);
  }

  async fetchPart(start: number, end: number, charged: ChargedClients, signal: AbortSignal): Promise<Part | undefined> {
    if (this.#validator === undefined) return undefined;
    const received = await this.#ask(
      [
        ['range', formatPart({ start, end }, this.#options.sizeBytes)],
        ['if-range', this.#validator],
      ],
      charged,
      signal,
    );
    const part = this.#acceptPart(received, { start, end });
    if (part === undefined) received.response.body.close();
    return part;
  }

  async fetchWhole(charged: ChargedClients, signal: AbortSignal): Promise<Part> {
    const received = await this.#ask([], charged, signal);
    return this.#acceptWhole({ ...received, response: asWhole(received.response) });
  }

  async #ask(added: Fields, charged: ChargedClients, signal: AbortSignal): Promise<Received> {
    const { inquiry, clock } = this.#options;
    const { originFields, causedBy } = inquiry;
    const requestAt = clock.now();
    // Later requests are for other readers, too: they do not belong to the trace of the first client request.
    const isAwaited = this.#isAwaited;
    this.#isAwaited = false;
    const response = await inquiry.origin.fetch({
      method: 'GET',
      target: inquiry.originTarget,
      fields: [...fillFields(isAwaited ? originFields : withoutTraceFields(originFields)), ...added],
      body: undefined,
      bodySizeBytes: undefined,
      signal,
      charged,
      causedBy: isAwaited ? causedBy : (causedBy ?? traceFields(originFields)),
    });
    return { response, requestAt, responseAt: clock.now() };
  }

  #acceptPart(answer: Received, { start, end }: Span): Part | undefined {
    const { sizeBytes, inquiry } = this.#options;
    const { rangeSupport } = inquiry;
    const asked: RangeSpec = { kind: 'closed', first: start, last: end - 1 };
    const received = { ...answer, response: wholeInsteadOf(asked, answer.response) };
    const { response } = received;
    const { status, fields, body } = response;
    if (this.#isDisguised(response, asked, end - start)) return undefined;
    if (status === 200) return this.#acceptWholeForPart(received);
    if (status !== 206) return this.#acceptError(response, start);
    if (isCodedAlone(response.fields, response.sizeBytes) || this.#isOtherCoding(fields)) {
      this.doubt(`it sent a part from ${start} that was compressed by itself`, 'odd');
      return undefined;
    }
    const contentRange = fieldValue(fields, 'content-range') ?? '';
    const range = parseContentRange(contentRange);
    const version = this.#compare(response);
    const isAnswer = range !== undefined && !isWrongPart(asked, range, response.sizeBytes);
    if (version === 'other' && isAnswer) {
      rangeSupport.noteUnjoinable(true);
      throw this.#changed(response, 'another validator');
    }
    if (!isAnswer || version !== 'same' || range.sizeBytes !== sizeBytes) {
      const fault = range === undefined || isAnswer ? 'odd' : 'lie';
      this.doubt(`it answered a range from ${start} of ${sizeBytes} bytes with "${contentRange}"`, fault);
      return undefined;
    }
    rangeSupport.noteParts();
    rangeSupport.noteJoined();
    const digest = selectContentDigest(fields);
    return {
      from: range.span.start,
      end: range.span.end,
      body,
      isWhole: false,
      hasSureEnd: response.framing !== 'close',
      isProven: true,
      digest,
      head: headOf(received),
    };
  }

  /** Whether a 200 or 203 may hold the part instead of the whole; notes that for the URL. */
  #isDisguised(response: OriginResponse, asked: RangeSpec, askedBytes: number): boolean {
    const { sizeBytes, inquiry } = this.#options;
    const doubt = isWholeStatus(response.status) ? doubtWhole(asked, response, sizeBytes, true) : undefined;
    if (doubt === undefined) return false;
    // Another version may have another length. It is the right answer to If-Range.
    if (!doubt.isStated && response.sizeBytes !== askedBytes && this.#compare(response) === 'other') return false;
    this.#hasLied = true;
    inquiry.rangeSupport.refuse(doubt.reason, doubt.isStated ? 'disguised' : 'odd');
    return true;
  }

  #acceptWholeForPart(received: Received): Part {
    const { rangeSupport } = this.#options.inquiry;
    if (this.#compare(received.response) === 'other') rangeSupport.noteUnjoinable(false);
    const whole = this.#acceptWhole(received);
    // Not where the version differs, which has thrown: the whole is then the right answer to If-Range.
    rangeSupport.noteWhole();
    this.#gaveWhole = true;
    return whole;
  }

  /** Undefined where the whole may be had, though the part cannot. Throws `ProxyError` otherwise. */
  #acceptError(response: OriginResponse, start: number): undefined {
    const { sizeBytes, inquiry } = this.#options;
    const { status } = response;
    if (refusesCondition(status, inquiry.rangeSupport)) {
      this.#gaveWhole = true;
      return undefined;
    }
    const isRefusal = status === 416 || refusesRange(status, inquiry.rangeSupport);
    if (!isRefusal) return this.#refuse(response, inquiry.rangeSupport);
    this.doubt(`it answered ${status} to a range from ${start} of ${sizeBytes} bytes`, 'odd');
  }

  #acceptWhole(received: Received): Part {
    const { response } = received;
    const { status, body, sizeBytes, framing } = response;
    if (status !== 200) return this.#refuse(response);
    if (statesPart(response.fields, sizeBytes)) {
      body.close();
      throw new ProxyError('origin_failed_rest', { detail: 'a part with status 200 to a request without Range' });
    }
    const version = this.#compare(response);
    if (version === 'other') throw this.#changed(response, 'another validator');
    // Present blocks may lie behind the arriving bytes, and would be read before the two can be compared (RFC 9111 §3.4).
    if (version === 'unknown' && this.isProvable) throw this.#changed(response, 'no validator to identify it by');
    if (version === 'unknown' && !this.#isSameForm(response)) throw this.#changed(response, 'other Content-* fields');
    const expected = this.#options.sizeBytes;
    if (expected !== undefined && sizeBytes !== undefined && sizeBytes !== expected) {
      throw this.#changed(response, `${sizeBytes} bytes instead of ${expected}`);
    }
    // A connection may also end because of a fault, so all bytes of the known length must arrive.
    if (framing === 'close' && expected === undefined && this.#options.inquiry.policy.closeDelimited === 'relay') {
      body.close();
      throw new ProxyError('origin_failed_rest', { detail: 'a body whose end is the end of its connection' });
    }
    const end = framing === 'close' ? expected : sizeBytes;
    const isProven = version === 'same';
    const head = isProven ? headOf(received) : undefined;
    return { from: 0, end, body, isWhole: true, hasSureEnd: false, isProven, digest: undefined, head };
  }

  /** Whether the head that clients have already received also describes these bytes. */
  #isSameForm({ fields }: OriginResponse): boolean {
    const known = this.#options.response.fields;
    return formFields.every((name) => fieldValue(fields, name) === fieldValue(known, name));
  }

  /** Whether a part states another coding than the whole. It need not state any (RFC 9110 §15.3.7). */
  #isOtherCoding(part: Fields): boolean {
    const coding = fieldValue(part, 'content-encoding');
    return coding !== undefined && coding !== fieldValue(this.#options.response.fields, 'content-encoding');
  }

  /** Compares the versions by their validators, and by the digests of the whole where both responses state one (RFC 9530 §3). */
  #compare(response: OriginResponse): 'same' | 'other' | 'unknown' {
    const now = this.#options.clock.now();
    const known = selectReprDigest(this.#options.response);
    const stated = selectReprDigest(response);
    if (known !== undefined && stated?.algorithm === known.algorithm && stated.hex !== known.hex) return 'other';
    return compareVersions(this.#options.response, { fields: response.fields, responseAt: now }, now);
  }

  #changed(response: OriginResponse, detail: string): ProxyError {
    response.body.close();
    return new ProxyError('generation_changed', { detail });
  }

  /** `ofPart`: where a part was asked for. */
  #refuse({ status, body }: OriginResponse, ofPart?: RangeSupport): never {
    body.close();
    if (isFinal(status)) ofPart?.noteAskedOnce();
    // Any other 4xx or 5xx is about the request or the origin, and says nothing about the bytes.
    const isGone = status < 400 || status === 404 || status === 410;
    const code = isGone ? 'generation_changed' : isFinal(status) ? 'origin_refused_rest' : 'origin_failed_rest';
    throw new ProxyError(code, { detail: `status ${status}` });
  }
}

/**
 * Whether a status refuses the Range, so that the whole may be had: where the origin has not given any part. A 500 may be a failure
 * that passes.
 */
function refusesRange(status: number, { isKnown }: RangeSupport): boolean {
  return status !== 500 && rangeRefusals.has(status) && !isKnown;
}

/** Whether a status refuses If-Range, though that never fails a request (RFC 9110 §13.1.5): the origin gives parts without it. */
function refusesCondition(status: number, { isKnown }: RangeSupport): boolean {
  return status === 412 || (isKnown && status !== 500 && rangeRefusals.has(status) && !isFinal(status));
}

/** Whether a status says that the resource is not to be had, not that something failed: asking again is of no use. */
function isFinal(status: number): boolean {
  return status === 401 || status === 403 || status === 404 || status === 410;
}

/** Fields that say how the bytes of a representation are interpreted (RFC 9110 §8). */
const formFields = ['content-type', 'content-encoding', 'content-language'];

function headOf({ response, requestAt, responseAt }: Received): PartHead {
  return { fields: response.fields, requestAt, responseAt };
}

/** Formats the Range that requests a span; open-ended where the span ends with the whole, or the length is not known. */
export function formatPart({ start, end }: Span, sizeBytes: number | undefined): string {
  const isToEnd = end >= (sizeBytes ?? end);
  return formatRange([isToEnd ? { kind: 'open', first: start } : { kind: 'closed', first: start, last: end - 1 }]);
}

/** The fields of a response, and when its request was sent and its head arrived, in epoch milliseconds. */
export interface PartHead {
  readonly fields: Fields;
  readonly requestAt: number;
  readonly responseAt: number;
}

/** A response that brings bytes of a generation: a part, or the whole. */
export interface Part {
  /** The offset of the first byte. */
  readonly from: number;
  /** The end of the part (exclusive), as the origin stated it; undefined when only the end of the body will show it. */
  readonly end: number | undefined;
  readonly body: BodyStream;
  /** Whether it is the whole representation. */
  readonly isWhole: boolean;
  /** Whether a body that ends before `end` is a lie about ranges. Not where the end of the connection may be a transfer that broke off. */
  readonly hasSureEnd: boolean;
  /** Whether a strong validator proves that the bytes are of this generation. Otherwise they are compared with the present blocks. */
  readonly isProven: boolean;
  /** The digest that the part must have; undefined where the origin states none. */
  readonly digest: Digest | undefined;
  /** The fields that replace the earlier ones (RFC 9111 §3.4); undefined where there are none, or nothing proves the same version. */
  readonly head: PartHead | undefined;
}

/** A part that the origin is already sending when a generation is opened. */
export interface FirstPart extends Part {
  readonly charged: ChargedClients;
}

/** Throws `ProxyError` `origin_digest_mismatch` when the hash of a complete part differs from its digest. */
export function verifyContent({ from, end, digest }: Part, hash: Hash | undefined): void {
  if (hash?.digest('hex') === digest?.hex) return;
  throw new ProxyError('origin_digest_mismatch', {
    detail: `the content of bytes ${from}-${(end ?? 0) - 1} has another digest`,
  });
}
