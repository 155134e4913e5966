/**
 * The head of a request as a parser gives it: the whole (`ParsedHead`), or only what a hit is decided by (`PlainHead`). One
 * pass over the field lines notes those few fields; the others stay unsplit until something reads them.
 */

import { type Fields, hasField, trimWhitespace } from '../http/fields.ts';
import type { PlainHead } from '../http/message.ts';
import type { ErrorCode } from '../http/proxy-error.ts';

/** What the bytes of a head say, before anything of it is judged: see `receiveHead`. */
export interface ParsedHead {
  readonly method: string;
  /** The request target as received. */
  readonly target: string;
  readonly version: '1.0' | '1.1';
  /** The field lines in their order, names in lower case, values without white space around them (RFC 9112 §5). */
  readonly fields: Fields;
}

/** What a parser makes of the bytes that have come. */
export type HeadReading =
  /** A whole head of so many bytes, its empty line and any empty lines before it (RFC 9112 §2.2) included. */
  | { readonly kind: 'head'; readonly head: ParsedHead; readonly sizeBytes: number }
  /** The same, of a head that a hit may answer. */
  | { readonly kind: 'plain'; readonly head: PlainHead; readonly sizeBytes: number }
  /** No fault so far, and not all of it. */
  | { readonly kind: 'more' }
  /** No head whatever follows. */
  | { readonly kind: 'fault'; readonly code: ErrorCode; readonly detail: string };

/** A plain head with all its lines. */
export function spellOut(head: PlainHead): ParsedHead {
  const { method, target } = head;
  return { method, target, version: '1.1', fields: head.readFields() };
}

/** The limits of a head, in bytes. */
export interface HeadLimits {
  /** Of the target. */
  readonly targetBytes: number;
  /** Of the header section, as `ListenerLimits` counts it. */
  readonly fieldsBytes: number;
  readonly maxFieldCount: number;
}

/** Fields that a plain head may have and that are noted. */
const notedNames = [
  'host',
  'range',
  'if-range',
  'if-none-match',
  'if-modified-since',
  'accept-encoding',
  'origin',
  'authorization',
  'x-api-key',
  'connection',
];

/**
 * Fields that a plain head does not have: they decide about more than a hit looks at (framing, loops, directives, other
 * conditions, other protocols).
 */
const otherNames = [
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
for (const name of [...notedNames, ...otherNames]) looks[name.length * 32 + (name.charCodeAt(0) & 31)] = 1;

const none: Fields = [];
const space = 0x20;
/** Per field line: the colon, the space after it, CR and LF. */
const lineOverheadBytes = 4;

/** What is counted against the limits of a head. */
interface PlainLimits {
  readonly fieldsBytes: number;
  readonly maxFieldCount: number;
}

/** A request line, or the pseudo-fields in its place. */
type PlainLine = Pick<PlainHead, 'method' | 'target' | 'version'>;

/** A head while its lines are passed over. A class, because there is one for each request. */
class NotedHead implements PlainHead {
  readonly method: 'GET' | 'HEAD';
  readonly target: string;
  readonly version: string;
  authority = '';
  selecting: Fields = none;
  credentials: Fields = none;
  acceptEncoding: string | undefined;
  origin: string | undefined;
  readonly #unsplit: UnsplitFields;

  constructor({ method, target, version }: PlainLine, unsplit: UnsplitFields) {
    this.method = method;
    this.target = target;
    this.version = version;
    this.#unsplit = unsplit;
  }

  readFields(): Fields {
    return this.#unsplit.split();
  }
}

/** Field lines as they came. */
interface UnsplitFields {
  split(): Fields;
}

/** Field lines from `start` to `end` of a text of one character per byte. */
export interface UnsplitText extends UnsplitFields {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Field lines as names, in lower case, and values in turn, from `start` on. */
export interface UnsplitList extends UnsplitFields {
  readonly list: readonly string[];
  readonly start: number;
  /** That of the pseudo-field; empty where there is none. */
  readonly authority: string;
}

/**
 * Reads the field lines of a text of which the grammar of HTTP/1.1 is known to hold. Undefined where the head is not plain, or may be too large as limits count it.
 */
export function readPlainText(line: PlainLine, unsplit: UnsplitText, limits: PlainLimits): PlainHead | undefined {
  const { text, start, end } = unsplit;
  const head = new NotedHead(line, unsplit);
  let count = 0;
  for (let at = start; at < end - 2; ) {
    const colon = text.indexOf(':', at);
    const lineEnd = text.indexOf('\r', colon);
    const length = colon - at;
    if (length <= longestName && looks[length * 32 + (text.charCodeAt(at) & 31)] === 1) {
      const isUsual =
        text.charCodeAt(colon + 1) === space &&
        text.charCodeAt(colon + 2) > space &&
        text.charCodeAt(lineEnd - 1) > space;
      const value = isUsual ? text.slice(colon + 2, lineEnd) : trimWhitespace(text.slice(colon + 1, lineEnd));
      if (!note(head, text.slice(at, colon).toLowerCase(), value)) return undefined;
    }
    count += 1;
    at = lineEnd + 2;
  }
  // Limits count a space behind each colon, which may not be there.
  const isSmall = count <= limits.maxFieldCount && end - start + count <= limits.fieldsBytes;
  return isSmall && head.authority !== '' ? head : undefined;
}

/** Reads the field lines of a list. Undefined as for `readPlainText`. */
export function readPlainList(line: PlainLine, unsplit: UnsplitList, limits: PlainLimits): PlainHead | undefined {
  const { list, start } = unsplit;
  const head = new NotedHead(line, unsplit);
  head.authority = unsplit.authority;
  let sizeBytes = 0;
  for (let at = start; at + 1 < list.length; at += 2) {
    const name = list[at] as string;
    const value = list[at + 1] as string;
    if (name.length <= longestName && looks[name.length * 32 + (name.charCodeAt(0) & 31)] === 1) {
      if (!note(head, name, value)) return undefined;
    }
    sizeBytes += name.length + value.length + lineOverheadBytes;
  }
  const isSmall = (list.length - start) / 2 <= limits.maxFieldCount && sizeBytes <= limits.fieldsBytes;
  return isSmall && head.authority !== '' ? head : undefined;
}

/** Notes a line; false where the head is not plain. A line that stands twice is not. */
function note(head: NotedHead, name: string, value: string): boolean {
  switch (name) {
    case 'host':
      if (head.authority !== '') return false;
      head.authority = value;
      return true;
    case 'accept-encoding':
      if (head.acceptEncoding !== undefined) return false;
      head.acceptEncoding = value;
      return true;
    case 'origin':
      if (head.origin !== undefined) return false;
      head.origin = value;
      return true;
    case 'authorization':
    case 'x-api-key':
      if (hasField(head.credentials, name)) return false;
      head.credentials = [...head.credentials, [name, value]];
      return true;
    case 'range':
    case 'if-range':
    case 'if-none-match':
    case 'if-modified-since':
      if (hasField(head.selecting, name)) return false;
      head.selecting = [...head.selecting, [name, value]];
      return true;
    case 'connection':
      return value.toLowerCase() === 'keep-alive';
    default:
      return !otherNames.includes(name) && !framingLike.test(name);
  }
}
