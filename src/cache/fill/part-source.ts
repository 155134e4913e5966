/**
 * Asks the origin for bytes of one generation, and makes sure that the response holds such: the validator, the
 * Content-Range and the digests have to agree (RFC 9110 §15.3.7.3, RFC 9530). A part that does not agree is not used, and
 * the origin is asked for the whole from then on.
 */

import type { Hash } from 'node:crypto';
import type { Span } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { type Fields, fieldValue } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Errand, OriginResponse } from '../../origin/origin.ts';
import { type Digest, selectContentDigest, selectReprDigest } from '../../semantics/digest.ts';
import { formatRange, parseContentRange, type RangeSpec } from '../../semantics/range.ts';
import { traceFields, withoutTraceFields } from '../../semantics/trace-context.ts';
import { compareVersions, strongValidator } from '../../semantics/validator.ts';
import { fillFields, type Inquiry } from '../inquiry.ts';
import { isOtherPart } from './fetch-decision.ts';

/** Gives the bytes of one generation. */
export interface PartSource {
  /** Whether a strong validator names the generation, so that parts of it may be combined (RFC 9110 §15.3.7.3). */
  readonly isProvable: boolean;
  /** Whether the origin may be asked for a part of this very generation. */
  readonly mayAskForParts: boolean;
  /** Whether it is known to give them, so that what is not fetched now can be had later by itself. */
  readonly givesParts: boolean;
  /** Whether parts that came before may be wrong, for the origin was found lying about ranges. */
  readonly isDoubted: boolean;
  /** A part turned out to be a lie: no more of them are asked for. The reason is for the log. */
  doubt(reason: string): void;
  /**
   * Asks for `[start, end)`. What comes may be the whole; undefined when the origin was found lying about parts. Throws `ProxyError`: `generation_changed` when the origin has other bytes now.
   */
  fetchPart(start: number, end: number, errand: Errand, signal: AbortSignal): Promise<Part | undefined>;
  /** Asks for the whole. Throws `ProxyError` as `fetchPart` does. */
  fetchWhole(errand: Errand, signal: AbortSignal): Promise<Part>;
}

/** A response, and when it was asked for and came. */
interface Received {
  readonly response: OriginResponse;
  readonly requestAt: number;
  readonly responseAt: number;
}

/** What a source is made with. */
interface PartSourceOptions {
  readonly inquiry: Inquiry;
  readonly response: StoredResponse;
  /** The length of the whole where it is known. */
  readonly sizeBytes: number | undefined;
  readonly clock: Clock;
  /** Whether what comes first is what the request waits for: nothing of the generation is coming yet. */
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
  /** Whether this very resource was sent whole where a part was asked for. */
  #gaveWhole = false;
  /** Whether a part of this very resource was a lie. */
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
    const { mayAsk, mayAskMore } = this.#options.inquiry.rangeAbility;
    return this.#isAdvertised ? mayAsk : mayAskMore;
  }

  get givesParts(): boolean {
    return this.mayAskForParts && (this.#isAdvertised || this.#options.inquiry.rangeAbility.isKnown);
  }

  get isDoubted(): boolean {
    return this.#hasLied || this.#options.inquiry.rangeAbility.isDistrusted;
  }

  doubt(reason: string): void {
    this.#hasLied = true;
    this.#options.inquiry.rangeAbility.distrust(reason);
  }

  async fetchPart(start: number, end: number, errand: Errand, signal: AbortSignal): Promise<Part | undefined> {
    if (this.#validator === undefined) return undefined;
    const received = await this.#ask(
      [
        ['range', formatPart({ start, end }, this.#options.sizeBytes)],
        ['if-range', this.#validator],
      ],
      errand,
      signal,
    );
    const part = this.#acceptPart(received, start);
    if (part === undefined) received.response.body.close();
    return part;
  }

  async fetchWhole(errand: Errand, signal: AbortSignal): Promise<Part> {
    return this.#acceptWhole(await this.#ask([], errand, signal));
  }

  async #ask(added: Fields, errand: Errand, signal: AbortSignal): Promise<Received> {
    const { inquiry, clock } = this.#options;
    const { originFields, causedBy } = inquiry;
    const requestAt = clock.now();
    // Later ones are for whoever reads then: they are no part of the trace of the request that was the first.
    const isAwaited = this.#isAwaited;
    this.#isAwaited = false;
    const response = await inquiry.origin.fetch({
      method: 'GET',
      target: inquiry.originTarget,
      fields: [...fillFields(isAwaited ? originFields : withoutTraceFields(originFields)), ...added],
      body: undefined,
      bodySizeBytes: undefined,
      signal,
      errand,
      causedBy: isAwaited ? causedBy : (causedBy ?? traceFields(originFields)),
    });
    return { response, requestAt, responseAt: clock.now() };
  }

  #acceptPart(received: Received, start: number): Part | undefined {
    const { sizeBytes, inquiry } = this.#options;
    const { rangeAbility } = inquiry;
    const { response } = received;
    const { status, fields, body } = response;
    if (status === 200) {
      const whole = this.#acceptWhole(received);
      // Not where the version is another one: the whole is then what If-Range asks for.
      rangeAbility.noteWhole();
      this.#gaveWhole = true;
      return whole;
    }
    if (status === 416) {
      this.doubt(`it answered 416 to a range from ${start} of ${sizeBytes} bytes`);
      return undefined;
    }
    if (status !== 206) return this.#refuse(response);
    const contentRange = fieldValue(fields, 'content-range') ?? '';
    const range = parseContentRange(contentRange);
    const version = this.#compare(response);
    const asked: RangeSpec = { kind: 'open', first: start };
    const isAnswer = range !== undefined && !isOtherPart(asked, range, response.sizeBytes);
    if (version === 'other' && isAnswer) throw this.#changed(response, 'another validator');
    if (!isAnswer || version !== 'same' || range.sizeBytes !== sizeBytes) {
      this.doubt(`it answered a range from ${start} of ${sizeBytes} bytes with "${contentRange}"`);
      return undefined;
    }
    rangeAbility.noteParts();
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

  #acceptWhole(received: Received): Part {
    const { response } = received;
    const { status, body, sizeBytes, framing } = response;
    if (status !== 200) return this.#refuse(response);
    const version = this.#compare(response);
    if (version === 'other') throw this.#changed(response, 'another validator');
    // What is there in part may lie behind what comes, and be read before the two can be compared (RFC 9111 §3.4).
    if (version === 'unknown' && this.isProvable) throw this.#changed(response, 'no validator to tell it by');
    if (version === 'unknown' && !this.#isSameForm(response)) throw this.#changed(response, 'another form');
    const expected = this.#options.sizeBytes;
    if (expected !== undefined && sizeBytes !== undefined && sizeBytes !== expected) {
      throw this.#changed(response, `${sizeBytes} bytes instead of ${expected}`);
    }
    // The end of a connection is no sure end: the length that is known is what has to come.
    if (framing === 'close' && expected === undefined && this.#options.inquiry.policy.closeDelimited === 'relay') {
      body.close();
      throw new ProxyError('origin_failed_rest', { detail: 'a body whose end is the end of its connection' });
    }
    const end = framing === 'close' ? expected : sizeBytes;
    const isProven = version === 'same';
    const head = isProven ? headOf(received) : undefined;
    return { from: 0, end, body, isWhole: true, hasSureEnd: false, isProven, digest: undefined, head };
  }

  /** Whether the head that clients have been sent may stand before these bytes too. */
  #isSameForm({ fields }: OriginResponse): boolean {
    const known = this.#options.response.fields;
    return formFields.every((name) => fieldValue(fields, name) === fieldValue(known, name));
  }

  /** By the validators, and by the digests of the whole where both state one (RFC 9530 §3). */
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

  #refuse({ status, body }: OriginResponse): never {
    body.close();
    // Another 4xx is about the one who asks, and says nothing of the bytes.
    const isGone = status < 400 || status === 404 || status === 410;
    throw new ProxyError(isGone ? 'generation_changed' : 'origin_failed_rest', { detail: `status ${status}` });
  }
}

/** What says how the bytes of a representation are to be read (RFC 9110 §8). */
const formFields = ['content-type', 'content-encoding', 'content-language'];

function headOf({ response, requestAt, responseAt }: Received): PartHead {
  return { fields: response.fields, requestAt, responseAt };
}

/** The Range that asks for a part of a representation: without an end where that is the end of the whole. */
export function formatPart({ start, end }: Span, sizeBytes: number | undefined): string {
  const isToEnd = end >= (sizeBytes ?? end);
  return formatRange([isToEnd ? { kind: 'open', first: start } : { kind: 'closed', first: start, last: end - 1 }]);
}

/** The fields that came with a part, and when it was asked for and came. */
export interface PartHead {
  readonly fields: Fields;
  readonly requestAt: number;
  readonly responseAt: number;
}

/** Bytes of a generation on their way. */
export interface Part {
  /** The offset of the first byte. */
  readonly from: number;
  /** Where the part ends (exclusive), as the origin promised; undefined when only its end will tell. */
  readonly end: number | undefined;
  readonly body: BodyStream;
  /** Whether it is the whole representation. */
  readonly isWhole: boolean;
  /** Whether a body that comes to an end before `end` is a lie: the end of a connection may be a transfer that broke off. */
  readonly hasSureEnd: boolean;
  /** Whether a strong validator says that these are bytes of this generation. Otherwise they are compared with what is there. */
  readonly isProven: boolean;
  /** What the hash of the part must come to, where the origin states it. */
  readonly digest: Digest | undefined;
  /** What is to replace the fields that came before (RFC 9111 §3.4); undefined where nothing proves that it belongs to them. */
  readonly head: PartHead | undefined;
}

/** Bytes that come already when a generation is opened. */
export interface FirstPart extends Part {
  readonly errand: Errand;
}

/** Throws `ProxyError` `origin_digest_mismatch` when a part that has come to its end is not what its digest tells. */
export function verifyContent({ from, end, digest }: Part, hash: Hash | undefined): void {
  if (hash?.digest('hex') === digest?.hex) return;
  throw new ProxyError('origin_digest_mismatch', {
    detail: `the content of bytes ${from}-${(end ?? 0) - 1} is another`,
  });
}
