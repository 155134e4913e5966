/** Plain heads over HTTP/1.1 and HTTP/2: which heads a hit may answer, and what is read of them. */

import { describe, expect, it } from 'vitest';
import type { PlainHead } from '../../src/http/message.ts';
import { HeadParser } from '../../src/listener/http1/head-parser.ts';
import { readPlainHttp2Head } from '../../src/listener/request-head.ts';

const limits = { targetBytes: 100, fieldsBytes: 400, maxFieldCount: 12 };

type Line = readonly [name: string, value: string];

function readHttp1(line: string, lines: readonly Line[]): PlainHead | undefined {
  const text = `${line}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  const reading = new HeadParser(limits).readFirst(Buffer.from(text, 'latin1'));
  return reading.kind === 'plain' ? reading.head : undefined;
}

function readHttp2(pseudo: readonly Line[], lines: readonly Line[]): PlainHead | undefined {
  return readPlainHttp2Head([...pseudo, ...lines].flat(), { scheme: 'https', limits });
}

const host: Line = ['Host', 'files.example'];
const pseudo: readonly Line[] = [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':authority', 'files.example'],
  [':path', '/a'],
];
const browser: readonly Line[] = [
  ['User-Agent', 'Mozilla/5.0'],
  ['Accept', '*/*'],
  ['Accept-Language', 'en'],
  ['Referer', 'https://files.example/'],
  ['Cookie', 'a=1'],
  ['Sec-Fetch-Dest', 'video'],
  ['Priority', 'u=1'],
  ['DNT', '1'],
];
const inLowerCase = (lines: readonly Line[]): Line[] => lines.map(([name, value]) => [name.toLowerCase(), value]);

describe('a plain head', () => {
  it('has the fields that decide a hit, and reads all fields on demand', () => {
    const lines: readonly Line[] = [
      host,
      ...browser,
      ['RANGE', 'bytes=0-9'],
      ['If-Range', '"a"'],
      ['Accept-Encoding', 'gzip, br'],
    ];
    const selecting = [
      ['range', 'bytes=0-9'],
      ['if-range', '"a"'],
    ];
    const noted = { method: 'GET', target: '/a', authority: 'files.example', selecting, acceptEncoding: 'gzip, br' };
    const http1 = readHttp1('GET /a HTTP/1.1', lines);
    expect(http1).toMatchObject({ ...noted, version: '1.1' });
    expect(http1?.readFields()).toEqual(inLowerCase(lines));
    const http2 = readHttp2(pseudo, inLowerCase(lines.slice(1)));
    expect(http2).toMatchObject({ ...noted, version: '2' });
    expect(http2?.readFields()).toEqual(inLowerCase(lines));
  });

  it.each<readonly [why: string, lines: readonly Line[]]>([
    ['Host only', [host]],
    ['the fields of a browser', [host, ...browser]],
    ['a persistent connection', [host, ['Connection', 'Keep-Alive']]],
    ['credentials', [host, ['Authorization', 'Bearer abc'], ['X-API-Key', 'abc']]],
    ['conditions', [host, ['If-None-Match', '"a"'], ['If-Modified-Since', 'Thu, 01 Jan 1970 00:00:00 GMT']]],
    ['an Origin', [host, ['Origin', 'https://page.example']]],
  ])('may have %s', (_why, lines) => {
    expect(readHttp1('GET /a HTTP/1.1', lines)).toBeDefined();
    expect(readHttp1('HEAD /a HTTP/1.1', lines)).toBeDefined();
    const overHttp2 = inLowerCase(lines.slice(1)).filter(([name]) => name !== 'connection');
    expect(readHttp2(pseudo, overHttp2)).toBeDefined();
  });

  it.each<readonly [name: string, value: string]>([
    ['Via', '1.1 other'],
    ['CDN-Loop', 'other'],
    ['Expect', '100-continue'],
    ['Pragma', 'no-cache'],
    ['Cache-Control', 'max-age=0'],
    ['Upgrade', 'websocket'],
    ['If-Match', '"a"'],
    ['If-Unmodified-Since', 'Thu, 01 Jan 1970 00:00:00 GMT'],
    ['Content-Length', '0'],
    ['Transfer-Encoding', 'chunked'],
    ['Content_Length', '5'],
    ['Transfer.Encoding', 'chunked'],
    ['Connection', 'close'],
    ['Connection', 'keep-alive, Upgrade'],
  ])('has no %s: %s', (...line) => {
    expect(readHttp1('GET /a HTTP/1.1', [host, line])).toBeUndefined();
    if (line[0] !== 'Connection') expect(readHttp2(pseudo, inLowerCase([line]))).toBeUndefined();
  });

  it.each([
    'Host',
    'Range',
    'If-Range',
    'If-None-Match',
    'If-Modified-Since',
    'Accept-Encoding',
    'Origin',
    'Authorization',
    'X-API-Key',
  ])('has %s once at most', (name) => {
    const line: Line = [name, 'a'];
    const lines = name === 'Host' ? [line, line] : [host, line, line];
    expect(readHttp1('GET /a HTTP/1.1', lines)).toBeUndefined();
    // Beside `:authority`, one Host is already a second one.
    expect(readHttp2(pseudo, inLowerCase([line, line]))).toBeUndefined();
  });

  it.each(['POST /a HTTP/1.1', 'OPTIONS /a HTTP/1.1', 'GET /a HTTP/1.0', 'get /a HTTP/1.1'])('is not of %s', (line) => {
    expect(readHttp1(line, [host])).toBeUndefined();
  });

  it('has an authority, and over HTTP/2 the scheme of its connection', () => {
    expect(readHttp1('GET /a HTTP/1.1', browser)).toBeUndefined();
    expect(readHttp1('GET /a HTTP/1.1', [['Host', '']])).toBeUndefined();
    const without = (name: string) => pseudo.filter(([each]) => each !== name);
    expect(readHttp2(without(':authority'), [])).toBeUndefined();
    expect(readHttp2(without(':authority'), [['host', 'files.example']])).toMatchObject({ authority: 'files.example' });
    expect(readHttp2([...without(':scheme'), [':scheme', 'http']], [])).toBeUndefined();
    expect(readHttp2([...without(':method'), [':method', 'POST']], [])).toBeUndefined();
  });

  it('is within the limits of a head', () => {
    const many = (count: number): Line[] => Array.from({ length: count }, (_, at) => [`x-${at}`, '']);
    expect(readHttp1('GET /a HTTP/1.1', [host, ...many(11)])).toBeDefined();
    expect(readHttp1('GET /a HTTP/1.1', [host, ...many(12)])).toBeUndefined();
    expect(readHttp2(pseudo, many(12))).toBeDefined();
    expect(readHttp2(pseudo, many(13))).toBeUndefined();
    const long: Line = ['x', 'a'.repeat(400)];
    expect(readHttp1('GET /a HTTP/1.1', [host, long])).toBeUndefined();
    expect(readHttp2(pseudo, [long])).toBeUndefined();
    expect(readHttp2([...pseudo.slice(0, 3), [':path', `/${'a'.repeat(100)}`]], [])).toBeUndefined();
  });

  it('has values without the white space around them', () => {
    const text = 'GET /a HTTP/1.1\r\nHost:files.example\r\nRange:\t bytes=0-9 \t\r\nOrigin: \r\n\r\n';
    const reading = new HeadParser(limits).readFirst(Buffer.from(text, 'latin1'));
    expect(reading).toMatchObject({
      kind: 'plain',
      head: { authority: 'files.example', selecting: [['range', 'bytes=0-9']], origin: '' },
    });
  });
});
