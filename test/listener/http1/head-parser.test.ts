/** Heads of requests: which are read, which are refused, and that it does not matter in which pieces they arrive. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fields } from '../../../src/http/fields.ts';
import type { ErrorCode } from '../../../src/http/proxy-error.ts';
import { HeadParser } from '../../../src/listener/http1/head-parser.ts';
import { type HeadLimits, type HeadReading, toParsedHead } from '../../../src/listener/request-head.ts';
import { headText } from '../../support/values/request-arbitraries.ts';

const limits: HeadLimits = { targetBytes: 100, fieldsBytes: 400, maxFieldCount: 8 };
const wide: HeadLimits = { targetBytes: 8192, fieldsBytes: 32_768, maxFieldCount: 256 };

const bad = 'malformed_request';

/** Reads growing pieces of a text; returns the reading of the first that decides. */
function readPieces(text: string, places: readonly number[], headLimits = limits): HeadReading {
  const bytes = Buffer.from(text, 'latin1');
  const parser = new HeadParser(headLimits);
  for (const [at, end] of [...places, bytes.length].entries()) {
    const piece = bytes.subarray(0, end);
    const reading = at === 0 ? parser.readFirst(piece) : parser.read(piece);
    if (reading.kind !== 'more') return spelledOut(reading);
  }
  return { kind: 'more' };
}

/** Turns a plain head into a common one: `plain-head.test.ts` tests which heads are plain. */
function spelledOut(reading: HeadReading): HeadReading {
  return reading.kind === 'plain' ? { ...reading, kind: 'head', head: toParsedHead(reading.head) } : reading;
}

/** Reads a text in one piece, and in pieces of one byte. */
function readBothWays(text: string, headLimits = limits): HeadReading[] {
  const everywhere = Array.from(text, (_character, at) => at);
  return [readPieces(text, [], headLimits), readPieces(text, everywhere, headLimits)];
}

/** The code of a fault, without its detail for people; else the kind of the reading. */
function codeOf(reading: HeadReading): HeadReading['kind'] | ErrorCode {
  return reading.kind === 'fault' ? reading.code : reading.kind;
}

/** A head with this request line. */
const line = (text: string) => `${text}\r\nHost: a\r\n\r\n`;
/** A head with these field lines, each with its end. */
const lines = (text: string) => `GET / HTTP/1.1\r\n${text}\r\n`;
/** A head with this field line. */
const field = (text: string) => lines(`${text}\r\n`);

describe('a head', () => {
  type Row = [text: string, method: string, target: string, version: '1.0' | '1.1', ...fields: Fields];
  it.each<Row>([
    ['GET / HTTP/1.1\r\n\r\n', 'GET', '/', '1.1'],
    ['GET / HTTP/1.0\r\n\r\n', 'GET', '/', '1.0'],
    [line('GET / HTTP/1.1'), 'GET', '/', '1.1', ['host', 'a']],
    [line('get / HTTP/1.1'), 'get', '/', '1.1', ['host', 'a']],
    [line('OPTIONS * HTTP/1.1'), 'OPTIONS', '*', '1.1', ['host', 'a']],
    [line("!#$%&'*+-.^_`|~09azAZ /x HTTP/1.1"), "!#$%&'*+-.^_`|~09azAZ", '/x', '1.1', ['host', 'a']],
    // Targets are validated later, where their form is known.
    [line('GET !"#$%[\\]^`{|}~ HTTP/1.1'), 'GET', '!"#$%[\\]^`{|}~', '1.1', ['host', 'a']],
    [field('X:'), 'GET', '/', '1.1', ['x', '']],
    [field('X: '), 'GET', '/', '1.1', ['x', '']],
    [field('X:y'), 'GET', '/', '1.1', ['x', 'y']],
    [field('X: \t y z\tz \t'), 'GET', '/', '1.1', ['x', 'y z\tz']],
    [field('Transfer-Encoding:\tchunked '), 'GET', '/', '1.1', ['transfer-encoding', 'chunked']],
    [field('Content-Length: \t3 '), 'GET', '/', '1.1', ['content-length', '3']],
    [field('X: y: z:'), 'GET', '/', '1.1', ['x', 'y: z:']],
    [field('X::'), 'GET', '/', '1.1', ['x', ':']],
    [field('X: \x80\xe4\xff'), 'GET', '/', '1.1', ['x', '\x80\xe4\xff']],
    [field("!#$%&'*+-.^_`|~09azAZ: y"), 'GET', '/', '1.1', ["!#$%&'*+-.^_`|~09azaz", 'y']],
    [lines('A: 1\r\nb: 2\r\nA: 3\r\n'), 'GET', '/', '1.1', ['a', '1'], ['b', '2'], ['a', '3']],
    [`\r\n${line('GET / HTTP/1.1')}`, 'GET', '/', '1.1', ['host', 'a']],
    [`\r\n\r\n\r\n\r\n${line('GET / HTTP/1.1')}`, 'GET', '/', '1.1', ['host', 'a']],
  ])('%j', (text, method, target, version, ...fields) => {
    const head = { kind: 'head', head: { method, target, version, fields }, sizeBytes: text.length };
    expect(readBothWays(text)).toEqual([head, head]);
  });

  it('ends at its empty line, whatever follows', () => {
    const text = line('GET / HTTP/1.1');
    for (const rest of ['\r\n\r\n', 'abc', '\0', 'GET / HTTP/1.1\r\n\r\n', 'x'.repeat(10_000)]) {
      expect(readPieces(text + rest, [])).toMatchObject({ kind: 'head', sizeBytes: text.length });
      expect(readPieces(text + rest, [text.length - 1])).toMatchObject({ kind: 'head', sizeBytes: text.length });
    }
  });

  it('may follow another head', () => {
    const parser = new HeadParser(limits);
    for (const text of [line('GET /1 HTTP/1.1'), `\r\n${line('GET /2 HTTP/1.0')}`, lines(''), '\0']) {
      const bytes = Buffer.from(text, 'latin1');
      if (text === '\0') expect(codeOf(parser.readFirst(bytes))).toBe(bad);
      else {
        expect(parser.readFirst(bytes.subarray(0, 5)).kind).toBe('more');
        expect(parser.read(bytes)).toMatchObject({ kind: 'head', sizeBytes: text.length });
      }
    }
  });

  it.each([
    '',
    '\r',
    '\r\n',
    '\r\n\r\n',
    'G',
    'GET',
    'GET / HTTP/1.1',
    'GET / HTTP/1.1\r',
    'GET / HTTP/1.1\r\n',
    'GET / HTTP/1.1\r\n\r',
    'GET / HTTP/1.1\r\nX: y\r\n',
    'GET / HTTP/1.1\r\nX: y\r\n\r',
    'GET / HTTP/1.1\r\nX: \t\xff',
  ])('may go on after %j', (text) => {
    expect(readBothWays(text)).toEqual([{ kind: 'more' }, { kind: 'more' }]);
  });
});

describe('a malformed head', () => {
  const rows: Readonly<Record<string, readonly string[]>> = {
    'RFC 9112 §2.2: a line ends with CR LF, and neither occurs elsewhere': [
      'GET / HTTP/1.1\nHost: a\n\n',
      'GET / HTTP/1.1\rHost: a\r\r',
      'GET / HTTP/1.1\r\r\nHost: a\r\n\r\n',
      'GET / HTTP/1.1\n\rHost: a\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: a\n\r\n',
      'GET / HTTP/1.1\r\nHost: a\r\n\n',
      'GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: a\r\n\r\r\n',
      'GET /\r\n HTTP/1.1\r\nHost: a\r\n\r\n',
      '\nGET / HTTP/1.1\r\n\r\n',
      '\rGET / HTTP/1.1\r\n\r\n',
      '\r\r\nGET / HTTP/1.1\r\n\r\n',
      '\r\n\nGET / HTTP/1.1\r\n\r\n',
    ],
    'RFC 9112 §2.2: no white space and few empty lines before the first line': [
      line(' GET / HTTP/1.1'),
      line('\tGET / HTTP/1.1'),
      ` \r\n${line('GET / HTTP/1.1')}`,
      '\r\n'.repeat(5) + line('GET / HTTP/1.1'),
      '\r\n'.repeat(5),
      '\r\n'.repeat(10_000),
    ],
    'RFC 9112 §3: one space on each side of the target': [
      line('GET'),
      line('GET '),
      line('GET /'),
      line('GET / '),
      line('GET  / HTTP/1.1'),
      line('GET /  HTTP/1.1'),
      line('GET / HTTP/1.1 '),
      line('GET / HTTP/1.1\t'),
      line('GET\t/ HTTP/1.1'),
      line('GET /\tHTTP/1.1'),
      line('GET\x0b/ HTTP/1.1'),
      line('GET\xa0/ HTTP/1.1'),
      line('GET / x HTTP/1.1'),
      line('GET / HTTP/1.1 GET / HTTP/1.1'),
    ],
    'RFC 9112 §3.1: a method is a token': [
      line(' / HTTP/1.1'),
      line('"GET" / HTTP/1.1'),
      line('GET: / HTTP/1.1'),
      line('GET/ / HTTP/1.1'),
      line('GE\0T / HTTP/1.1'),
      line('G\xcbT / HTTP/1.1'),
      line('\xef\xbb\xbfGET / HTTP/1.1'),
      line('(GET) / HTTP/1.1'),
      `${'G'.repeat(100_000)}`,
      line(`${'G'.repeat(100_000)} / HTTP/1.1`),
    ],
    'RFC 9112 §3.2: a target consists of visible characters': [
      line('GET /\x7f HTTP/1.1'),
      line('GET /\0 HTTP/1.1'),
      line('GET /\x01 HTTP/1.1'),
      line('GET /\xe4 HTTP/1.1'),
      line('GET /\xa0 HTTP/1.1'),
      line('GET /\r HTTP/1.1'),
      line('GET /\n HTTP/1.1'),
    ],
    'RFC 9112 §2.3: a version is HTTP/1 and one digit': [
      ...['HTTP/0.9', 'HTTP/2.0', 'HTTP/3', 'HTTP/1', 'HTTP/1.', 'HTTP/.1', 'HTTP/1.10', 'HTTP/1.1.1'],
      ...['HTTP/01.1', 'HTTP/1.01', 'HTTP/11', 'HTTP/1,1', 'HTTP/+1.1', 'HTTP/ 1.1', 'HTTP /1.1', 'HTTP1.1', 'HTTP/'],
      ...[
        'http/1.1',
        'Http/1.1',
        'HTTPS/1.1',
        'XHTTP/1.1',
        'RTSP/1.0',
        'ICE/1.0',
        'HTTP/1.x',
        'HTTP/1.1\0',
        'HTTP\\1.1',
      ],
    ].map((version) => line(`GET / ${version}`)),
    'RFC 9112 §5.1: no white space before the colon': [
      field('X : y'),
      field('X\t: y'),
      field('Transfer-Encoding : chunked'),
      field('X\xa0: y'),
      field('X\0: y'),
    ],
    'RFC 9112 §5.2: no line is folded': [
      field('X: y\r\n z'),
      field('X: y\r\n\tz'),
      field('X: y\r\n '),
      field('X:\r\n y'),
      field(' X: y'),
      field('\tX: y'),
      'GET / HTTP/1.1\r\n \r\n\r\n',
      'GET / HTTP/1.1\r\nX: y\r\n \r\n\r\n',
    ],
    'RFC 9110 §5.1: a name is a token': [
      field('X'),
      field(':'),
      field(': y'),
      field('GET /smuggled HTTP/1.1'),
      ...[...'\0\x01\b\t\n\x0b\x0c\r\x1b "(),/;<=>?@[\\]{}\x7f\x80\xad\xe4\xff'].map((sign) => field(`X${sign}Y: z`)),
    ],
    'RFC 9110 §5.5: no control character in a value': [
      ...[...'\0\x01\x07\b\n\x0b\x0c\r\x0e\x1b\x1f\x7f'].map((sign) => field(`X: y${sign}z`)),
      field('X:\0'),
      field('X: y\rTransfer-Encoding: chunked'),
      field('X: y\nTransfer-Encoding: chunked'),
    ],
    // White space is allowed there (RFC 9112 §5.1), but some recipients do not remove a tab.
    'RFC 9112 §6: all recipients read framing fields alike': [
      field('Transfer-Encoding: chunked\t'),
      field('transfer-encoding:chunked \t'),
      field('TRANSFER-ENCODING:\t'),
      field('Content-Length: 3\t'),
      field('X: y\r\ncontent-length:3 \t'),
    ],
    'bytes of another protocol': [
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
      'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n',
      '\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x50\0\x50',
      'SSH-2.0-OpenSSH_9.9\r\n',
      'EHLO a\r\n',
      'HTTP/1.1 200 OK\r\n',
      '\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0',
    ],
  };
  describe.each(Object.entries(rows))('%s', (_clause, texts) => {
    it.each(texts.map((text) => [text.slice(0, 100), text]))('%j', (_shown, text) => {
      expect(readBothWays(text).map(codeOf)).toEqual([bad, bad]);
      expect(readBothWays(text + line('GET /after HTTP/1.1')).map(codeOf)).toEqual([bad, bad]);
    });
  });
});

describe('a limit', () => {
  const target = (sizeBytes: number) => `/${'x'.repeat(sizeBytes - 1)}`;
  /** A line that counts so many bytes. */
  const sized = (sizeBytes: number) => `X: ${'y'.repeat(sizeBytes - 5)}\r\n`;
  const rows: [name: string, text: string, code: 'head' | ErrorCode, sizeBytesAtMost?: number][] = [
    ['the longest target', line(`GET ${target(100)} HTTP/1.1`), 'head'],
    ['a longer target', line(`GET ${target(101)} HTTP/1.1`), 'target_too_long'],
    ['a target without end', `GET ${target(100_000)}`, 'target_too_long', 1200],
    ['a long method', line(`${'G'.repeat(1000)} / HTTP/1.1`), 'head'],
    ['a method without end', 'G'.repeat(100_000), bad, 1200],
    ['garbage in a target without end', `GET ${target(1000)}\0${target(100_000)}`, bad, 1200],
    ['the largest section', lines(sized(400)), 'head'],
    ['a larger section', lines(sized(401)), 'fields_too_large'],
    ['the largest section of several lines', lines(sized(100).repeat(4)), 'head'],
    ['a larger section of several lines', lines(sized(100).repeat(4) + sized(5)), 'fields_too_large'],
    // A line counts a space after its colon even where it has none.
    [
      'a section that counts as larger than it is',
      lines(`${sized(100).repeat(3)}X:${'y'.repeat(96)}\r\n`),
      'fields_too_large',
    ],
    ['a section with much white space', lines(`X:${' '.repeat(400)}\r\n`), 'fields_too_large', 450],
    ['a value without end', `GET / HTTP/1.1\r\nX: ${'y'.repeat(100_000)}`, 'fields_too_large', 450],
    ['a name without end', `GET / HTTP/1.1\r\n${'X'.repeat(100_000)}`, 'fields_too_large', 450],
    ['garbage in a value without end', `GET / HTTP/1.1\r\nX: y\x01${'y'.repeat(100_000)}`, bad, 450],
    ['lines without end', `GET / HTTP/1.1\r\n${'X: y\r\n'.repeat(10_000)}`, 'fields_too_large', 450],
    ['the most lines', lines('X: y\r\n'.repeat(8)), 'head'],
    ['more lines', lines('X: y\r\n'.repeat(9)), 'fields_too_large'],
  ];
  it.each(rows)('of %s', (_name, text, code, sizeBytesAtMost = text.length) => {
    expect(readBothWays(text).map(codeOf)).toEqual([code, code]);
    expect(codeOf(readPieces(text.slice(0, sizeBytesAtMost), []))).toBe(code);
  });
});

describe('any bytes', () => {
  const places = fc.array(fc.nat(400), { maxLength: 6 }).map((found) => found.toSorted((a, b) => a - b));

  it('are read the same in whatever pieces they arrive', () => {
    let heads = 0;
    const property = fc.property(headText, places, (text, found) => {
      const whole = readPieces(text, []);
      const ends = found.filter((end) => end < text.length);
      const [, single] = readBothWays(text);
      const inPieces = readPieces(text, ends);
      for (const reading of [single, inPieces]) {
        if (whole.kind === 'fault') expect(codeOf(reading ?? whole)).toBe(whole.code);
        else expect(reading).toEqual(whole);
      }
      if (whole.kind === 'head') heads += 1;
    });
    fc.assert(property, { numRuns: 2000 });
    // Enough random texts stay valid.
    expect(heads).toBeGreaterThan(200);
  });

  it.each([
    ['a target', 0, `GET /${'x'.repeat(1000)}`],
    // A request line is read again when it is complete.
    ['a value', 16, `GET / HTTP/1.1\r\nX: ${'y'.repeat(1000)}`],
    ['many lines', 16, `GET / HTTP/1.1\r\n${'X: y\r\n'.repeat(200)}`],
  ])('are read once, however many pieces they arrive in: %s', (_name, from, text) => {
    const bytes = Buffer.from(text, 'latin1');
    const parser = new HeadParser(wide);
    for (let end = 1; end <= bytes.length; end += 1) {
      expect(parser.read(bytes.subarray(0, end))).toEqual({ kind: 'more' });
      // Reading these bytes again would be a fault. The last ones may be the start of a line end.
      if (end - 3 > from) bytes.fill(0, 0, end - 3);
    }
  });
});
