/** Key confusion: which requests share a cache entry, and which have two. The origin gets each target as it was sent. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSharedGround, requestOf, type SharedGround } from '../support/proxies/shared-ground.ts';

/** Two targets, whether they have one entry or two, and why. Each row puts a text of its own in place of `@`. */
const targets: readonly (readonly [a: string, b: string, entries: 'one' | 'two', why: string])[] = [
  ['/@/a', '/@/a', 'one', 'they are the same'],
  // Targets that are equivalent by RFC 3986 §6.2.2 reach the origin as they were sent, and an origin may compare text.
  ['/@/~a', '/@/%7Ea', 'two', 'an encoded character is sent encoded'],
  ['/@/a', '/@/%61', 'two', 'an encoded character is sent encoded'],
  ['/@/%7e', '/@/%7E', 'two', 'hexadecimal digits are sent in their case'],
  ['/@/%c3%a9', '/@/%C3%A9', 'two', 'hexadecimal digits are sent in their case'],
  ['/@/a%2fb', '/@/a%2Fb', 'two', 'hexadecimal digits are sent in their case'],
  ['/@/a', '/@/./a', 'two', 'dot segments are sent'],
  ['/@/a', '/@/b/../a', 'two', 'dot segments are sent'],
  ['/@/b/../a', '/@/b/%2e%2e/a', 'two', 'dot segments are sent as they are encoded'],
  ['/@/a', '/@/b/%2E./a', 'two', 'dot segments are sent, half encoded ones too'],
  ['/@/a/', '/@/a/.', 'two', 'dot segments are sent'],
  ['/@/a?x=%61', '/@/a?x=a', 'two', 'an encoded character of a query is sent encoded'],
  ['/@/a', '/@/a/../a', 'two', 'an equivalent path is another text'],
  // Targets that an origin may tell apart.
  ['/@/a', '/@/A', 'two', 'a path is case-sensitive'],
  ['/@/a', '/@/a/', 'two', 'a final slash is a segment'],
  ['/@/a', '/@//a', 'two', 'an empty segment counts'],
  ['/@/a', '//@/a', 'two', 'an empty segment counts, at the beginning too'],
  ['/@/a/b', '/@/a%2Fb', 'two', 'an encoded slash is no separator'],
  ['/@/a/b', '/@/a\\b', 'two', 'a backslash is no slash'],
  ['/@/a\\b', '/@/a%5Cb', 'two', 'a backslash is no encoded backslash'],
  ['/@/a', '/@/a;b', 'two', 'a parameter is part of its segment'],
  ['/@/a;b', '/@/a%3Bb', 'two', 'a semicolon is reserved'],
  ['/@/a', '/@/a%00', 'two', 'NUL does not end a path'],
  ['/@/a', '/@/a%0A', 'two', 'a line end does not end a path'],
  ['/@/a', '/@/a%20', 'two', 'a space is a character'],
  ['/@/a+b', '/@/a%20b', 'two', 'plus is no space in a path'],
  ['/@/a+b', '/@/a%2Bb', 'two', 'plus is reserved'],
  ['/@/%61', '/@/%2561', 'two', 'a double encoding is not decoded'],
  ['/@/..a', '/@/%252e%252ea', 'two', 'a double encoding is not decoded'],
  ['/@/a%', '/@/a%25', 'two', 'a percent sign alone is no encoding'],
  ['/@/%zz', '/@/%25zz', 'two', 'a percent sign alone is no encoding'],
  ['/@/%%341', '/@/%2541', 'two', 'a percent sign alone is not completed'],
  ['/@/é'.replace('é', '%C3%A9'), '/@/e%CC%81', 'two', 'Unicode is not normalised'],
  ['/@/a.', '/@/a', 'two', 'a dot at the end is a character'],
  // Queries.
  ['/@/a', '/@/a?', 'two', 'an empty query differs from no query (RFC 3986 §6.2.3)'],
  ['/@/a?x', '/@/a?x=', 'two', 'no value differs from an empty value'],
  ['/@/a?x=1&y=2', '/@/a?y=2&x=1', 'two', 'the order may matter'],
  ['/@/a?x=1', '/@/a?x=1&x=2', 'two', 'an origin may take either of two values'],
  ['/@/a?x=1&x=2', '/@/a?x=2&x=1', 'two', 'an origin may take either of two values'],
  ['/@/a?x=1&y=2', '/@/a?x=1;y=2', 'two', 'a semicolon is no separator, although some origins take it for one'],
  ['/@/a?x=1', '/@/a?x=1;x=2', 'two', 'a semicolon is no separator, although some origins take it for one'],
  ['/@/a?x=1', '/@/a?x=1&', 'two', 'an empty parameter stays'],
  ['/@/a?x=1', '/@/a?&x=1', 'two', 'an empty parameter stays'],
  ['/@/a?x=a+b', '/@/a?x=a%20b', 'two', 'plus is a space in forms only'],
  ['/@/a?x=a%2Bb', '/@/a?x=a+b', 'two', 'plus is reserved'],
  ['/@/a?x=1%26y=2', '/@/a?x=1&y=2', 'two', 'an encoded separator is no separator'],
  ['/@/a?x=1', '/@/a%3Fx=1', 'two', 'an encoded question mark begins no query'],
  ['/@/a?x=1', '/@/a?X=1', 'two', 'a query is case-sensitive'],
  ['/@/a?x=1', '/@/a??x=1', 'two', 'a second question mark belongs to the query'],
  ['/@/a?x=/../b', '/@/b', 'two', 'dots in a query are no segments'],
  ['/@/a?x[]=1', '/@/a?x%5B%5D=1', 'two', 'brackets are reserved'],
];

/** Request line and Host of two requests, whether they have one entry or two or the second is refused, and why. */
const requests: readonly (readonly [a: string, b: string, entries: 'one' | 'two' | 'refused', why: string])[] = [
  ['GET /@ Host: h.test', 'GET /@ Host: H.Test', 'one', 'host names are not case-sensitive'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:80', 'one', 'the default port may be left out'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:', 'one', 'a port may be empty'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:0080', 'one', 'a port is a number'],
  ['GET /@ Host: h.test', 'GET http://h.test/@ Host: other.test', 'one', 'the absolute-form replaces Host'],
  [
    'GET /@ Host: h.test',
    'GET HTTP://H.TEST:80/@ Host: h.test',
    'one',
    'schemes and host names are not case-sensitive',
  ],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:443', 'two', 'another port is another authority'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test.', 'two', 'a dot at the end may be another name'],
  ['GET /@ Host: h.test', 'GET /@ Host: sub.h.test', 'two', 'another name is another authority'],
  ['GET /@ Host: 127.0.0.1', 'GET /@ Host: 127.1', 'two', 'addresses are not rewritten'],
  ['GET /@ Host: [::1]', 'GET /@ Host: [0:0:0:0:0:0:0:1]', 'two', 'addresses are not rewritten'],
  [
    'GET /@ Host: [v1.abc]',
    'GET /@ Host: [V1.ABC]:80',
    'one',
    'an address of a later version is valid (RFC 3986 §3.2.2)',
  ],
  ['GET /@ Host: [v1.abc]', 'GET /@ Host: [v2.abc]', 'two', 'another address is another authority'],
  ['GET /@ Host: h.test', 'GET /@ Host: u@h.test', 'refused', 'user information is an attack (RFC 9110 §4.2.4)'],
  ['GET /@ Host: h.test', 'GET http://u:p@h.test/@ Host: h.test', 'refused', 'user information is an attack'],
  ['GET /@ Host: h.test', 'GET https://h.test/@ Host: h.test', 'refused', 'another scheme is not served'],
  ['GET /@ Host: h.test', 'GET /@#f Host: h.test', 'refused', 'a fragment is never sent'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:65536', 'refused', 'there is no such port'],
  ['GET /@ Host: h.test', 'GET /@ Host: h%2etest', 'refused', 'a host name must not be encoded'],
  ['GET /@ Host: h.test', 'GET /x%2F..%2F@ Host: h.test', 'refused', 'a step up is hidden'],
  ['GET /@ Host: h.test', 'GET /x/..;/@ Host: h.test', 'refused', 'a step up is hidden'],
  ['GET /@ Host: h.test', 'GET /../@ Host: h.test', 'refused', 'nothing is above the root'],
  ['GET /@ Host: h.test', 'GET /%2e%2E/@ Host: h.test', 'refused', 'nothing is above the root'],
  ['GET /@ Host: h.test', 'GET /a//../../@ Host: h.test', 'refused', 'some origins count repeated slashes as one'],
  ['GET /@ Host: h.test', 'GET \\@ Host: h.test', 'refused', 'the target is no path'],
  ['GET /@ Host: h.test', 'GET @ Host: h.test', 'refused', 'the target is no path'],
];

let ground: SharedGround;
let rows = 0;
/** The targets of all requests that caused a request to the origin, as they were sent, in order. */
const missed: string[] = [];
beforeAll(async () => {
  ground = await openSharedGround((asked) => ({
    fields: { 'cache-control': 'max-age=60', etag: '"1"' },
    body: `${asked.field('host')} ${asked.target}`,
  }));
});
afterAll(() => ground[Symbol.asyncDispose]());

async function send(request: string) {
  const before = ground.asked.length;
  const got = await ground.send(request);
  if (ground.asked.length > before) missed.push(request.split(' ', 2)[1] ?? '');
  return got;
}

async function compare(a: string, b: string): Promise<'one' | 'two' | 'refused'> {
  const before = ground.asked.length;
  const first = await send(a);
  expect(first.status).toBe(200);
  const second = await send(b);
  if (second.status === 400) return 'refused';
  if (ground.asked.length === before + 2) return 'two';
  expect(second.body).toBe(first.body);
  expect((await send(b)).isHit).toBe(true);
  return 'one';
}

describe('two targets', () => {
  it.each(targets)('%s and %s are %s: %s', async (a, b, entries) => {
    rows += 1;
    const own = (target: string) => requestOf(`GET ${target.replace('@', `t${rows}`)}`);
    expect(await compare(own(a), own(b))).toBe(entries);
    // In the other order, too.
    rows += 1;
    expect(await compare(own(b), own(a))).toBe(entries);
  });

  it('reach the origin as they were sent', () => {
    const { asked } = ground;
    expect(asked.length).toBeGreaterThan(100);
    expect(asked.map(({ target }) => target)).toEqual(missed);
  });
});

describe('two requests', () => {
  it.each(requests)('%s and %s are %s: %s', async (a, b, entries) => {
    rows += 1;
    const own = (text: string) => {
      const [line = '', host = ''] = text.replace('@', `r${rows}`).split(' Host: ');
      return requestOf(line, `Host: ${host}`);
    };
    expect(await compare(own(a), own(b))).toBe(entries);
  });
});
