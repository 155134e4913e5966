/** What a reader has been given of a representation, for going on behind it with bytes from elsewhere. */

import { createHash, type Hash } from 'node:crypto';
import type { Span } from '../bytes/span.ts';
import { fieldValue } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { compareVersions, strongValidator } from '../semantics/validator.ts';
import type { ByteReader, Representation } from './representation.ts';

/** What says how the bytes of a representation are to be read (RFC 9110 §8). */
const formFields = ['content-type', 'content-encoding', 'content-language'];

/** The way of one reader through the spans that it was opened for. */
export class Passed {
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
