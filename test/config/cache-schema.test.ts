/** The options of a route's cache: what is taken, and what is told of the rest. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';

const check = (cache: unknown) => checkConfig({ routes: [{ origin: 'http://127.0.0.1:3000', cache }] }, '.');

describe('cache takes', () => {
  it.each<[cache: Readonly<Record<string, unknown>>, want?: Readonly<Record<string, unknown>>]>([
    [{ targetedFields: [] }],
    [{ targetedFields: ['Surrogate-Control', 'X'] }, { targetedFields: ['surrogate-control', 'x'] }],
    [{ defaultTtlByStatus: { 200: 0, 404: 60.5, 451: 1, '5xx': 1 }, overrideTtlByStatus: { '2xx': 31_536_000 } }],
    [{ staleIfErrorSeconds: 0, staleWhileRevalidateSeconds: 0.5 }],
    [{ key: { query: 'none' } }, { key: { query: 'none', fields: [], cookies: [] } }],
    [{ key: { query: { keep: [] } } }, { key: { query: { keep: [] }, fields: [], cookies: [] } }],
    [
      { key: { query: { ignore: ['utm_*', 'a b', '[]'] }, fields: ['Accept-Language'], cookies: ['__Host-A', 'a'] } },
      { key: { query: { ignore: ['utm_*', 'a b', '[]'] }, fields: ['accept-language'], cookies: ['__Host-A', 'a'] } },
    ],
    [{ key: { fields: ['Cookie'] } }, { key: { query: 'all', fields: ['cookie'], cookies: [] } }],
    [
      { bypass: { fields: ['Authorization'], cookies: ['logged_in_*'], queryParameters: ['preview', 'nocache*'] } },
      { bypass: { fields: ['authorization'], cookies: ['logged_in_*'], queryParameters: ['preview', 'nocache*'] } },
    ],
  ])('%j', (cache, want = cache) => {
    expect(check(cache)).toMatchObject({ kind: 'ok', config: { routes: [{ cache: want }] } });
  });
});

describe('cache tells', () => {
  const notAField = 'expected the name of a field such as "Accept-Language"';
  const notAStatus = 'expected a status such as "404" (not 206, 304 or 416), or "2xx" to "5xx"';
  const notAParameter = 'expected the name of a parameter, or the beginning of names such as "utm_*"';
  const notACookie = 'expected the exact name of a cookie';
  const notCookies = 'expected the name of a cookie, or the beginning of names such as "session_*"';

  it.each<[cache: unknown, ...want: string[]]>([
    [{ targetedFields: 'CDN-Cache-Control' }, 'targetedFields: expected a list, found the text "CDN-Cache-Control"'],
    [{ targetedFields: ['A', 'b', 'a'] }, 'targetedFields[2]: "a" is named twice'],
    [{ targetedFields: ['a b'] }, `targetedFields[0]: ${notAField}`],
    [
      { targetedFields: ['Cache-Control', 'expires'] },
      ...[0, 1].map(
        (at) =>
          `targetedFields[${at}]: is read anyway; expected a field for some caches only, such as "CDN-Cache-Control"`,
      ),
    ],
    [{ targetedFields: [...'abcdefghijk'] }, 'targetedFields: needs at most 10 elements'],
    [
      { requestDirectives: 'ingore' },
      'requestDirectives: expected "obey" or "ignore", found "ingore"; did you mean "ignore"?',
    ],
    [{ setCookie: true }, 'setCookie: expected "store", "strip" or "refuse", found true'],
    [
      { defaultTtlByStatus: { 206: 1, 304: 1, 404: 1, 416: 1, '4XX': 1, '1xx': 1, 600: 1, '*': 1 } },
      ...['.206', '.304', '.416', '.600', '.4XX', '.1xx', '["*"]'].map(
        (key) => `defaultTtlByStatus${key}: ${notAStatus}`,
      ),
    ],
    [{ overrideTtlByStatus: { 200: -1 } }, 'overrideTtlByStatus.200: must be at least 0, found -1'],
    [
      { overrideTtlByStatus: { '2xx': 31_536_001 } },
      'overrideTtlByStatus.2xx: must be at most 31536000, found 31536001',
    ],
    [{ overrideTtlByStatus: { 200: '1m' } }, 'overrideTtlByStatus.200: expected a number, found the text "1m"'],
    [{ overrideTtlByStatus: [] }, 'overrideTtlByStatus: expected an object, found a list'],
    [{ staleIfErrorSeconds: 31_536_001 }, 'staleIfErrorSeconds: must be at most 31536000, found 31536001'],
    [{ staleWhileRevalidateSeconds: -1 }, 'staleWhileRevalidateSeconds: must be at least 0, found -1'],
    [{ keys: {} }, 'keys: unknown option "keys"; did you mean "key"?'],
    [{ key: { query: 'al' } }, 'key.query: expected "all" or "none", found "al"; did you mean "all"?'],
    [{ key: { query: { keep: 'a'.repeat(101) } } }, 'key.query.keep: expected a list, found a long text'],
    [{ key: { query: {} } }, 'key.query: needs either keep or ignore'],
    [{ key: { query: { keep: [], ignore: [] } } }, 'key.query: needs either keep or ignore'],
    [{ key: { query: { ignored: [] } } }, 'key.query.ignored: unknown option "ignored"; did you mean "ignore"?'],
    [
      { key: { query: { keep: ['*', 'a*b', '', 'a', 'a'] } } },
      ...[0, 1, 2].map((at) => `key.query.keep[${at}]: ${notAParameter}`),
      'key.query.keep[4]: "a" is named twice',
    ],
    [{ key: { fields: ['X-*', 'a:'] } }, ...[0, 1].map((at) => `key.fields[${at}]: ${notAField}`)],
    [
      { key: { fields: ['Range'] } },
      'key.fields[0]: cannot tell stored responses apart: what is stored is the whole representation',
    ],
    [{ key: { cookies: ['a_*', 'a b', 'a=1'] } }, ...[0, 1, 2].map((at) => `key.cookies[${at}]: ${notACookie}`)],
    [{ key: { fields: ['Cookie'], cookies: ['a'] } }, 'key.cookies: are all in key.fields already, which has Cookie'],
    [
      { acceptEncoding: 'normalize' },
      'acceptEncoding: expected "asSent" or "normalise", found "normalize"; did you mean "normalise"?',
    ],
    [{ bypass: { fields: ['a*'] } }, `bypass.fields[0]: ${notAField}`],
    [{ bypass: { cookies: ['*'] } }, `bypass.cookies[0]: ${notCookies}`],
    [{ bypass: { queryParameters: ['*'] } }, `bypass.queryParameters[0]: ${notAParameter}`],
    [{ bypass: { cookie: [] } }, 'bypass.cookie: unknown option "cookie"; did you mean "cookies"?'],
  ])('%j', (cache, ...want) => {
    const checked = check(cache);
    const problems = checked.kind === 'ok' ? [] : checked.problems.map(({ path, message }) => `${path}: ${message}`);
    expect(problems).toEqual(want.map((problem) => `routes[0].cache.${problem}`));
  });
});
