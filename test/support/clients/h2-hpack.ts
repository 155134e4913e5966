/** HPACK (RFC 7541) for a hostile client: it encodes any field lines, valid or not, and decodes those of a server. */

import type { Field } from '../../../src/http/fields.ts';

/** The static table (RFC 7541 Appendix A), from index 1 on. */
const staticTable: readonly Field[] = [
  ':authority',
  ':method=GET',
  ':method=POST',
  ':path=/',
  ':path=/index.html',
  ':scheme=http',
  ':scheme=https',
  ...['200', '204', '206', '304', '400', '404', '500'].map((status) => `:status=${status}`),
  'accept-charset',
  'accept-encoding=gzip, deflate',
  ...'accept-language accept-ranges accept access-control-allow-origin age allow authorization'.split(' '),
  ...'cache-control content-disposition content-encoding content-language content-length content-location'.split(' '),
  ...'content-range content-type cookie date etag expect expires from host if-match if-modified-since'.split(' '),
  ...'if-none-match if-range if-unmodified-since last-modified link location max-forwards'.split(' '),
  ...'proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie'.split(' '),
  ...'strict-transport-security transfer-encoding user-agent vary via www-authenticate'.split(' '),
].map((entry) => {
  const [name = '', value = ''] = entry.split('=');
  return [name, value];
});

/** The characters of the Huffman code (RFC 7541 Appendix B) by the length of their codes, which are canonical. */
const huffmanLengths: ReadonlyMap<number, string> = new Map([
  [5, '012aceiost'],
  [6, ' %-./3456789=A_bdfghlmnpru'],
  [7, ':BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz'],
  [8, '&*,;XZ'],
  [10, '!"()?'],
  [11, "'+|"],
  [12, '#>'],
  [13, '\0$@[]~'],
  [14, '^}'],
  [15, '<`{'],
]);

const huffmanCodes: ReadonlyMap<string, string> = new Map(
  (function* codes(): Generator<[string, string]> {
    let code = 0;
    let bits = 5;
    for (const [length, characters] of huffmanLengths) {
      code <<= length - bits;
      bits = length;
      for (const character of characters) {
        yield [code.toString(2).padStart(length, '0'), character];
        code += 1;
      }
    }
  })(),
);

/** Encodes field lines as literals without indexing (§6.2.2), unchanged and unchecked; text is latin1. */
export function encodeFields(fields: readonly Field[]): Buffer {
  const parts = fields.flatMap(([name, value]) => [Buffer.from([0x00]), encodeText(name), encodeText(value)]);
  return Buffer.concat(parts);
}

/** Encodes a literal with incremental indexing (§6.2.1). */
export function encodeIndexed([name, value]: Field): Buffer {
  return Buffer.concat([Buffer.from([0x40]), encodeText(name), encodeText(value)]);
}

/** Encodes a string without Huffman coding (§5.2). */
export function encodeText(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  return Buffer.concat([encodeInteger(bytes.length, 7, 0x00), bytes]);
}

/** Encodes an integer with a prefix of `prefixBits` (§5.1). */
export function encodeInteger(value: number, prefixBits: number, firstBits: number): Buffer {
  const most = 2 ** prefixBits - 1;
  if (value < most) return Buffer.from([firstBits | value]);
  const bytes = [firstBits | most];
  let rest = value - most;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

/** Decodes a field section of a peer whose dynamic table has size 0. Throws where it is malformed. */
export function decodeFields(block: Uint8Array): Field[] {
  const reader = new BlockReader(block);
  const fields: Field[] = [];
  while (!reader.isAtEnd) {
    const first = reader.peek();
    if (first >= 0x80) fields.push(entryAt(reader.integer(7)));
    else if (first >= 0x40) fields.push(reader.literal(6));
    else if (first >= 0x20) reader.integer(5);
    else fields.push(reader.literal(4));
  }
  return fields;
}

class BlockReader {
  readonly #block: Uint8Array;
  #at = 0;

  constructor(block: Uint8Array) {
    this.#block = block;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#block.length;
  }

  peek(): number {
    return this.#block[this.#at] ?? 0;
  }

  literal(prefixBits: number): Field {
    const index = this.integer(prefixBits);
    const name = index === 0 ? this.text() : entryAt(index)[0];
    return [name, this.text()];
  }

  integer(prefixBits: number): number {
    const most = 2 ** prefixBits - 1;
    let value = this.#byte() & most;
    if (value < most) return value;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  text(): string {
    const isHuffman = this.peek() >= 0x80;
    const length = this.integer(7);
    const bytes = this.#block.subarray(this.#at, this.#at + length);
    this.#at += length;
    return isHuffman ? huffmanText(bytes) : Buffer.from(bytes).toString('latin1');
  }

  #byte(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw new Error('a field section ends too soon');
    this.#at += 1;
    return byte;
  }
}

function entryAt(index: number): Field {
  const entry = staticTable[index - 1];
  if (entry === undefined) throw new Error(`no entry ${index} in the static table`);
  return entry;
}

function huffmanText(bytes: Uint8Array): string {
  let text = '';
  let code = '';
  for (const bit of [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')) {
    code += bit;
    const character = huffmanCodes.get(code);
    if (character === undefined) continue;
    text += character;
    code = '';
  }
  if (!/^1{0,7}$/.test(code)) throw new Error(`no Huffman code: ${code}`);
  return text;
}
