/** Key confusion: which targets are one entry of the cache and which are two, and that the origin gets each of them as it was sent. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSharedGround, requestOf, type SharedGround } from '../support/proxies/shared-ground.ts';

/** Both targets, whether they share an entry, and why. `@` is where a row puts what makes it its own. */
const targets: readonly (readonly [a: string, b: string, kinship: 'one' | 'two', why: string])[] = [
  ['/@/a', '/@/a', 'one', 'it is the same'],
  // What means the same by the generic syntax (RFC 3986 §6.2.2) reaches the origin as it is, and an origin may compare text.
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
  ['/@/a', '/@/a/../a', 'two', 'what leads to the same place is another text'],
  // What an origin may tell apart.
  ['/@/a', '/@/A', 'two', 'case means something in a path'],
  ['/@/a', '/@/a/', 'two', 'a final slash is a segment'],
  ['/@/a', '/@//a', 'two', 'an empty segment is one'],
  ['/@/a', '//@/a', 'two', 'an empty segment is one, at the beginning too'],
  ['/@/a/b', '/@/a%2Fb', 'two', 'an encoded slash separates nothing'],
  ['/@/a/b', '/@/a\\b', 'two', 'a backslash is no slash'],
  ['/@/a\\b', '/@/a%5Cb', 'two', 'a backslash is no encoded backslash'],
  ['/@/a', '/@/a;b', 'two', 'a parameter is part of its segment'],
  ['/@/a;b', '/@/a%3Bb', 'two', 'a semicolon is reserved'],
  ['/@/a', '/@/a%00', 'two', 'NUL ends nothing'],
  ['/@/a', '/@/a%0A', 'two', 'a line end ends nothing'],
  ['/@/a', '/@/a%20', 'two', 'a space is a character'],
  ['/@/a+b', '/@/a%20b', 'two', 'plus is no space in a path'],
  ['/@/a+b', '/@/a%2Bb', 'two', 'plus is reserved'],
  ['/@/%61', '/@/%2561', 'two', 'what is encoded twice is decoded by nobody'],
  ['/@/..a', '/@/%252e%252ea', 'two', 'what is encoded twice is decoded by nobody'],
  ['/@/a%', '/@/a%25', 'two', 'a percent sign alone is no encoding'],
  ['/@/%zz', '/@/%25zz', 'two', 'a percent sign alone is no encoding'],
  ['/@/%%341', '/@/%2541', 'two', 'a percent sign alone is completed by nothing'],
  ['/@/é'.replace('é', '%C3%A9'), '/@/e%CC%81', 'two', 'Unicode has forms that are not compared'],
  ['/@/a.', '/@/a', 'two', 'a dot at the end is a character'],
  // Queries.
  ['/@/a', '/@/a?', 'two', 'an empty query is one (RFC 3986 §6.2.3)'],
  ['/@/a?x', '/@/a?x=', 'two', 'no value is not an empty one'],
  ['/@/a?x=1&y=2', '/@/a?y=2&x=1', 'two', 'the order may mean something'],
  ['/@/a?x=1', '/@/a?x=1&x=2', 'two', 'of two values an origin takes either'],
  ['/@/a?x=1&x=2', '/@/a?x=2&x=1', 'two', 'of two values an origin takes either'],
  ['/@/a?x=1&y=2', '/@/a?x=1;y=2', 'two', 'a semicolon separates nothing, whatever an origin thinks'],
  ['/@/a?x=1', '/@/a?x=1;x=2', 'two', 'a semicolon separates nothing, whatever an origin thinks'],
  ['/@/a?x=1', '/@/a?x=1&', 'two', 'what separates stays'],
  ['/@/a?x=1', '/@/a?&x=1', 'two', 'what separates stays'],
  ['/@/a?x=a+b', '/@/a?x=a%20b', 'two', 'plus is a space in forms only'],
  ['/@/a?x=a%2Bb', '/@/a?x=a+b', 'two', 'plus is reserved'],
  ['/@/a?x=1%26y=2', '/@/a?x=1&y=2', 'two', 'an encoded separator separates nothing'],
  ['/@/a?x=1', '/@/a%3Fx=1', 'two', 'an encoded question mark begins no query'],
  ['/@/a?x=1', '/@/a?X=1', 'two', 'case means something in a query'],
  ['/@/a?x=1', '/@/a??x=1', 'two', 'a second question mark belongs to the query'],
  ['/@/a?x=/../b', '/@/b', 'two', 'dots in a query are no segments'],
  ['/@/a?x[]=1', '/@/a?x%5B%5D=1', 'two', 'brackets are reserved'],
];

/** The request lines and Hosts of two requests for one target. */
const requests: readonly (readonly [a: string, b: string, kinship: 'one' | 'two' | 'refused', why: string])[] = [
  ['GET /@ Host: h.test', 'GET /@ Host: H.Test', 'one', 'host names have no case'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:80', 'one', 'the default port may be left out'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:', 'one', 'a port may be empty'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:0080', 'one', 'a port is a number'],
  ['GET /@ Host: h.test', 'GET http://h.test/@ Host: other.test', 'one', 'the absolute-form takes the place of Host'],
  ['GET /@ Host: h.test', 'GET HTTP://H.TEST:80/@ Host: h.test', 'one', 'schemes and host names have no case'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:443', 'two', 'another port is another place'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test.', 'two', 'a dot at the end may be another name'],
  ['GET /@ Host: h.test', 'GET /@ Host: sub.h.test', 'two', 'another name is another place'],
  ['GET /@ Host: 127.0.0.1', 'GET /@ Host: 127.1', 'two', 'addresses are not rewritten'],
  ['GET /@ Host: [::1]', 'GET /@ Host: [0:0:0:0:0:0:0:1]', 'two', 'addresses are not rewritten'],
  [
    'GET /@ Host: [v1.abc]',
    'GET /@ Host: [V1.ABC]:80',
    'one',
    'an address of a later version is one (RFC 3986 §3.2.2)',
  ],
  ['GET /@ Host: [v1.abc]', 'GET /@ Host: [v2.abc]', 'two', 'another address is another place'],
  ['GET /@ Host: h.test', 'GET /@ Host: u@h.test', 'refused', 'user information is an attack (RFC 9110 §4.2.4)'],
  ['GET /@ Host: h.test', 'GET http://u:p@h.test/@ Host: h.test', 'refused', 'user information is an attack'],
  ['GET /@ Host: h.test', 'GET https://h.test/@ Host: h.test', 'refused', 'another scheme is not served here'],
  ['GET /@ Host: h.test', 'GET /@#f Host: h.test', 'refused', 'a fragment is never sent'],
  ['GET /@ Host: h.test', 'GET /@ Host: h.test:65536', 'refused', 'there is no such port'],
  ['GET /@ Host: h.test', 'GET /@ Host: h%2etest', 'refused', 'names are not encoded here'],
  ['GET /@ Host: h.test', 'GET /x%2F..%2F@ Host: h.test', 'refused', 'a step up is hidden'],
  ['GET /@ Host: h.test', 'GET /x/..;/@ Host: h.test', 'refused', 'a step up is hidden'],
  ['GET /@ Host: h.test', 'GET /../@ Host: h.test', 'refused', 'nothing is above the root'],
  ['GET /@ Host: h.test', 'GET /%2e%2E/@ Host: h.test', 'refused', 'nothing is above the root'],
  ['GET /@ Host: h.test', 'GET /a//../../@ Host: h.test', 'refused', 'some origins count repeated slashes as one'],
  ['GET /@ Host: h.test', 'GET \\@ Host: h.test', 'refused', 'it is no path'],
  ['GET /@ Host: h.test', 'GET @ Host: h.test', 'refused', 'it is no path'],
];

let ground: SharedGround;
let rows = 0;
/** The targets that the origin had to be asked for, as they were sent, in their order. */
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
  it.each(targets)('%s and %s are %s: %s', async (a, b, kinship) => {
    rows += 1;
    const own = (target: string) => requestOf(`GET ${target.replace('@', `t${rows}`)}`);
    expect(await compare(own(a), own(b))).toBe(kinship);
    // In both orders: the other one first.
    rows += 1;
    expect(await compare(own(b), own(a))).toBe(kinship);
  });

  it('reach the origin as they were sent', () => {
    const { asked } = ground;
    expect(asked.length).toBeGreaterThan(100);
    expect(asked.map(({ target }) => target)).toEqual(missed);
  });
});

describe('two requests', () => {
  it.each(requests)('%s and %s are %s: %s', async (a, b, kinship) => {
    rows += 1;
    const own = (text: string) => {
      const [line = '', host = ''] = text.replace('@', `r${rows}`).split(' Host: ');
      return requestOf(line, `Host: ${host}`);
    };
    expect(await compare(own(a), own(b))).toBe(kinship);
  });
});
