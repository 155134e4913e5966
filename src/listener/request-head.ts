/**
 * The head of a request as a parser returns it: with all its fields (`ParsedHead`), or only with the fields that a hit needs
 * (`PlainHead`). One pass over the field lines finds those few fields; the other lines are split only when they are read.
 */

import { type Field, type Fields, fieldValue, hasField, trimWhitespace } from '../http/fields.ts';
import type { PlainHead } from '../http/message.ts';
import type { ErrorCode } from '../http/proxy-error.ts';

/** A head that is syntactically valid and not validated further yet: see `receiveHead`. */
export interface ParsedHead {
  readonly method: string;
  /** The request target as received. */
  readonly target: string;
  readonly version: '1.0' | '1.1';
  /** The field lines in order, with lower-case names and values without surrounding white space (RFC 9112 §5). */
  readonly fields: Fields;
}

/** The result of parsing the bytes received so far. */
export type HeadReading =
  /** A complete head. `sizeBytes` includes its empty line and any empty lines before it (RFC 9112 §2.2). */
  | { readonly kind: 'head'; readonly head: ParsedHead; readonly sizeBytes: number }
  /** A complete head that a hit may answer. */
  | { readonly kind: 'plain'; readonly head: PlainHead; readonly sizeBytes: number }
  /** An incomplete head, valid so far. */
  | { readonly kind: 'more' }
  /** An invalid head, regardless of the bytes that follow. */
  | { readonly kind: 'fault'; readonly code: ErrorCode; readonly detail: string };

/** Converts a plain HTTP/1.1 head into a `ParsedHead` with all its field lines. */
export function toParsedHead(head: PlainHead): ParsedHead {
  const { method, target } = head;
  return { method, target, version: '1.1', fields: head.readFields() };
}

/** Limits of a head. Sizes in bytes. */
export interface HeadLimits {
  readonly targetBytes: number;
  /** Size of the header section, counted as in `ListenerLimits`. */
  readonly fieldsBytes: number;
  readonly maxFieldCount: number;
}

/** Fields that a plain head may have and whose values a hit needs. */
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
 * Fields that make a head not plain: they concern matters that a hit does not check (framing, loops, directives, other
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
  'x-ms-range',
  'request-range',
  'content-length',
  'transfer-encoding',
];

/** Some old gateways treat any punctuation in a field name as `-`. */
const framingLike = /^(?:transfer[^a-z0-9]encoding|content[^a-z0-9]length)$/;

const longestName = 'if-unmodified-since'.length;

/** Set to 1 at the index of a name's length and first letter where a listed name has them. One look-up skips most names. */
const looks = new Uint8Array((longestName + 1) * 32);
for (const name of [...notedNames, ...otherNames]) looks[name.length * 32 + (name.charCodeAt(0) & 31)] = 1;

const none: Fields = [];
const space = 0x20;
/** Per field line: the colon, the space after it, CR and LF. */
const lineOverheadBytes = 4;

/** The limits that field lines are checked against. */
interface PlainLimits {
  readonly fieldsBytes: number;
  readonly maxFieldCount: number;
}

/** A request line, or the HTTP/2 pseudo-fields in its place. */
type PlainLine = Pick<PlainHead, 'method' | 'target' | 'version'>;

/** A plain head that is filled line by line. A class, because one is created per request. */
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

/** Field lines as received. */
interface UnsplitFields {
  split(): Fields;
}

/** Field lines in a text of one character per byte, from `start` to `end` (exclusive), the empty line included. */
export interface UnsplitText extends UnsplitFields {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Field lines as alternating lower-case names and values, from the index `start` on. */
export interface UnsplitList extends UnsplitFields {
  readonly list: readonly string[];
  readonly start: number;
  /** The value of `:authority`; empty when absent. */
  readonly authority: string;
}

/**
 * Reads the field lines of a text that matches the grammar of HTTP/1.1. Returns undefined where the head is not plain, has no
 * Host, or may exceed a limit.
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
  // Limits count one space after each colon, which the text may lack.
  const isSmall = count <= limits.maxFieldCount && end - start + count <= limits.fieldsBytes;
  return isSmall && head.authority !== '' ? head : undefined;
}

/** Reads the field lines of a list. Returns undefined as `readPlainText` does. */
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

/** Stores the value of a line. Returns false where the line makes the head not plain, as a repeated field does. */
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

/** A field section, split into pseudo-fields and regular fields. Undefined for an absent pseudo-field. */
export interface HeaderList {
  readonly method: string | undefined;
  readonly scheme: string | undefined;
  readonly authority: string | undefined;
  readonly path: string | undefined;
  /** Why the pseudo-fields are malformed; undefined where they are not, as far as single ones tell. */
  readonly fault: string | undefined;
  /** Regular fields. All Cookie lines are joined into one. */
  readonly fields: Fields;
}

/** The pseudo-fields of a request (RFC 9113 §8.3.1). */
const requestPseudoFields: ReadonlySet<string> = new Set([':method', ':scheme', ':authority', ':path']);

/** Reads a head without a fault that a hit may answer; undefined where `receiveHttp2Head` has to read it. */
export function readPlainHttp2Head(
  list: readonly string[],
  { scheme, limits }: { readonly scheme: 'http' | 'https'; readonly limits: HeadLimits },
): PlainHead | undefined {
  let start = 0;
  while (list[start]?.startsWith(':') === true) start += 2;
  const method = pseudoField(list, start, ':method');
  const target = pseudoField(list, start, ':path');
  const authority = pseudoField(list, start, ':authority');
  const isComplete = target !== undefined && pseudoField(list, start, ':scheme') === scheme;
  // Those three, and perhaps the authority, each once and no others.
  if (!isComplete || start !== (authority === undefined ? 6 : 8)) return undefined;
  if ((method !== 'GET' && method !== 'HEAD') || target.length > limits.targetBytes) return undefined;
  return readPlainList({ method, target, version: '2' }, new ListedFields(list, start, authority ?? ''), limits);
}

/** Returns the value of a pseudo-field, which are before the index `end`. */
function pseudoField(list: readonly string[], end: number, name: string): string | undefined {
  for (let at = 0; at < end; at += 2) if (list[at] === name) return list[at + 1];
  return undefined;
}

/** The unsplit field lines of a plain head. */
class ListedFields implements UnsplitList {
  readonly list: readonly string[];
  readonly start: number;
  readonly authority: string;

  constructor(list: readonly string[], start: number, authority: string) {
    this.list = list;
    this.start = start;
    this.authority = authority;
  }

  split(): Fields {
    const { fields } = readHeaderList(this.list);
    return withAuthority(fields, this.authority === '' ? (fieldValue(fields, 'host') ?? '') : this.authority);
  }
}

/** Splits alternating names and values. */
export function readHeaderList(rawHeaders: readonly string[]): HeaderList {
  const pseudo = new Map<string, string>();
  const fields: Field[] = [];
  let fault: string | undefined;
  let cookieAt = -1;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    const value = rawHeaders[at + 1] as string;
    const cookie = fields[cookieAt];
    if (name.startsWith(':')) {
      if (!requestPseudoFields.has(name)) fault ??= 'an unknown pseudo-field';
      if (pseudo.has(name)) fault ??= `more than one ${name}`;
      pseudo.set(name, value);
    } else if (name !== 'cookie') fields.push([name, value]);
    // Clients may send each cookie in its own line (RFC 9113 §8.2.3).
    else if (cookie !== undefined) fields[cookieAt] = ['cookie', `${cookie[1]}; ${value}`];
    else cookieAt = fields.push(['cookie', value]) - 1;
  }
  return {
    method: pseudo.get(':method'),
    scheme: pseudo.get(':scheme'),
    authority: pseudo.get(':authority'),
    path: pseudo.get(':path'),
    fault,
    fields,
  };
}

/** Sets Host to the authority: a request that is forwarded over HTTP/1 needs it (RFC 9113 §8.3.1). */
export function withAuthority(fields: Fields, authority: string): Fields {
  return [['host', authority], ...fields.filter(([name]) => name !== 'host')];
}
