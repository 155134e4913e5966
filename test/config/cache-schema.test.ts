/** The option `cache` of a route: accepted values, and the messages for others. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { decideStoring } from '../../src/semantics/storing.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';

const check = (cache: unknown) => checkConfig({ routes: [{ origin: 'http://127.0.0.1:3000', cache }] }, '.');

describe('cache accepts', () => {
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

describe('lifetimes by status', () => {
  it('are accepted exactly for statuses that are stored with a lifetime', () => {
    const statuses = Array.from({ length: 400 }, (_, index) => String(200 + index));
    const isStored = (status: string) => {
      const policy = { ...defaultCaching, overrideTtlByStatus: { [status]: 60 } };
      const response = { status: Number(status), fields: [], responseAt: 0 };
      return decideStoring({ request: { method: 'GET', fields: [] }, response, policy }).kind === 'store';
    };
    const isAccepted = (status: string) => check({ overrideTtlByStatus: { [status]: 60 } }).kind === 'ok';
    expect(statuses.filter(isAccepted)).toEqual(statuses.filter(isStored));
  });
});

describe('cache refuses', () => {
  const notAField = (example: string, found: string) =>
    `expected the exact name of a field such as "${example}", found "${found}"`;
  const notAStatus = (found: string) =>
    `expected a status such as "404", or a class from "2xx" to "5xx", found "${found}"`;
  const neverStored = 'has no effect: responses with this status are never stored';
  const notAParameter = (found: string) =>
    `expected the name of a parameter, or the beginning of names such as "utm_*", found "${found}"`;
  const notACookie = (found: string) => `expected the exact name of a cookie such as "language", found "${found}"`;
  const notCookies = (found: string) =>
    `expected the name of a cookie, or the beginning of names such as "session_*", found "${found}"`;
  const notAQuery = 'expected "all", "none" or an object such as {"ignore": ["utm_*"]}';

  it.each<[cache: unknown, ...want: string[]]>([
    [{ targetedFields: 'CDN-Cache-Control' }, 'targetedFields: expected a list, found the text "CDN-Cache-Control"'],
    [{ targetedFields: ['A', 'b', 'a'] }, 'targetedFields[2]: "a" is named twice'],
    [{ targetedFields: ['a b'] }, `targetedFields[0]: ${notAField('CDN-Cache-Control', 'a b')}`],
    [
      { targetedFields: ['Cache-Control', 'expires'] },
      ...[0, 1].map(
        (at) =>
          `targetedFields[${at}]: is read anyway; expected a field for some caches only, such as "CDN-Cache-Control"`,
      ),
    ],
    [{ targetedFields: [...'abcdefghijk'] }, 'targetedFields: may have at most 10 elements'],
    [
      { requestDirectives: 'ingore' },
      'requestDirectives: expected "obey" or "ignore", found "ingore"; did you mean "ignore"?',
    ],
    [{ setCookie: true }, 'setCookie: expected "store", "strip" or "refuse", found true'],
    [
      { defaultTtlByStatus: { 206: 1, 404: 1, 429: 1, '4XX': 1, '1xx': 1, 600: 1, '*': 1 } },
      ...[206, 429].map((key) => `defaultTtlByStatus.${key}: ${neverStored}`),
      ...['600', '4XX', '1xx'].map((key) => `defaultTtlByStatus.${key}: ${notAStatus(key)}`),
      `defaultTtlByStatus["*"]: ${notAStatus('*')}`,
    ],
    [{ overrideTtlByStatus: { 200: -1 } }, 'overrideTtlByStatus.200: must be at least 0, found -1'],
    [
      { overrideTtlByStatus: { '2xx': 31_536_001 } },
      'overrideTtlByStatus.2xx: must be at most 31536000, found 31536001',
    ],
    [
      { overrideTtlByStatus: { 200: '1m' } },
      'overrideTtlByStatus.200: expected a number of seconds, found the text "1m"',
    ],
    [{ overrideTtlByStatus: 60 }, 'overrideTtlByStatus: expected lifetimes by status such as {"404": 60}, found 60'],
    [{ staleIfErrorSeconds: 31_536_001 }, 'staleIfErrorSeconds: must be at most 31536000, found 31536001'],
    [{ staleWhileRevalidateSeconds: -1 }, 'staleWhileRevalidateSeconds: must be at least 0, found -1'],
    [{ keys: {} }, 'keys: unknown option "keys"; did you mean "key"?'],
    [{ key: { query: 'al' } }, `key.query: ${notAQuery}, found "al"; did you mean "all"?`],
    [{ key: { query: ['a'] } }, `key.query: ${notAQuery}, found a list`],
    [{ key: { query: { keep: 'a'.repeat(101) } } }, 'key.query.keep: expected a list, found a long text'],
    [{ key: { query: {} } }, 'key.query: needs keep or ignore'],
    [{ key: { query: { keep: [], ignore: [] } } }, 'key.query: cannot have both keep and ignore'],
    [{ key: { query: { ignored: [] } } }, 'key.query.ignored: unknown option "ignored"; did you mean "ignore"?'],
    [
      { key: { query: { keep: ['*', 'a*b', '', 'a=1', '?a', 'a', 'a'] } } },
      ...['*', 'a*b', '', 'a=1', '?a'].map((found, at) => `key.query.keep[${at}]: ${notAParameter(found)}`),
      'key.query.keep[6]: "a" is named twice',
    ],
    [
      { key: { fields: ['X-*', 'a:', ''] } },
      ...['X-*', 'a:', ''].map((found, at) => `key.fields[${at}]: ${notAField('Accept-Language', found)}`),
    ],
    [{ key: { fields: ['x'.repeat(65)] } }, 'key.fields[0]: may have at most 64 characters'],
    [
      { key: { fields: ['Range'] } },
      'key.fields[0]: must be left out: the whole representation is stored, and it is the same for all values of this field',
    ],
    [
      { key: { cookies: ['a_*', 'a b', 'a=1'] } },
      ...['a_*', 'a b', 'a=1'].map((found, at) => `key.cookies[${at}]: ${notACookie(found)}`),
    ],
    [
      { key: { fields: ['Cookie'], cookies: ['a'] } },
      'key.cookies: must be left out: key.fields has Cookie, and with it all of them',
    ],
    [
      { acceptEncoding: 'normalize' },
      'acceptEncoding: expected "asSent", "normalise" or "identity", found "normalize"; did you mean "normalise"?',
    ],
    [{ bypass: { fields: ['a*'] } }, `bypass.fields[0]: ${notAField('Authorization', 'a*')}`],
    [{ bypass: { cookies: ['*'] } }, `bypass.cookies[0]: ${notCookies('*')}`],
    [{ bypass: { queryParameters: ['*'] } }, `bypass.queryParameters[0]: ${notAParameter('*')}`],
    [{ bypass: { cookie: [] } }, 'bypass.cookie: unknown option "cookie"; did you mean "cookies"?'],
  ])('%j', (cache, ...want) => {
    const checked = check(cache);
    const problems = checked.kind === 'ok' ? [] : checked.problems.map(({ path, message }) => `${path}: ${message}`);
    expect(problems).toEqual(want.map((problem) => `routes[0].cache.${problem}`));
  });
});
