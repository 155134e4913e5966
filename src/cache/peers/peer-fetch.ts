/**
 * Answers a request where another process may hold the lease of its key: under the lease here, or from the process that holds
 * it. When that process dies, the reader goes on elsewhere, behind the bytes that it was given.
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
  type PeerAnswer,
  type Right,
  representationVersion,
  type Version,
} from '../fleet.ts';
import { changedInquiry, fillFields, type Inquiry } from '../inquiry.ts';

/**
 * So often the lease is asked for on behalf of one request: it passes on while it is asked for, and who has it dies. Then the
 * request goes to the origin for itself alone.
 */
const MAX_ROUNDS = 5;

/**
 * Answers under a lease that has been waited for, which it gives back: with what is stored by now, or what a flight brings.
 * `given` is what the request has been given a part of, and is to go on with if that can be had. Undefined where the request
 * is to go its own way.
 */
type AnswerUnder = (lease: Lease, inquiry: Inquiry, given?: Version) => Promise<Answer | undefined>;

/** The other processes, as requests meet them. */
export class PeerFetch {
  readonly #context: ExchangeContext;
  readonly #answerUnder: AnswerUnder;

  constructor(context: ExchangeContext, answerUnder: AnswerUnder) {
    this.#context = context;
    this.#answerUnder = answerUnder;
  }

  /**
   * Where the lease is granted, what is stored is looked up anew: whoever had it may have stored what is wanted. A change of
   * the store is told to all processes, and heeded by them, before the step that has caused it is over; the flight that has
   * taken the step ends after it, and gives its lease back then. So whoever is granted it next finds all of it by
   * `Store.find`, and needs not look past what it has in memory.
   *
   * Undefined where the request is to go its own way. Rejects with `ProxyError`, or the signal's reason.
   */
  async ask(inquiry: Inquiry, first: Right | Promise<Right>, given?: Version): Promise<Answer | undefined> {
    const { key, request } = inquiry;
    let lost: Holder | undefined;
    for (let round = 1; round <= MAX_ROUNDS; round += 1) {
      const asked = round === 1 ? first : this.#context.fleet.acquire(key, request.signal, lost);
      const right = await this.#granted(asked, inquiry);
      if (right === undefined) return undefined;
      if (right.kind === 'ours') return await this.#answerUnder(right.lease, inquiry, given);
      const held = await askHolder(right.holder, inquiry, given);
      if (held !== undefined && held !== 'lost') {
        this.#learn(key, held);
        return held.answer && this.#continuing(held.answer, right.holder, inquiry);
      }
      lost = held === 'lost' ? right.holder : undefined;
    }
    return undefined;
  }

  /** Undefined where nobody can tell who has the lease: the one who keeps the table is gone. */
  async #granted(asked: Right | Promise<Right>, { request }: Inquiry): Promise<Right | undefined> {
    try {
      return await asked;
    } catch {
      request.signal.throwIfAborted();
      return undefined;
    }
  }

  /** What has turned out there is known here too. */
  #learn(key: string, { answer, unshared, refusal }: PeerAnswer): void {
    const { unshared: keys, refusals, clock } = this.#context;
    if (unshared !== undefined) keys.learn(key, unshared, clock.now());
    if (refusal !== undefined) refusals.note(key, refusal);
    else if (answer?.kind === 'representation') refusals.forget(key);
  }

  /** An answer that outlives the process that gives it, as far as its bytes can be had elsewhere. */
  #continuing(answer: Answer, holder: Holder, inquiry: Inquiry): Answer {
    if (answer.kind === 'relay') return { ...answer, relay: severable(answer.relay) };
    const { fleet, clock } = this.#context;
    const { key, request } = inquiry;
    const { response } = answer.representation;
    const elsewhere = async (given: Version, lost: Holder) => {
      const whole = withoutCredentials(wholeOf(inquiry), response);
      const next = await this.ask(whole, fleet.acquire(key, request.signal, lost), given);
      if (next?.kind === 'representation') return next.representation;
      next?.relay.response.body.close();
      // What is passed on is nothing to go on with: the store takes no more, or the origin says something else.
      const isOther = next !== undefined && next.relay.response.status !== 200;
      throw new ProxyError(isOther ? 'origin_failed_rest' : 'bytes_gone', {
        detail: 'it cannot be had from elsewhere',
      });
    };
    return {
      ...answer,
      representation: createContinuedRepresentation(answer.representation, { holder, elsewhere, clock }),
    };
  }
}

/** What is passed on comes once: it breaks off with the process that it comes through. */
function severable(relay: Relay): Relay {
  const { body } = relay.response;
  const severed: BodyStream = {
    trailers: body.trailers,
    close: () => body.close(),
    async *[Symbol.asyncIterator]() {
      try {
        yield* body;
      } catch (thrown) {
        if (!(thrown instanceof HolderLost)) throw thrown;
        throw new ProxyError('origin_reset', { detail: 'the process that has passed it on is lost' });
      }
    },
  };
  return { ...relay, response: { ...relay.response, body: severed } };
}

/** The question of one who has its head already: the part that it wants is a matter of its reader. */
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

/** Where to go on. */
interface Continuation {
  /** The process that gives it first. */
  readonly holder: Holder;
  /** Has a representation from elsewhere, of this version if that can be had. Rejects with `ProxyError`, or the signal's reason. */
  readonly elsewhere: (given: Version, lost: Holder) => Promise<Representation>;
  readonly clock: Pick<Clock, 'now'>;
}

/** Goes on elsewhere when the process that gives it is lost; fails where no other has the same bytes. */
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
    const passed = new ReaderProgress(this.response, spans, this.#continuation.clock.now());
    const reader = await this.#first.open(spans, signal).catch(throwAsGone);
    return createContinuedReader(reader, passed, () => this.#goOn(passed, signal));
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#first.whenPresent(end, signal).catch(throwAsGone);
  }

  close(): void {
    this.#first.close();
  }

  /** Opens what is left of what was opened. */
  async #goOn(passed: ReaderProgress, signal: AbortSignal): Promise<ByteReader> {
    const { elsewhere, holder, clock } = this.#continuation;
    const given = representationVersion(this, clock.now());
    const next = await elsewhere(given, holder);
    const { sizeBytes = Number.POSITIVE_INFINITY } = next;
    try {
      const found = representationVersion(next, clock.now());
      if (hasOtherLength(given, found)) throw broken('generation_changed');
      const reader = isSameVersion(given, found)
        ? await next.open(passed.restWithin(sizeBytes), signal)
        : await passed.openProven(next, signal, clock.now());
      if (reader === undefined) throw broken('generation_changed');
      return readWithin(reader, sizeBytes);
    } finally {
      next.close();
    }
  }
}

/** Reads on elsewhere when the process is lost that it is read from. */
function createContinuedReader(first: ByteReader, passed: ReaderProgress, goOn: () => Promise<ByteReader>): ByteReader {
  let reader = first;
  let isClosed = false;
  return {
    peek: (offset, end) => passed.note(offset, reader.peek(offset, end)),
    read: async (offset, end) => {
      try {
        return passed.note(offset, await reader.read(offset, end));
      } catch (thrown) {
        if (!(thrown instanceof HolderLost)) throw thrown;
        if (isClosed) throw new ProxyError('client_gone');
      }
      first.close();
      passed.moveTo(offset);
      reader = await goOn();
      if (isClosed) reader.close();
      return passed.note(offset, await reader.read(offset, end));
    },
    close: () => {
      isClosed = true;
      reader.close();
    },
  };
}

/** The first one was perhaps opened before its length was known: it is read to its end, wherever that is. */
function readWithin(reader: ByteReader, sizeBytes: number): ByteReader {
  return {
    peek: (offset, end) => (offset < sizeBytes ? reader.peek(offset, Math.min(end, sizeBytes)) : undefined),
    read: async (offset, end) => (offset < sizeBytes ? reader.read(offset, Math.min(end, sizeBytes)) : undefined),
    close: () => reader.close(),
  };
}

function broken(code: 'bytes_gone' | 'generation_changed'): ProxyError {
  return new ProxyError(code, { detail: 'the process that fetched it is lost' });
}

/** As long as no head was sent, the request can be answered anew. */
function throwAsGone(thrown: unknown): never {
  throw thrown instanceof HolderLost ? broken('bytes_gone') : thrown;
}

/** What says how the bytes of a representation are to be read (RFC 9110 §8). */
const formFields = ['content-type', 'content-encoding', 'content-language'];

/** The way of one reader through the spans that it was opened for. */
class ReaderProgress {
  readonly #response: StoredResponse;
  readonly #spans: readonly Span[];
  /** Of all that was given; undefined where a strong validator names the bytes, which need not be compared then. */
  readonly #hash: Hash | undefined;
  #at = 0;
  #offset: number;
  /** What was given last: the next offset that is asked for tells how much of it was taken. */
  #last: Uint8Array | undefined;

  /** `now` is in epoch milliseconds. */
  constructor(response: StoredResponse, spans: readonly Span[], now: number) {
    this.#response = response;
    this.#spans = spans;
    this.#offset = spans[0]?.start ?? 0;
    this.#hash = strongValidator(response, now) === undefined ? createHash('sha256') : undefined;
  }

  /** Takes note of what is given at an offset, and gives it on. */
  note(offset: number, chunk: Uint8Array | undefined): Uint8Array | undefined {
    this.moveTo(offset);
    this.#last = chunk;
    return chunk;
  }

  /** What is asked for next lies here: all before it was taken. */
  moveTo(offset: number): void {
    if (this.#last !== undefined) this.#hash?.update(this.#last.subarray(0, this.#taken(offset)));
    this.#last = undefined;
    while (!this.#isIn(offset) && this.#at < this.#spans.length - 1) this.#at += 1;
    this.#offset = offset;
  }

  /** What is left to be given of a representation of this length. */
  restWithin(sizeBytes: number): readonly Span[] {
    const span = this.#spans[this.#at];
    if (span === undefined) return [];
    return [{ start: this.#offset, end: span.end }, ...this.#spans.slice(this.#at + 1)]
      .map(({ start, end }) => ({ start, end: Math.min(end, sizeBytes) }))
      .filter(({ start, end }) => start < end);
  }

  /**
   * Opens the rest in a representation that no validator tells apart from this one, if what it has in place of what was given
   * are the same bytes, as a transfer is taken up again from an origin that names nothing. Undefined where it is another one.
   */
  async openProven(next: Representation, signal: AbortSignal, now: number): Promise<ByteReader | undefined> {
    const { response } = next;
    const isOpen = compareVersions(this.#response, response, now) === 'unknown' && this.#isSameForm(response);
    if (this.#hash === undefined || !isOpen) return undefined;
    const rest = this.restWithin(next.sizeBytes ?? Number.POSITIVE_INFINITY);
    const reader = await next.open([...this.#given, ...rest], signal);
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
    for (const { start, end } of this.#given) {
      for (let offset = start; offset < end; ) {
        const chunk = reader.peek(offset, end) ?? (await reader.read(offset, end));
        if (chunk === undefined) return false;
        hash.update(chunk);
        offset += chunk.length;
      }
    }
    return this.#hash?.copy().digest().equals(hash.digest()) === true;
  }

  get #given(): readonly Span[] {
    const span = this.#spans[this.#at];
    const whole = this.#spans.slice(0, this.#at);
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

  /** How many bytes of what was given last were taken. */
  #taken(offset: number): number {
    return this.#isIn(offset) && offset >= this.#offset ? offset - this.#offset : Number.POSITIVE_INFINITY;
  }

  #isIn(offset: number): boolean {
    const span = this.#spans[this.#at];
    return span !== undefined && span.start <= offset && offset < span.end;
  }
}
