/** Chunked bodies: which are read, which are refused, and that it does not matter in which pieces they arrive. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fields } from '../../../src/http/fields.ts';
import type { ErrorCode } from '../../../src/http/proxy-error.ts';
import { ChunkedDecoder } from '../../../src/listener/http1/request-body.ts';
import { chunkedText } from '../../support/values/request-arbitraries.ts';

const limits = { fieldsBytes: 400, maxFieldCount: 8 };

const bad = 'malformed_request';

type Outcome =
  | { readonly kind: 'end'; readonly content: string; readonly usedBytes: number; readonly trailers: Fields }
  | { readonly kind: 'more' | ErrorCode; readonly content: string };

/** Reads the pieces up to the first that decides. */
function readPieces(text: string, places: readonly number[]): Outcome {
  const bytes = Buffer.from(text, 'latin1');
  const decoder = new ChunkedDecoder(limits);
  let content = '';
  let start = 0;
  for (const end of [...places, bytes.length]) {
    const reading = decoder.read(bytes.subarray(start, end));
    content += Buffer.concat(reading.pieces).toString('latin1');
    if (reading.kind === 'fault') return { kind: reading.code, content };
    if (reading.kind === 'end') {
      return { kind: 'end', content, usedBytes: start + reading.usedBytes, trailers: reading.trailers };
    }
    start = end;
  }
  return { kind: 'more', content };
}

/** Reads a text in one piece, and in pieces of one byte. */
function readBothWays(text: string): Outcome[] {
  const everywhere = Array.from(text, (_character, at) => at);
  return [readPieces(text, []), readPieces(text, everywhere)];
}

const kinds = (text: string) => readBothWays(text).map(({ kind }) => kind);

/** A chunk of three bytes with this size line, and the last chunk. */
const sized = (size: string) => `${size}\r\nabc\r\n0\r\n\r\n`;
/** A body with these trailer lines, each with its end. */
const trailed = (lines: string) => `3\r\nabc\r\n0\r\n${lines}\r\n`;

describe('a chunked body', () => {
  it.each<[text: string, content: string, ...trailers: Fields]>([
    ['0\r\n\r\n', ''],
    ['00000\r\n\r\n', ''],
    [sized('3'), 'abc'],
    [sized('0003'), 'abc'],
    [sized('0000000000000003'), 'abc'],
    ['A\r\n0123456789\r\n0\r\n\r\n', '0123456789'],
    ['a\r\n0123456789\r\n0\r\n\r\n', '0123456789'],
    ['1\r\na\r\n2\r\nbc\r\n0\r\n\r\n', 'abc'],
    ['7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n', '\r\n0\r\n\r\n'],
    ['2\r\n\0\xff\r\n0\r\n\r\n', '\0\xff'],
    [sized('3;a'), 'abc'],
    [sized('3;a=b;c=d'), 'abc'],
    [sized('3;a="b c"'), 'abc'],
    [sized('3;a=""'), 'abc'],
    [sized('3;a="\\"\\\\;\t\xe4"'), 'abc'],
    ['3\r\nabc\r\n0;a=b\r\n\r\n', 'abc'],
    [trailed('X: y\r\n'), 'abc', ['x', 'y']],
    [trailed('X:\r\nx: \ty \r\n'), 'abc', ['x', ''], ['x', 'y']],
    [trailed('Host: evil\r\nAuthorization: Basic YTpi\r\n'), 'abc', ['host', 'evil'], ['authorization', 'Basic YTpi']],
  ])('%j', (text, content, ...trailers) => {
    const end: Outcome = { kind: 'end', content, usedBytes: text.length, trailers };
    expect(readBothWays(text)).toEqual([end, end]);
    expect(readBothWays(`${text}\r\n0\r\n\r\nGET`)).toEqual([end, end]);
  });

  it('is returned without a copy, as far as it has arrived', () => {
    const bytes = Buffer.from('5\r\nabcdefgh', 'latin1');
    const { pieces } = new ChunkedDecoder(limits).read(bytes.subarray(0, 6));
    expect(pieces.map(String)).toEqual(['abc']);
    expect(pieces[0]?.buffer).toBe(bytes.buffer);
    expect(pieces[0]?.byteOffset).toBe(bytes.byteOffset + 3);
  });

  it.each([
    '',
    '3',
    '3;a',
    '3;a="',
    '3\r',
    '3\r\n',
    '3\r\nab',
    '3\r\nabc',
    '3\r\nabc\r',
    '3\r\nabc\r\n',
    sized('3').slice(0, -1),
  ])('may go on after %j', (text) => {
    expect(kinds(text)).toEqual(['more', 'more']);
  });
});

describe('a malformed chunked body', () => {
  const rows: Readonly<Record<string, readonly string[]>> = {
    'RFC 9112 §7.1: a size consists of hexadecimal digits': [
      ...[
        'xyz',
        '+3',
        '-3',
        '-0',
        '0x3',
        '0X3',
        '3h',
        '3.0',
        '0_3',
        '"3"',
        "3'",
        '3,',
        '3:',
        '',
        '\x003',
        '3\0',
        '\x0b3',
      ],
      ...['3\x0b', '\xb3', '3\xa0', '３'.normalize('NFD'), '3e0h', '#3', '3 3'],
    ].map(sized),
    'RFC 9112 §7.1: there is no white space around a size, and none in extensions (RFC 9110 §5.6.3)': [
      ...[' 3', '\t3', '3 ', '3\t', '3 ;a', '3; a', '3;a =b', '3;a= b', '3;a=b ', '3;a="b" '],
    ].map(sized),
    'RFC 9112 §7.1: a size is below 2^53 and has 16 digits at most': [
      ...['20000000000000', 'fffffffffffffff', 'ffffffffffffffff', '10000000000000003', 'fffffffffffffffff'],
      ...['00000000000000003', '0'.repeat(1000)],
    ].map(sized),
    'RFC 9112 §7.1.1: an extension has a name, and optionally a token or a quoted string': [
      ...[
        '3;',
        '3;;a',
        '3;=b',
        '3;a=',
        '3;a=b=c',
        '3;a b',
        '3;a=b c',
        '3;a="b',
        '3;a=b"',
        '3;a="b"c',
        '3;a="\\',
        ';a=b',
      ],
      ...['3;a\x01b', '3;a\0', '3;a="\0"', '3;a="\x7f"', '3;a="\\\x01"', '3;\xe4', '3;a=\xe4', '3;a="b";', '3;a=b;'],
    ].map(sized),
    'RFC 9112 §2.2: a line ends with CR LF, also in extensions': [
      '3\nabc\r\n0\r\n\r\n',
      '3\rabc\r\n0\r\n\r\n',
      '3\r\r\nabc\r\n0\r\n\r\n',
      '3\n\r\nabc\r\n0\r\n\r\n',
      '3\r\nabc\r\n0\n\r\n',
      ...[
        '3;a\nb',
        '3;a\rb',
        '3;a\n',
        '3;\n5',
        '3;a="\n"',
        '3;a="\r\n"',
        '3;a="\\\n"',
        '3;a="\\\r\n"',
        '3;a=\r\n ',
      ].map(sized),
      '3\r\nabc\r\n0;a\n\r\n\r\n',
    ],
    'RFC 9112 §7.1: a chunk ends where its size says, with CR LF': [
      '3\r\nabcd\r\n0\r\n\r\n',
      '4\r\nabc\r\n0\r\n\r\n',
      '3\r\nabc0\r\n\r\n',
      '3\r\nabc\n0\r\n\r\n',
      '3\r\nabc\r0\r\n\r\n',
      '3\r\nabc\n\r0\r\n\r\n',
      '3\r\nabcXX0\r\n\r\n',
      '3\r\nabc\r\n\r\n0\r\n\r\n',
      '3\r\nabc \r\n0\r\n\r\n',
      '3\r\nabc;\r\n0\r\n\r\n',
    ],
    'RFC 9112 §7.1.2: a trailer section consists of field lines': [
      ...['X\r\n', ' X: y\r\n', 'X : y\r\n', 'X: y\r\n z\r\n', 'X: y\n', 'X: y\r', 'X: y\nZ: a\r\n', 'X: y\rZ: a\r\n'],
      ...['X: y\0z\r\n', 'X: y\x7f\r\n', ': y\r\n', 'X y: z\r\n', 'GET /smuggled HTTP/1.1\r\nHost: a\r\n', '\n', '\r'],
    ].map(trailed),
    'RFC 9110 §6.5.1: a trailer section has no framing fields': [
      'Content-Length: 5\r\n',
      'content-length: 0\r\n',
      'Transfer-Encoding: chunked\r\n',
      'X: y\r\nTRANSFER-ENCODING: gzip\r\n',
    ].map(trailed),
  };
  describe.each(Object.entries(rows))('%s', (_clause, texts) => {
    it.each(texts.map((text) => [text.slice(0, 100), text]))('%j', (_shown, text) => {
      expect(kinds(`${text}GET / HTTP/1.1\r\n\r\n`)).toEqual([bad, bad]);
    });
  });
});

describe('a limit', () => {
  const extended = (sizeBytes: number) => `1;${'x'.repeat(sizeBytes - 1)}\r\na\r\n`;
  it.each<[name: string, text: string, kind: Outcome['kind']]>([
    ['the largest chunk', '1fffffffffffff\r\na', 'more'],
    ['a larger chunk', '20000000000000\r\na', bad],
    ['the longest extension', `${extended(16_384)}0\r\n\r\n`, 'end'],
    ['a longer extension', `${extended(16_385)}0\r\n\r\n`, bad],
    ['the longest extensions of several chunks', `${extended(1024).repeat(16)}0\r\n\r\n`, 'end'],
    ['longer extensions of several chunks', `${extended(1024).repeat(16)}0;a\r\n\r\n`, bad],
    ['an extension without end', `1;${'x'.repeat(16_500)}`, bad],
    ['digits without end', '0'.repeat(16_500), bad],
    ['the largest trailer section', trailed(`X: ${'y'.repeat(395)}\r\n`), 'end'],
    ['a larger trailer section', trailed(`X: ${'y'.repeat(396)}\r\n`), 'fields_too_large'],
    ['a trailer without end', `0\r\nX: ${'y'.repeat(400)}`, 'fields_too_large'],
    ['trailers without end', `0\r\n${'X: y\r\n'.repeat(70)}`, 'fields_too_large'],
    ['the most trailers', trailed('X: y\r\n'.repeat(8)), 'end'],
    ['more trailers', trailed('X: y\r\n'.repeat(9)), 'fields_too_large'],
  ])('of %s', (_name, text, kind) => {
    expect(kinds(text)).toEqual([kind, kind]);
  });
});

describe('any bytes', () => {
  const places = fc.array(fc.nat(200), { maxLength: 6 }).map((found) => found.toSorted((a, b) => a - b));

  it('are read the same in whatever pieces they arrive', () => {
    let bodies = 0;
    const property = fc.property(chunkedText, places, (text, found) => {
      const [whole, single] = readBothWays(text);
      const ends = found.filter((end) => end < text.length);
      for (const reading of [single, readPieces(text, ends)]) expect(reading).toEqual(whole);
      if (whole?.kind === 'end') bodies += 1;
    });
    fc.assert(property, { numRuns: 2000 });
    // Enough random texts stay valid.
    expect(bodies).toBeGreaterThan(200);
  });
});
