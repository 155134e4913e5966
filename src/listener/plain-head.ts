/** Heads that a hit may answer (`PlainHead`), noted while a head is passed over; the other lines are split only when they are read. */

import type { Field, Fields } from '../http/fields.ts';
import type { PlainHead } from '../http/message.ts';

/** Fields that a plain head notes. */
const notedFields = ['host', 'range', 'if-range', 'if-none-match', 'if-modified-since', 'accept-encoding', 'connection'];

/**
 * Fields that a plain head does not have: they decide about more than a hit looks at (framing, loops, directives, other
 * conditions, other protocols).
 */
const otherFields = [
  'via',
  'cdn-loop',
  'expect',
  'pragma',
  'cache-control',
  'upgrade',
  'if-match',
  'if-unmodified-since',
  'content-length',
  'transfer-encoding',
];

/** Old gateways read any sign in a name as they read `-`. */
const framingLike = /^(?:transfer[^a-z0-9]encoding|content[^a-z0-9]length)$/;

const longestName = 'if-unmodified-since'.length;

/** By the length of a name and its first letter: whether it may be one of these. Most names are passed over by one look. */
const looks = new Uint8Array((longestName + 1) * 32);
for (const name of [...notedFields, ...otherFields]) looks[name.length * 32 + (name.charCodeAt(0) & 31)] = 1;

const none: Fields = [];

/** Whether a name of so many characters, which begins with this one (a UTF-16 code, in any case), has to be noted. */
export function isNoted(length: number, first: number): boolean {
  return length <= longestName && looks[length * 32 + (first & 31)] === 1;
}

/** Where a head came from, as long as its lines are not split. */
export interface UnsplitFields {
  /** All lines. */
  split(): Fields;
}

/** A head while it is passed over. */
export class NotedHead implements PlainHead {
  readonly method: 'GET' | 'HEAD';
  readonly target: string;
  readonly version: string;
  acceptEncoding: string | undefined;
  /** That of Host, or of `:authority` where there is one; undefined as long as none was noted. */
  #authority: string | undefined;
  #selecting: Field[] | undefined;
  readonly #unsplit: UnsplitFields;
  #fields: Fields | undefined;

  constructor(line: Pick<PlainHead, 'method' | 'target' | 'version'>, authority: string | undefined, unsplit: UnsplitFields) {
    this.method = line.method;
    this.target = line.target;
    this.version = line.version;
    this.#authority = authority;
    this.#unsplit = unsplit;
  }

  get authority(): string {
    return this.#authority ?? '';
  }

  get selecting(): Fields {
    return this.#selecting ?? none;
  }

  get fields(): Fields {
    this.#fields ??= this.#unsplit.split();
    return this.#fields;
  }

  /** RFC 9112 §3.2: a request has exactly one Host. */
  get hasAuthority(): boolean {
    return this.#authority !== undefined;
  }

  /** Notes a line whose name `isNoted`, in lower case; false where the head is not plain. A line that stands twice is not. */
  note(name: string, value: string): boolean {
    switch (name) {
      case 'host':
        if (this.#authority !== undefined) return false;
        this.#authority = value;
        return true;
      case 'accept-encoding':
        if (this.acceptEncoding !== undefined) return false;
        this.acceptEncoding = value;
        return true;
      case 'range':
      case 'if-range':
      case 'if-none-match':
      case 'if-modified-since':
        if (this.#selecting?.some((field) => field[0] === name) === true) return false;
        this.#selecting ??= [];
        this.#selecting.push([name, value]);
        return true;
      case 'connection':
        return value.toLowerCase() === 'keep-alive';
      default:
        return !otherFields.includes(name) && !framingLike.test(name);
    }
  }
}
