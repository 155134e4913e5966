/**
 * Field sections of HTTP/2 (RFC 9113 §8.2) in HPACK (RFC 7541): decodes those of a client, and encodes our own. Ours use the static
 * table alone, so that the bytes of a field are the same in each response and can be kept.
 */

import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { Fields } from '../../http/fields.ts';
import type { CachedSection, Hit } from '../../http/message.ts';
import { formatHttpDate } from '../../semantics/http-date.ts';
import { isFramingField } from '../respond.ts';

/** The field section cannot be decoded, and no later one of the connection can (RFC 7541 §2.2: COMPRESSION_ERROR). */
export class HpackFault extends Error {}

/** The static table (RFC 7541 Appendix A), from index 1 on. */
const staticTable: Fields = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  ...['200', '204', '206', '304', '400', '404', '500'].map((status) => [':status', status] as const),
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ...[
    'accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control',
    'content-disposition content-encoding content-language content-length content-location content-range content-type',
    'cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since',
    'last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after',
    'server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate',
  ]
    .flatMap((names) => names.split(' '))
    .map((name) => [name, ''] as const),
];

const colon = 0x3a;

/** What an entry of a table counts besides its name and value, in bytes (RFC 7541 §4.1). */
const entryOverheadBytes = 32;

/** The size of a dynamic table, in bytes: the initial value of SETTINGS_HEADER_TABLE_SIZE (RFC 9113 §6.5.2), which ours keeps. */
export const initialTableBytes = 4096;

/** The beginning of a field section after which our dynamic table has no bytes (RFC 7541 §6.3). */
export const emptyTable = '\x20';

/** A decoded field section. */
export interface FieldSection {
  /** Alternating names and values, in their order. Incomplete where there is a fault or too much. */
  readonly list: readonly string[];
  /** Why the section is malformed (RFC 9113 §8.2); undefined where it is not, as far as single fields tell. */
  readonly fault: string | undefined;
  /** Whether the section is larger than the limit, so that the fields beyond it are missing from `list`. */
  readonly isTooLarge: boolean;
}

/** A token in lower case, or a pseudo-field (RFC 9113 §8.2.1, §8.3). */
const fieldName = /^:?[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** No control characters but HTAB, and no white space around (RFC 9113 §8.2.1, RFC 9110 §5.5). */
const fieldValue = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;

/** Fields of a connection, which HTTP/2 does not have (RFC 9113 §8.2.2). */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
]);

/** Returns why a field makes its message malformed (RFC 9113 §8.2); undefined where it does not. */
function fieldFault(name: string, value: string): string | undefined {
  if (!fieldName.test(name)) return 'the name of a field is invalid';
  if (!fieldValue.test(value)) return `the value of ${name} is invalid`;
  if (connectionFields.has(name)) return `${name} does not exist in HTTP/2`;
  return name === 'te' && value !== 'trailers' ? 'the value of TE is not "trailers"' : undefined;
}

/** An entry of the dynamic table. */
interface TableEntry {
  readonly name: string;
  readonly value: string;
  readonly fault: string | undefined;
}

/** Decodes the field sections of one connection, one after the other. */
export class HpackDecoder {
  /** The dynamic table as a ring: the newest entry is at `#newest`, older ones before it. */
  #ring: (TableEntry | undefined)[] = Array<undefined>(16).fill(undefined);
  #newest = -1;
  #count = 0;
  #sizeBytes = 0;
  #mostBytes = initialTableBytes;
  #block: Uint8Array = new Uint8Array();
  #at = 0;
  #end = 0;

  /**
   * Decodes the field section in `block` from `start` to `end` (exclusive). Keeps fields up to `limitBytes`, counted as RFC 9113
   * §6.5.2 does. Throws `HpackFault`.
   */
  decode(block: Uint8Array, start: number, end: number, limitBytes: number): FieldSection {
    this.#block = block;
    this.#at = start;
    this.#end = end;
    const list: string[] = [];
    let fault: string | undefined;
    let hasField = false;
    let leftBytes = limitBytes;
    while (this.#at < end) {
      const first = block[this.#at] as number;
      if ((first & 0xe0) === 0x20) {
        // Size updates are allowed only before the first field (RFC 7541 §4.2).
        if (leftBytes < limitBytes) throw new HpackFault('a table size update after a field');
        this.#resize(this.#integer(0x1f));
        continue;
      }
      const entry = first >= 0x80 ? this.#entryAt(this.#integer(0x7f)) : this.#literal(first);
      leftBytes -= entry.name.length + entry.value.length + entryOverheadBytes;
      fault ??= entry.fault;
      if (entry.name.charCodeAt(0) !== colon) hasField = true;
      else if (hasField) fault ??= 'a pseudo-field after a field';
      if (leftBytes >= 0) list.push(entry.name, entry.value);
    }
    return { list, fault, isTooLarge: leftBytes < 0 };
  }

  #literal(first: number): TableEntry {
    const isIndexed = first >= 0x40;
    const index = this.#integer(isIndexed ? 0x3f : 0x0f);
    const name = index === 0 ? this.#text() : this.#entryAt(index).name;
    const value = this.#text();
    const entry = { name, value, fault: fieldFault(name, value) };
    if (isIndexed) this.#add(entry);
    return entry;
  }

  #entryAt(index: number): TableEntry {
    if (index >= 1 && index <= staticEntries.length) return staticEntries[index - 1] as TableEntry;
    const age = index - staticEntries.length - 1;
    if (index === 0 || age >= this.#count) throw new HpackFault('an index beyond the tables');
    const place = (this.#newest - age + this.#ring.length) % this.#ring.length;
    return this.#ring[place] as TableEntry;
  }

  /** RFC 7541 §4.4: an entry larger than the table empties it. */
  #add(entry: TableEntry): void {
    const entryBytes = entry.name.length + entry.value.length + entryOverheadBytes;
    this.#evictTo(this.#mostBytes - entryBytes);
    if (entryBytes > this.#mostBytes) return;
    if (this.#count === this.#ring.length) this.#grow();
    this.#newest = (this.#newest + 1) % this.#ring.length;
    this.#ring[this.#newest] = entry;
    this.#count += 1;
    this.#sizeBytes += entryBytes;
  }

  #resize(mostBytes: number): void {
    if (mostBytes > initialTableBytes) throw new HpackFault('a table larger than allowed');
    this.#mostBytes = mostBytes;
    this.#evictTo(mostBytes);
  }

  #evictTo(mostBytes: number): void {
    while (this.#count > 0 && this.#sizeBytes > mostBytes) {
      const place = (this.#newest - this.#count + 1 + this.#ring.length) % this.#ring.length;
      const { name, value } = this.#ring[place] as TableEntry;
      this.#ring[place] = undefined;
      this.#sizeBytes -= name.length + value.length + entryOverheadBytes;
      this.#count -= 1;
    }
  }

  #grow(): void {
    const entries = Array.from({ length: this.#count }, (_, at) => {
      return this.#ring[(this.#newest - this.#count + 1 + at + this.#ring.length) % this.#ring.length];
    });
    this.#ring = [...entries, ...Array<undefined>(this.#ring.length).fill(undefined)];
    this.#newest = this.#count - 1;
  }

  /** RFC 7541 §5.1. The prefix has the bits of `mask`. */
  #integer(mask: number): number {
    let value = this.#byte() & mask;
    if (value < mask) return value;
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.#byte();
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new HpackFault('an integer is too large');
  }

  /** RFC 7541 §5.2: one character per byte. */
  #text(): string {
    const isHuffman = this.#at < this.#end && (this.#block[this.#at] as number) >= 0x80;
    const sizeBytes = this.#integer(0x7f);
    const start = this.#at;
    const end = start + sizeBytes;
    if (end > this.#end) throw new HpackFault('a text ends after its field section');
    this.#at = end;
    return isHuffman ? decodeHuffman(this.#block, start, end) : textOf(this.#block, start, end);
  }

  #byte(): number {
    if (this.#at >= this.#end) throw new HpackFault('a field section ends in the middle of a field');
    const byte = this.#block[this.#at] as number;
    this.#at += 1;
    return byte;
  }
}

const staticEntries: readonly TableEntry[] = staticTable.map(([name, value]) => {
  return { name, value, fault: fieldFault(name, value) };
});

/** Short texts are made byte by byte: a call into native code costs more. */
const shortBytes = 12;

function textOf(bytes: Uint8Array, start: number, end: number): string {
  if (end - start > shortBytes)
    return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1');
  let text = '';
  for (let at = start; at < end; at += 1) text += String.fromCharCode(bytes[at] as number);
  return text;
}

/**
 * The lengths in bits of the codes of all octets, 16 a line, and of the end of a text (RFC 7541 Appendix B). The code is canonical:
 * codes of one length are consecutive, in the order of their octets.
 */
const codeLengths: readonly number[] = [
  '13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28',
  '28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28',
  '6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6',
  '5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10',
  '13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7',
  '7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6',
  '15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5',
  '6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28',
  '20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23',
  '24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24',
  '22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23',
  '21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23',
  '26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25',
  '19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27',
  '20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23',
  '26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26',
  '30',
].flatMap((line) => line.split(' ').map(Number));

/** A node of the code's tree, with the two nodes or octets that follow. */
interface TreeNode {
  readonly next: [TreeNode | number | undefined, TreeNode | number | undefined];
  readonly index: number;
  /** Whether a text may end here: all bits up to here are 1, as those of padding, and fewer than 8 (RFC 7541 §5.2). */
  readonly mayEnd: boolean;
}

const endOfText = 256;

/**
 * Two tables, indexed by state and half an octet: the next state, and the octet that is complete, if any. The state `failed` stands
 * for the code of the end of a text, which must not occur (RFC 7541 §5.2).
 */
const { nextStates, octets, mayEnd, failed } = createHuffmanTables(createHuffmanTree());

/** Creates the nodes of the tree; the first one is its root. */
function createHuffmanTree(): readonly TreeNode[] {
  const root: TreeNode = { next: [undefined, undefined], index: 0, mayEnd: true };
  const nodes = [root];
  let code = 0;
  let codeLength = 0;
  const ordered = codeLengths.map((length, octet) => ({ length, octet })).sort((a, b) => a.length - b.length);
  for (const { length, octet } of ordered) {
    code *= 2 ** (length - codeLength);
    codeLength = length;
    let node = root;
    for (let bit = length - 1; bit > 0; bit -= 1) {
      const side = bitOf(code, bit);
      const depth = length - bit;
      node.next[side] ??= addNode(nodes, node.mayEnd && side === 1 && depth < 8);
      node = node.next[side] as TreeNode;
    }
    node.next[bitOf(code, 0)] = octet;
    code += 1;
  }
  return nodes;
}

function addNode(nodes: TreeNode[], mayEnd: boolean): TreeNode {
  const node: TreeNode = { next: [undefined, undefined], index: nodes.length, mayEnd };
  nodes.push(node);
  return node;
}

function bitOf(code: number, bit: number): 0 | 1 {
  return Math.floor(code / 2 ** bit) % 2 === 1 ? 1 : 0;
}

function createHuffmanTables(nodes: readonly TreeNode[]) {
  const nextStates = new Uint16Array(nodes.length * 16);
  const octets = new Int16Array(nodes.length * 16).fill(-1);
  for (const start of nodes) {
    for (let half = 0; half < 16; half += 1) {
      const at = start.index * 16 + half;
      const { octet, end } = walk(nodes, start, half);
      octets[at] = octet;
      nextStates[at] = end?.index ?? nodes.length;
    }
  }
  return { nextStates, octets, mayEnd: nodes.map((node) => node.mayEnd), failed: nodes.length };
}

/** Follows four bits from a node. At most one octet becomes complete; -1 stands for none. `end` is undefined at the end of a text. */
function walk(nodes: readonly TreeNode[], start: TreeNode, half: number): { octet: number; end: TreeNode | undefined } {
  let node = start;
  let octet = -1;
  for (let bit = 3; bit >= 0; bit -= 1) {
    const next = node.next[bitOf(half, bit)];
    if (next === undefined || next === endOfText) return { octet, end: undefined };
    if (typeof next === 'number') octet = next;
    node = typeof next === 'number' ? (nodes[0] as TreeNode) : next;
  }
  return { octet, end: node };
}

/** The shortest code has 5 bits. */
const mostOctetsPerByte = 8 / 5;

let scratch = Buffer.allocUnsafeSlow(4096);

function decodeHuffman(bytes: Uint8Array, start: number, end: number): string {
  const mostBytes = Math.ceil((end - start) * mostOctetsPerByte);
  if (mostBytes > scratch.length) scratch = Buffer.allocUnsafeSlow(2 * mostBytes);
  let state = 0;
  let length = 0;
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] as number;
    let place = state * 16 + (byte >> 4);
    if (octets[place] !== -1) scratch[length++] = octets[place] as number;
    state = nextStates[place] as number;
    if (state === failed) throw new HpackFault('a text contains the code of its end');
    place = state * 16 + (byte & 15);
    if (octets[place] !== -1) scratch[length++] = octets[place] as number;
    state = nextStates[place] as number;
    if (state === failed) throw new HpackFault('a text contains the code of its end');
  }
  if (mayEnd[state] !== true) throw new HpackFault('the padding of a text is invalid');
  return textOf(scratch, 0, length);
}

/** The first index in the static table of each name. */
const staticNames = new Map(staticTable.map(([name], at) => [name, at + 1] as const).reverse());

/** The beginnings of fields whose names are in the static table: literals without indexing (RFC 7541 §6.2.2). */
const namedPrefixes = new Map([...staticNames].map(([name, index]) => [name, encodeInteger(index, 0x0f, 0x00)]));

const statuses = new Map(
  staticTable.flatMap(([name, value], at) => (name === ':status' ? [[value, String.fromCharCode(0x81 + at)]] : [])),
);

/** Encodes `:status`, one character per byte. */
export function encodeStatus(status: number): string {
  const text = String(status);
  return statuses.get(text) ?? encodeField(':status', text);
}

/** Encodes a field as a literal without indexing (RFC 7541 §6.2.2), one character per byte. Checks nothing. */
export function encodeField(name: string, value: string): string {
  const prefix = namedPrefixes.get(name) ?? `\x00${encodeInteger(name.length, 0x7f, 0x00)}${name}`;
  const { length } = value;
  return prefix + (length < 0x7f ? String.fromCharCode(length) : encodeInteger(length, 0x7f, 0x00)) + value;
}

function encodeInteger(value: number, mask: number, pattern: number): string {
  if (value < mask) return String.fromCharCode(pattern | value);
  let text = String.fromCharCode(pattern | mask);
  let rest = value - mask;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) text += String.fromCharCode(0x80 | (rest % 0x80));
  return text + String.fromCharCode(rest);
}

/** Encoded fields, without Content-Length. */
export interface EncodedFields {
  readonly text: string;
  readonly hasDate: boolean;
}

/** Alternating names and values. */
type Http2Lines = readonly string[];

/** Fields that are not combined into one line (RFC 9110 §5.3): clients are known to misread their list form. */
const keptApart: ReadonlySet<string> = new Set(['set-cookie', 'www-authenticate', 'proxy-authenticate']);

/** Formats the field section of a final response, with Date (RFC 9110 §6.6.1) and Content-Length. `now` in epoch milliseconds. */
export function formatHead(
  status: number,
  { text, hasDate }: EncodedFields,
  contentLength: number | undefined,
  now: number,
): string {
  let section = encodeStatus(status) + text;
  if (!hasDate) section += dates.at(now);
  if (contentLength !== undefined) section += encodeField('content-length', String(contentLength));
  return section;
}

/** Formats the field section of a hit; undefined where a field cannot be written. `now` in epoch milliseconds. */
export function formatHitHead(hit: Hit, now: number): string | undefined {
  const { status, fields, ageSeconds, cacheStatus, contentRange, more, sizeBytes } = hit;
  if (fields.section?.text === undefined) fields.section = lastSections.keep(encodeForHits(fields.lines()));
  const section = fields.section;
  if (section.text === false) return undefined;
  let text = `${section.text}${encodeField('age', String(ageSeconds))}${encodeField('cache-status', cacheStatus)}`;
  for (const [name, value] of more) text += encodeField(name, value);
  if (contentRange !== undefined) text += encodeField('content-range', contentRange);
  return formatHead(status, { text, hasDate: section.hasDate }, sizeBytes, now);
}

/** Encodes the fields that hits of one stored response share. The text is `false` where a field cannot be written. */
function encodeForHits(fields: Fields): CachedSection {
  try {
    const { text, hasDate } = encodeLines(http2Lines(fields));
    // Flattens the string: V8 would keep all the parts that it was concatenated from.
    return { text: Buffer.from(text, 'latin1').toString('latin1'), hasDate };
  } catch {
    return { text: false, hasDate: false };
  }
}

/**
 * The sections that were encoded last. Each new one takes the place of the oldest, whose text is dropped and encoded again for its
 * next hit: a text for each entry would take a third more memory.
 */
class LastSections {
  readonly #sections = new Array<CachedSection | undefined>(8192).fill(undefined);
  #next = 0;

  /** Keeps a section; returns it. */
  keep(section: CachedSection): CachedSection {
    const oldest = this.#sections[this.#next];
    if (oldest !== undefined) oldest.text = undefined;
    this.#sections[this.#next] = section;
    this.#next = (this.#next + 1) % this.#sections.length;
    return section;
  }
}

const lastSections = new LastSections();

/** Encodes lines. Checks nothing. */
export function encodeLines(lines: Http2Lines): EncodedFields {
  let text = '';
  for (let at = 0; at + 1 < lines.length; at += 2) text += encodeField(lines[at] as string, lines[at + 1] as string);
  return { text, hasDate: indexOfName(lines, 'date') !== -1 };
}

/**
 * Converts fields to lines, without connection-specific fields (RFC 9113 §8.2.2). Throws for invalid characters in a name or value.
 */
export function http2Lines(fields: Fields): Http2Lines {
  const lines: string[] = [];
  for (const [name, value] of fields) {
    if (isFramingField(name) || name === 'http2-settings') continue;
    validateHeaderName(name);
    validateHeaderValue(name, value);
    const earlier = keptApart.has(name) ? -1 : indexOfName(lines, name);
    if (earlier === -1) lines.push(name, value);
    else lines[earlier + 1] += `, ${value}`;
  }
  return lines;
}

function indexOfName(lines: Http2Lines, name: string): number {
  for (let at = 0; at < lines.length; at += 2) if (lines[at] === name) return at;
  return -1;
}

/** The field Date, encoded once per second. */
class DateField {
  #second = Number.NaN;
  #text = '';

  /** Returns the field for a time in epoch milliseconds. */
  at(now: number): string {
    const second = Math.floor(now / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = encodeField('date', formatHttpDate(now));
    }
    return this.#text;
  }
}

const dates = new DateField();
