/**
 * Answers a request where another process may hold the lease of its key: under the lease in this process, or through the holder.
 * When the holder dies, the reader goes on elsewhere, after the bytes that it has already got.
 */

import { createHash, type Hash } from 'node:crypto';
import type { Span } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { fieldValue } from '../../http/fields.ts';
import { type BodyStream, changedRequest } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { compareVersions, strongValidator } from '../../semantics/validator.ts';
import type { Answer, ByteReader, Relay, Representation } from '../answer.ts';
import type { ExchangeContext } from '../context.ts';
import { withoutCredentials } from '../fetch/open-generation.ts';
import {
  type Holder,
  HolderLost,
  hasOtherLength,
  isSameVersion,
  type Lease,
  type LeaseResult,
  type PeerAnswer,
  representationVersion,
  type Version,
} from '../fleet.ts';
import { changedInquiry, fillFields, type Inquiry } from '../inquiry.ts';

/**
 * How often one request tries to acquire the lease: the lease may move on meanwhile, or its holder may die. After that the request
 * goes to the origin by itself.
 */
const MAX_ROUNDS = 5;

/**
 * Answers under a lease that the request has waited for, from the store or a flight; releases the lease. `given` names the version
 * that the client already has a part of: it is continued if possible. Undefined where the request must go to the origin by itself.
 */
type AnswerUnder = (lease: Lease, inquiry: Inquiry, given?: Version) => Promise<Answer | undefined>;

/** Answers requests through the lease of their key. */
export class PeerFetch {
  readonly #context: ExchangeContext;
  readonly #answerUnder: AnswerUnder;

  constructor(context: ExchangeContext, answerUnder: AnswerUnder) {
    this.#context = context;
    this.#answerUnder = answerUnder;
  }

  /**
   * Answers under the lease, or through its holder. Undefined where the request must go to the origin by itself. Rejects with
   * `ProxyError`, or the signal's reason.
   *
   * When the lease is granted, the store is looked up again: the previous holder may have stored the response. `Store.find` returns
   * it then, without bypassing the memory of this process: all processes apply a change of the store before the step that made it
   * is over, and the flight that took the step ends, and releases the lease, only after that.
   */
  async ask(inquiry: Inquiry, first: LeaseResult | Promise<LeaseResult>, given?: Version): Promise<Answer | undefined> {
    const { key, request } = inquiry;
    let lost: Holder | undefined;
    for (let round = 1; round <= MAX_ROUNDS; round += 1) {
      const asked = round === 1 ? first : this.#context.fleet.acquire(key, request.signal, lost);
      const right = await this.#granted(asked, inquiry);
      if (right === undefined) return undefined;
      if (right.kind === 'ours') return await this.#answerUnder(right.lease, inquiry, given);
      const reply = await askHolder(right.holder, inquiry, given);
      if (reply !== undefined && reply !== 'lost') {
        this.#learn(key, reply);
        return reply.answer && this.#continuing(reply.answer, right.holder, inquiry);
      }
      lost = reply === 'lost' ? right.holder : undefined;
    }
    return undefined;
  }

  /** Undefined where the supervisor, which keeps the leases, cannot be asked. */
  async #granted(asked: LeaseResult | Promise<LeaseResult>, { request }: Inquiry): Promise<LeaseResult | undefined> {
    try {
      return await asked;
    } catch {
      request.signal.throwIfAborted();
      return undefined;
    }
  }

  /** Notes here what the holder has learnt about the key. */
  #learn(key: string, { answer, unshared, refusal }: PeerAnswer): void {
    const { hitForPass, notStoredReasons, clock } = this.#context;
    if (unshared !== undefined) hitForPass.learn(key, unshared, clock.now());
    if (refusal !== undefined) notStoredReasons.note(key, refusal);
    else if (answer?.kind === 'representation') notStoredReasons.forget(key);
  }

  /** Returns an answer that survives the loss of the holder, where its bytes can be had elsewhere. */
  #continuing(answer: Answer, holder: Holder, inquiry: Inquiry): Answer {
    if (answer.kind === 'relay') return { ...answer, relay: withResetOnLoss(answer.relay) };
    const { fleet, clock } = this.#context;
    const { key, request } = inquiry;
    const { response } = answer.representation;
    const elsewhere = async (given: Version, lost: Holder) => {
      const whole = withoutCredentials(wholeOf(inquiry), response);
      const next = await this.ask(whole, fleet.acquire(key, request.signal, lost), given);
      if (next?.kind === 'representation') return next.representation;
      next?.relay.response.body.close();
      // A relay cannot continue the body: the store takes no more, or the origin sent another response.
      const isOther = next !== undefined && next.relay.response.status !== 200;
      throw new ProxyError(isOther ? 'origin_failed_rest' : 'bytes_gone', {
        detail: 'the process that fetched it is lost, and its bytes cannot be had elsewhere',
      });
    };
    return {
      ...answer,
      representation: createContinuedRepresentation(answer.representation, { holder, elsewhere, clock }),
    };
  }
}

/** Turns the loss of the holder into `origin_reset`: the bytes of a relay come only once. */
function withResetOnLoss(relay: Relay): Relay {
  const { body } = relay.response;
  const severed: BodyStream = {
    trailers: body.trailers,
    close: () => body.close(),
    async *[Symbol.asyncIterator]() {
      try {
        yield* body;
      } catch (thrown) {
        if (!(thrown instanceof HolderLost)) throw thrown;
        throw new ProxyError('origin_reset', { detail: 'the process that passed it on is lost' });
      }
    },
  };
  return { ...relay, response: { ...relay.response, body: severed } };
}

/** Returns the inquiry for the whole. The client has its head already; the reader opens the spans that it still needs. */
function wholeOf(inquiry: Inquiry): Inquiry {
  const { request, originFields } = inquiry;
  return changedInquiry(inquiry, {
    request: changedRequest(request, { fields: fillFields(request.fields) }),
    originFields: fillFields(originFields),
    onInterim: () => {},
  });
}

async function askHolder(
  holder: Holder,
  inquiry: Inquiry,
  given: Version | undefined,
): Promise<PeerAnswer | 'lost' | undefined> {
  try {
    return await holder.answer(inquiry, given);
  } catch (thrown) {
    if (thrown instanceof HolderLost) return 'lost';
    throw thrown;
  }
}

/** The means to go on when the holder is lost. */
interface Continuation {
  /** The process that the bytes come from at first. */
  readonly holder: Holder;
  /** Gets a representation from elsewhere, of this version if possible. Rejects with `ProxyError`, or the signal's reason. */
  readonly elsewhere: (given: Version, lost: Holder) => Promise<Representation>;
  readonly clock: Pick<Clock, 'now'>;
}

/** Creates a representation that goes on elsewhere when the holder is lost; reading fails where the same bytes cannot be had. */
function createContinuedRepresentation(first: Representation, continuation: Continuation): Representation {
  return new ContinuedRepresentation(first, continuation);
}

class ContinuedRepresentation implements Representation {
  readonly response: Representation['response'];
  readonly generation: string | undefined;
  readonly #continuation: Continuation;
  readonly #first: Representation;

  constructor(first: Representation, continuation: Continuation) {
    this.response = first.response;
    this.generation = first.generation;
    this.#first = first;
    this.#continuation = continuation;
  }

  get sizeBytes(): number | undefined {
    return this.#first.sizeBytes;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#first.peek(offset, end);
  }

  async open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    const progress = new Progress(this.response, spans, this.#continuation.clock.now());
    const reader = await this.#first.open(spans, signal).catch(throwAsGone);
    return createContinuedReader(reader, progress, () => this.#goOn(progress, signal));
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#first.whenPresent(end, signal).catch(throwAsGone);
  }

  close(): void {
    this.#first.close();
  }

  /** Opens the unread rest of the spans elsewhere. */
  async #goOn(progress: Progress, signal: AbortSignal): Promise<ByteReader> {
    const { elsewhere, holder, clock } = this.#continuation;
    const given = representationVersion(this, clock.now());
    const next = await elsewhere(given, holder);
    const { sizeBytes = Number.POSITIVE_INFINITY } = next;
    try {
      const found = representationVersion(next, clock.now());
      if (hasOtherLength(given, found)) throw lossError('generation_changed');
      const reader = isSameVersion(given, found)
        ? await next.open(progress.restWithin(sizeBytes), signal)
        : await progress.openProven(next, signal, clock.now());
      if (reader === undefined) throw lossError('generation_changed');
      return readWithin(reader, sizeBytes);
    } finally {
      next.close();
    }
  }
}

/** Creates a reader that goes on elsewhere when the process that it reads from is lost. */
function createContinuedReader(first: ByteReader, progress: Progress, goOn: () => Promise<ByteReader>): ByteReader {
  let reader = first;
  let isClosed = false;
  return {
    peek: (offset, end) => progress.note(offset, reader.peek(offset, end)),
    read: async (offset, end) => {
      try {
        return progress.note(offset, await reader.read(offset, end));
      } catch (thrown) {
        if (!(thrown instanceof HolderLost)) throw thrown;
        if (isClosed) throw new ProxyError('client_gone');
      }
      first.close();
      progress.moveTo(offset);
      reader = await goOn();
      if (isClosed) reader.close();
      return progress.note(offset, await reader.read(offset, end));
    },
    close: () => {
      isClosed = true;
      reader.close();
    },
  };
}

/** Limits a reader to `sizeBytes`: the spans may have been opened before the length was known, without an end. */
function readWithin(reader: ByteReader, sizeBytes: number): ByteReader {
  return {
    peek: (offset, end) => (offset < sizeBytes ? reader.peek(offset, Math.min(end, sizeBytes)) : undefined),
    read: async (offset, end) => (offset < sizeBytes ? reader.read(offset, Math.min(end, sizeBytes)) : undefined),
    close: () => reader.close(),
  };
}

function lossError(code: 'bytes_gone' | 'generation_changed'): ProxyError {
  return new ProxyError(code, { detail: 'the process that fetched it is lost' });
}

/** Turns the loss of the holder into `bytes_gone`: no head has been sent, so the request can be answered again. */
function throwAsGone(thrown: unknown): never {
  throw thrown instanceof HolderLost ? lossError('bytes_gone') : thrown;
}

/** Fields that define how the bytes of a representation are interpreted (RFC 9110 §8). */
const formFields = ['content-type', 'content-encoding', 'content-language'];

/** The progress of one reader through the spans that it was opened for. */
class Progress {
  readonly #response: StoredResponse;
  readonly #spans: readonly Span[];
  /** SHA-256 of all bytes read so far; undefined where a strong validator identifies the bytes, so that none are compared. */
  readonly #hash: Hash | undefined;
  #index = 0;
  #offset: number;
  /** The last chunk returned. The next requested offset shows how much of it was used. */
  #lastChunk: Uint8Array | undefined;

  /** `now` is in epoch milliseconds. */
  constructor(response: StoredResponse, spans: readonly Span[], now: number) {
    this.#response = response;
    this.#spans = spans;
    this.#offset = spans[0]?.start ?? 0;
    this.#hash = strongValidator(response, now) === undefined ? createHash('sha256') : undefined;
  }

  /** Notes the chunk that is returned for an offset, and returns it. */
  note(offset: number, chunk: Uint8Array | undefined): Uint8Array | undefined {
    this.moveTo(offset);
    this.#lastChunk = chunk;
    return chunk;
  }

  /** Notes that the reader is at `offset`: all bytes before it were used. */
  moveTo(offset: number): void {
    if (this.#lastChunk !== undefined) this.#hash?.update(this.#lastChunk.subarray(0, this.#taken(offset)));
    this.#lastChunk = undefined;
    while (!this.#isIn(offset) && this.#index < this.#spans.length - 1) this.#index += 1;
    this.#offset = offset;
  }

  /** Returns the unread rest of the spans, for a representation of this length. */
  restWithin(sizeBytes: number): readonly Span[] {
    const span = this.#spans[this.#index];
    if (span === undefined) return [];
    return [{ start: this.#offset, end: span.end }, ...this.#spans.slice(this.#index + 1)]
      .map(({ start, end }) => ({ start, end: Math.min(end, sizeBytes) }))
      .filter(({ start, end }) => start < end);
  }

  /**
   * Opens the rest in another representation that validators do not distinguish from this one. First compares its hash of the
   * bytes that the client already has, as a fill does when it resumes without a validator. Undefined where they differ.
   */
  async openProven(next: Representation, signal: AbortSignal, now: number): Promise<ByteReader | undefined> {
    const { response } = next;
    const isOpen = compareVersions(this.#response, response, now) === 'unknown' && this.#isSameForm(response);
    if (this.#hash === undefined || !isOpen) return undefined;
    const rest = this.restWithin(next.sizeBytes ?? Number.POSITIVE_INFINITY);
    const reader = await next.open([...this.#readSpans, ...rest], signal);
    try {
      if (await this.#isRepeatedBy(reader)) return reader;
    } catch (thrown) {
      reader.close();
      throw thrown;
    }
    reader.close();
    return undefined;
  }

  async #isRepeatedBy(reader: ByteReader): Promise<boolean> {
    const hash = createHash('sha256');
    for (const { start, end } of this.#readSpans) {
      for (let offset = start; offset < end; ) {
        const chunk = reader.peek(offset, end) ?? (await reader.read(offset, end));
        if (chunk === undefined) return false;
        hash.update(chunk);
        offset += chunk.length;
      }
    }
    return this.#hash?.copy().digest().equals(hash.digest()) === true;
  }

  get #readSpans(): readonly Span[] {
    const span = this.#spans[this.#index];
    const whole = this.#spans.slice(0, this.#index);
    return span === undefined || this.#offset === span.start
      ? whole
      : [...whole, { start: span.start, end: this.#offset }];
  }

  #isSameForm({ status, fields }: StoredResponse): boolean {
    const known = this.#response;
    return (
      status === known.status && formFields.every((name) => fieldValue(fields, name) === fieldValue(known.fields, name))
    );
  }

  /** The number of bytes of the last chunk that were used; Infinity for all of them. */
  #taken(offset: number): number {
    return this.#isIn(offset) && offset >= this.#offset ? offset - this.#offset : Number.POSITIVE_INFINITY;
  }

  #isIn(offset: number): boolean {
    const span = this.#spans[this.#index];
    return span !== undefined && span.start <= offset && offset < span.end;
  }
}
