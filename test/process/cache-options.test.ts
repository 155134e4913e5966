/**
 * The cache options of a route, from the configuration file to the bytes on the wire. Each row of the table runs on two routes
 * with different outcomes, so that an option without effect fails.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/clocks/until.ts';
import { type Ask, type OptionGround, type Reply, startOptionGround } from '../support/proxies/option-ground.ts';

/** Requests for one path in order, and the sources of their bodies: with the options, and with `other` (or no) options. */
type Row = readonly [
  cache: object,
  reply: Reply,
  asks: readonly Ask[],
  sources: string,
  otherSources: string,
  other?: object,
];

const fresh = { 'cache-control': 'max-age=60' };
const uncached = { 'cache-control': 'no-store' };
const aged = { age: '100' };
/** Stale by 40 seconds when it arrives. */
const stale = { ...fresh, ...aged };
const twice = ['', ''];
const once = 'origin store';
const always = 'origin origin';

const rows: readonly Row[] = [
  [{ targetedFields: [] }, { ...uncached, 'cdn-cache-control': 'max-age=60' }, twice, always, once],
  [
    { targetedFields: ['CDN-Cache-Control'] },
    { 'cdn-cache-control': 'no-store', 'rangeway-cache-control': 'max-age=60' },
    twice,
    always,
    once,
  ],
  [{ targetedFields: ['CDN-Cache-Control', 'X-Edge'] }, { ...uncached, 'x-edge': 'max-age=60' }, twice, once, always],
  [{ targetedFields: ['Surrogate-Control'] }, { ...uncached, 'surrogate-control': 'max-age=60' }, twice, once, always],
  [
    { requestDirectives: 'ignore' },
    fresh,
    [{ 'cache-control': 'no-store' }, { 'cache-control': 'no-cache' }, { pragma: 'no-cache' }],
    'origin store store',
    'origin origin origin',
  ],
  [{ defaultTtlSeconds: 600 }, {}, twice, once, always],
  [{ defaultTtlSeconds: 600 }, aged, twice, once, always, { defaultTtlSeconds: 60 }],
  [{ defaultTtlByStatus: { 404: 600 } }, { status: 404 }, twice, once, always],
  [
    { defaultTtlByStatus: { 404: 600 } },
    { ...aged, status: 404 },
    twice,
    once,
    always,
    { defaultTtlByStatus: { 404: 60 } },
  ],
  [{ defaultTtlByStatus: { '5xx': 60 } }, { status: 503 }, twice, once, always],
  [
    { defaultTtlByStatus: { '5xx': 60, 503: 0 } },
    { status: 503 },
    twice,
    always,
    once,
    { defaultTtlByStatus: { '5xx': 60, 502: 0 } },
  ],
  [{ overrideTtlByStatus: { 200: 0 } }, fresh, twice, always, once],
  [{ overrideTtlByStatus: { '2xx': 60 } }, { 'cache-control': 'max-age=0' }, twice, once, always],
  [{ overrideTtlByStatus: { 200: 600 } }, stale, twice, once, always, { overrideTtlByStatus: { 200: 60 } }],
  [{ staleWhileRevalidateSeconds: 50 }, stale, twice, once, always, { staleWhileRevalidateSeconds: 30 }],
  [{ key: { query: 'none' } }, fresh, ['?a=1', '?b=2', ''], 'origin store store', 'origin origin origin'],
  [
    { key: { query: { keep: ['id', 'p_*'] } } },
    fresh,
    ['?id=1&x=1', '?x=2&id=1', '?id=2', '?p_1=1', '?x'],
    'origin store origin origin origin',
    'origin origin origin origin origin',
  ],
  [
    { key: { query: { ignore: ['utm_*'] } } },
    fresh,
    ['?a=1&utm_x=1', '?%75tm_y&a=1', '?a=2'],
    'origin store origin',
    'origin origin origin',
  ],
  [
    { key: { fields: ['X-Device'] } },
    fresh,
    [{ 'x-device': 'tv' }, { 'x-device': 'phone' }, { 'x-device': 'tv' }],
    'origin origin store',
    'origin store store',
  ],
  [
    { key: { cookies: ['lang'] } },
    fresh,
    [{ cookie: 'lang=de; id=1' }, { cookie: 'lang=en' }, { cookie: 'id=2; lang=de' }],
    'origin origin store',
    'origin store store',
  ],
  [
    { acceptEncoding: 'normalise' },
    { ...fresh, vary: 'Accept-Encoding' },
    [{ 'accept-encoding': 'gzip, deflate, br;q=0.9' }, { 'accept-encoding': 'br, x-gzip' }],
    once,
    always,
  ],
  [
    { acceptEncoding: 'identity' },
    { ...fresh, vary: 'Accept-Encoding' },
    [{ 'accept-encoding': 'gzip' }, { 'accept-encoding': 'br' }, ''],
    'origin store store',
    'origin origin origin',
  ],
  [
    { bypass: { fields: ['X-Draft'] } },
    fresh,
    ['', { 'x-draft': '' }, ''],
    'origin bypass store',
    'origin store store',
  ],
  [
    { bypass: { cookies: ['session_*'] } },
    fresh,
    ['', { cookie: 'a=1; session_7=x' }, { cookie: 'a=1' }],
    'origin bypass store',
    'origin store store',
  ],
  [
    { bypass: { queryParameters: ['preview'] } },
    fresh,
    ['?preview=1', '?preview=1', '?previews', '?previews'],
    'bypass bypass origin store',
    'origin store origin store',
  ],
];

/** The routes of the tests below the table. */
const routes = {
  plain: {},
  surrogate: { targetedFields: ['Surrogate-Control'] },
  store: { setCookie: 'store' },
  strip: { setCookie: 'strip' },
  refuse: { setCookie: 'refuse' },
  override: { overrideTtlByStatus: { '2xx': 60 } },
  normalise: { acceptEncoding: 'normalise' },
  noquery: { key: { query: 'none' } },
  meanwhile: { staleWhileRevalidateSeconds: 600 },
  staleno: { staleIfErrorSeconds: 0 },
  stale30: { staleIfErrorSeconds: 30 },
  stale50: { staleIfErrorSeconds: 50 },
};

let ground: OptionGround;
beforeAll(async () => {
  const ofRows = rows.flatMap(([cache, , , , , other = {}], index) => [
    [`row${index}`, cache],
    [`other${index}`, other],
  ]);
  ground = await startOptionGround({ ...routes, ...Object.fromEntries(ofRows) });
});
afterAll(() => ground[Symbol.asyncDispose]());

async function sourcesOf(path: string, reply: Reply, asks: readonly Ask[]): Promise<string> {
  ground.reply(path, reply);
  const sources: string[] = [];
  for (const ask of asks) sources.push((await ground.ask(path, ask)).source);
  return sources.join(' ');
}

describe('where bodies come from', () => {
  it.each(rows.map((row, index) => [row[0], row[5] ?? {}, index, row] as const))(
    '%j, not as with %j',
    async (_cache, _other, index, [, reply, asks, sources, otherSources]) => {
      expect(await sourcesOf(`/row${index}/a`, reply, asks)).toBe(sources);
      expect(await sourcesOf(`/other${index}/a`, reply, asks)).toBe(otherSources);
    },
  );
});

describe('overrideTtlByStatus', () => {
  it.each(['no-store', 'private', 'no-cache'])('overrides lifetimes, but not %s', async (directive) => {
    const reply = { 'cache-control': `max-age=60, ${directive}` };
    expect(await sourcesOf(`/override/${directive}`, reply, twice)).toBe(always);
  });

  it.each([
    ['public', '200 store'],
    ['must-revalidate', '503 origin'],
  ])('when a %s response outlives it and the origin fails: %s', async (directive, want) => {
    const path = `/override/${directive}`;
    expect(await sourcesOf(path, { ...aged, 'cache-control': directive }, [''])).toBe('origin');
    ground.reply(path, { status: 503, age: '100' });
    const { status, source } = await ground.ask(path);
    expect(`${status} ${source}`).toBe(want);
  });
});

describe('setCookie', () => {
  const warning = /"level":"warn"[^\n]*A response with Set-Cookie/g;

  it.each([
    ['/strip/a', once, [true, false], 0],
    ['/refuse/a', always, [true, true], 0],
    ['/store/a', once, [true, true], 1],
    ['/plain/cookie', always, [true, true], 1],
  ])('%s: bodies from %s, cookies %j, warnings so far %i', async (path, sources, cookies, warnings) => {
    ground.reply(path, { ...fresh, 'set-cookie': 'a=1' });
    const got = [await ground.ask(path), await ground.ask(path)];
    expect(got.map(({ source }) => source).join(' ')).toBe(sources);
    expect(got.map(({ fields }) => fields['set-cookie'] !== undefined)).toEqual(cookies);
    expect(ground.log().match(warning) ?? []).toHaveLength(warnings);
  });
});

describe('the request to the origin', () => {
  const codings = 'gzip, deflate, br;q=0.9';

  it.each([
    ['/surrogate/sent', 'rangeway="Surrogate/1.0"', codings],
    ['/normalise/sent', undefined, 'br, gzip'],
    ['/noquery/sent', undefined, codings],
    ['/plain/sent', undefined, codings],
  ])('%s: Surrogate-Capability %s, Accept-Encoding %s, and the whole query', async (path, capability, accepted) => {
    const fields = { 'accept-encoding': codings, 'surrogate-capability': 'other="ESI/1.0"' };
    await ground.ask(path, fields);
    await ground.ask(path, '?a=1&b');
    const [plain, query] = ground.seen(path);
    expect(plain?.fields['surrogate-capability']).toBe(capability);
    expect(plain?.fields['accept-encoding']).toBe(accepted);
    expect(query?.target).toBe(`${path}?a=1&b`);
  });
});

describe('staleWhileRevalidateSeconds', () => {
  it('serves the stale response, and then the one that revalidation has fetched', async () => {
    const path = '/meanwhile/a';
    expect(await sourcesOf(path, stale, [''])).toBe('origin');
    ground.reply(path, fresh);
    expect((await ground.ask(path)).fields['cache-status']).toMatch(/^rangeway; hit; ttl=-4\d$/);
    await until('another body is stored', async () => (await ground.ask(path)).source !== 'store');
    expect(await sourcesOf(path, fresh, [''])).toBe('store');
    expect(ground.seen(path)).toHaveLength(2);
  });
});

describe('staleIfErrorSeconds', () => {
  const paths = ['/plain/stale', '/stale50/a', '/stale30/a', '/staleno/a'];
  const gotAll = async () => {
    const got = [];
    for (const path of paths) got.push(await ground.ask(path));
    return got.map(({ status, source }) => `${status} ${source}`);
  };

  it('is for how long a stale response stands in for an origin that fails or is down', async () => {
    for (const path of paths) expect(await sourcesOf(path, stale, [''])).toBe('origin');
    for (const path of paths) ground.reply(path, { status: 503 });
    expect(await gotAll()).toEqual(['200 store', '200 store', '503 origin', '503 origin']);
    await ground.endOrigin();
    expect(await gotAll()).toEqual(['200 store', '200 store', '502 none', '502 none']);
  });
});
