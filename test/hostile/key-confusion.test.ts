/** Key confusion: which targets are one entry of the cache and which are two, and that the origin is asked for what the key says. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { normaliseTarget } from '../../src/routing/target.ts';
import { openSharedGround, requestOf, type SharedGround } from '../support/shared-ground.ts';

/** Both targets, whether they share an entry, and why. `@` is where a row puts what makes it its own. */
const targets: readonly (readonly [a: string, b: string, kinship: 'one' | 'two', why: string])[] = [
  ['/@/a', '/@/a', 'one', 'it is the same'],
  // RFC 3986 §6.2.2: what means the same by the generic syntax.
  ['/@/~a', '/@/%7Ea', 'one', 'unreserved characters need no encoding'],
  ['/@/a', '/@/%61', 'one', 'unreserved characters need no encoding'],
  ['/@/%c3%a9', '/@/%C3%A9', 'one', 'hexadecimal digits have no case'],
  ['/@/a%2fb', '/@/a%2Fb', 'one', 'hexadecimal digits have no case'],
  ['/@/a', '/@/./a', 'one', 'dot segments are removed'],
  ['/@/a', '/@/b/../a', 'one', 'dot segments are removed'],
  ['/@/a', '/@/b/%2e%2e/a', 'one', 'dot segments are removed, encoded ones too'],
  ['/@/a', '/@/b/%2E./a', 'one', 'dot segments are removed, half encoded ones too'],
  ['/@/a', '/../../@/a', 'one', 'nothing is above the root'],
  ['/@/a/', '/@/a/.', 'one', 'dot segments are removed'],
  ['/@/a?x=%61', '/@/a?x=a', 'one', 'unreserved characters need no encoding in a query either'],
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
  ['GET /@ Host: h.test', 'GET \\@ Host: h.test', 'refused', 'it is no path'],
  ['GET /@ Host: h.test', 'GET @ Host: h.test', 'refused', 'it is no path'],
];

let ground: SharedGround;
let rows = 0;
beforeAll(async () => {
  ground = await openSharedGround((asked) => ({
    fields: { 'cache-control': 'max-age=60', etag: '"1"' },
    body: `${asked.field('host')} ${asked.target}`,
  }));
});
afterAll(() => ground[Symbol.asyncDispose]());

async function compare(a: string, b: string): Promise<'one' | 'two' | 'refused'> {
  const before = ground.asked.length;
  const first = await ground.send(a);
  expect(first.status).toBe(200);
  const second = await ground.send(b);
  if (second.status === 400) return 'refused';
  if (ground.asked.length === before + 2) return 'two';
  expect(second.body).toBe(first.body);
  expect((await ground.send(b)).isHit).toBe(true);
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

  it('are asked of the origin in the form that is in the key', async () => {
    const { asked } = ground;
    expect(asked.length).toBeGreaterThan(100);
    for (const { target } of asked) {
      const { path, query } = normaliseTarget(target);
      expect(path + query).toBe(target);
    }
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
