/**
 * A stored response in a form that takes little memory: two texts in place of some twenty-five objects. The fields are written as
 * HTTP/1.1 writes them, so that the heads of hits can begin with the same text (`CachedFields.storedText`).
 */

import { type Field, wireFieldName } from './fields.ts';
import type { StoredResponse } from './stored-response.ts';

/** Fields that hits do not send as they were stored. They stand apart, so that the others are what a hit's head begins with. */
const apart: ReadonlySet<string> = new Set(['content-length', 'accept-ranges', 'age']);

/** What can be written as a line and read back as it was: a lower-case token; a value that HTTP/1.1 allows (RFC 9110 §5.5). */
const plainName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const plainValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** A field that is not in the text, and its position among all fields. */
type PlacedField = readonly [at: number, ...field: Field];

/** What is not in the text, written as JSON. */
type Rest = readonly [
  status: number,
  fields: readonly PlacedField[],
  nominated: StoredResponse['nominated'],
  requestAt: number,
  responseAt: number,
  more: Partial<StoredResponse>,
];

/** Longer heads, in characters, are not packed: the responses that stay unpacked for a while must not take much memory. */
const longestPacked = 4096;

/** The packed responses that were read last. Each new one takes the place of the one that was read first. */
const unpacked = new Array<PackedResponse | undefined>(256).fill(undefined);
let nextUnpacked = 0;

/** Packs a response, which must not change. Returns undefined where that would bring little: for a long head. */
export function packResponse(response: StoredResponse): PackedResponse | undefined {
  const lines: string[] = [];
  const placed: PlacedField[] = [];
  for (const [at, [name, value]] of response.fields.entries()) {
    if (apart.has(name) || !plainName.test(name) || !plainValue.test(value)) placed.push([at, name, value]);
    else lines.push(wireFieldName(name), ': ', value, '\r\n');
  }
  const { status, fields: _inLines, nominated, requestAt, responseAt, ...more } = response;
  const rest: Rest = [status, placed, nominated, requestAt, responseAt, more];
  // Joined and not concatenated: V8 would keep the parts of a concatenation.
  const packed = new PackedResponse(lines.join(''), JSON.stringify(rest), response);
  return packed.length > longestPacked ? undefined : packed;
}

/** A packed response. */
export class PackedResponse {
  /** The field lines that can be written over HTTP/1.1 and that hits send as they were stored. */
  readonly text: string;
  readonly #rest: string;
  #value: StoredResponse | undefined;

  constructor(text: string, rest: string, value: StoredResponse) {
    this.text = text;
    this.#rest = rest;
    this.#keep(value);
  }

  /** Length of the texts, in characters. */
  get length(): number {
    return this.text.length + this.#rest.length;
  }

  /** Returns the response: the same object as long as it was among the last that were read. */
  read(): StoredResponse {
    return this.#value ?? this.#keep(this.#unpack());
  }

  #keep(value: StoredResponse): StoredResponse {
    const first = unpacked[nextUnpacked];
    if (first !== undefined) first.#value = undefined;
    unpacked[nextUnpacked] = this;
    nextUnpacked = (nextUnpacked + 1) % unpacked.length;
    this.#value = value;
    return value;
  }

  #unpack(): StoredResponse {
    const [status, placed, nominated, requestAt, responseAt, more] = JSON.parse(this.#rest) as Rest;
    const fields: Field[] = [];
    for (let start = 0; start < this.text.length; ) {
      const colon = this.text.indexOf(': ', start);
      const end = this.text.indexOf('\r\n', colon);
      fields.push([this.text.slice(start, colon).toLowerCase(), this.text.slice(colon + 2, end)]);
      start = end + 2;
    }
    for (const [at, name, value] of placed) fields.splice(at, 0, [name, value]);
    return { status, fields, nominated, requestAt, responseAt, ...more };
  }
}
