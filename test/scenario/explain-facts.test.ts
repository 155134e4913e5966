/** Explanations of stored entries: what selects an entry, how fresh it is, and which validators it has. */

import { afterEach, describe, expect, it } from 'vitest';
import { fetched, storedBody } from '../support/clients/conversation.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { createWholeProxy, type RouteOptions, type WholeProxy } from '../support/proxies/whole-proxy.ts';

const modified = 'Wed, 01 Jan 2025 00:00:00 GMT';
const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };

let proxy: WholeProxy;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

function start(cache: RouteOptions['cache'] = {}): void {
  proxy = createWholeProxy({ route: { cache } });
}

describe('the variant', () => {
  it('has the values of the explained request, and only the names of those that differ in an entry', async () => {
    start({ key: { ...defaultCaching.key, fields: ['x-device'], cookies: ['lang'] } });
    const vary = { ...fresh, vary: 'Accept-Encoding, X-Secret' };
    const fields = {
      'accept-encoding': 'GZIP , br',
      'x-secret': 'theirs',
      'x-device': 'tv',
      cookie: 'lang=de; other=1',
    };
    await fetched(proxy, { fields: vary }, { fields });
    await fetched(proxy, { fields: vary }, { fields: { ...fields, 'x-device': 'phone' } });
    const explained = await proxy.explain({ fields: { ...fields, 'x-secret': 'mine', cookie: 'lang=fr' } });
    expect(explained.variant).toEqual([
      ['accept-encoding', 'br,gzip'],
      ['x-secret', 'mine'],
      ['x-device', 'tv'],
      ['cookie:lang', 'lang=fr'],
    ]);
    expect(explained.entries.map(({ differs }) => differs)).toEqual([
      ['x-secret', 'x-device', 'cookie:lang'],
      ['x-secret', 'cookie:lang'],
    ]);
    expect(JSON.stringify(explained)).not.toContain('theirs');
    expect(await proxy.explain({ fields })).toMatchObject({
      decision: { kind: 'hit' },
      entries: [
        { isChosen: false, differs: ['x-device'] },
        { isChosen: true, differs: [] },
      ],
    });
  });
});

describe('the explained freshness', () => {
  it.each<[name: string, fields: Record<string, string>, cache: RouteOptions['cache'], want: object]>([
    [
      'max-age',
      { 'cache-control': 'max-age=60' },
      {},
      { lifetimeMs: 60_000, source: 'max-age', field: 'cache-control' },
    ],
    ['s-maxage', { 'cache-control': 's-maxage=60' }, {}, { source: 's-maxage', stale: { forbiddenBy: 's-maxage' } }],
    [
      'a targeted field',
      { 'cache-control': 'no-store', 'cdn-cache-control': 'max-age=30' },
      {},
      { lifetimeMs: 30_000, source: 'max-age', field: 'cdn-cache-control' },
    ],
    [
      'Expires',
      { expires: 'Thu, 01 Jan 2026 00:05:00 GMT' },
      {},
      { lifetimeMs: 300_000, source: 'expires', field: 'expires' },
    ],
    [
      'the heuristic',
      { 'last-modified': 'Wed, 31 Dec 2025 23:50:00 GMT' },
      {},
      { lifetimeMs: 60_000, source: 'heuristic', field: 'last-modified' },
    ],
    ['the default', {}, { defaultTtlSeconds: 20 }, { lifetimeMs: 20_000, source: 'default' }],
    [
      'the override',
      { 'cache-control': 'max-age=1' },
      { overrideTtlByStatus: { '200': 20 } },
      { lifetimeMs: 20_000, source: 'override' },
    ],
    ['no field', { etag: '"v1"' }, {}, { lifetimeMs: 0, source: 'none' }],
    [
      'must-revalidate',
      { 'cache-control': 'max-age=60, must-revalidate' },
      {},
      { stale: { forbiddenBy: 'must-revalidate' } },
    ],
    [
      'stale-while-revalidate and stale-if-error',
      { 'cache-control': 'max-age=60, stale-while-revalidate=5, stale-if-error=7' },
      {},
      { stale: { whileRevalidateMs: 5000, ifErrorMs: 7000 } },
    ],
  ])('is determined by %s', async (_name, fields, cache, want) => {
    start(cache);
    await fetched(proxy, { fields: { date: 'Thu, 01 Jan 2026 00:00:00 GMT', ...fields } });
    const { chosen } = await proxy.explain();
    expect(chosen?.freshness).toMatchObject(want);
    expect(chosen?.freshness).toMatchObject({ ttlMs: chosen?.freshness.lifetimeMs, age: { ageMs: 0 } });
  });

  it('shows that ranges reuse a response without a lifetime', async () => {
    start();
    await fetched(proxy, { fields: { etag: '"v1"' } });
    expect(await proxy.explain({ fields: { range: 'bytes=0-9' } })).toMatchObject({
      decision: { kind: 'hit' },
      chosen: { freshness: { lifetimeMs: 60_000, source: 'range-reuse' } },
    });
  });

  it('shows the terms of the age', async () => {
    start();
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    proxy.clock.advance(2000);
    exchange.respond({ fields: { ...fresh, age: '10', date: 'Wed, 31 Dec 2025 23:59:55 GMT' } }, storedBody);
    await client.bytes();
    await proxy.fillsEnded(1);
    proxy.clock.advance(30_000);
    const { chosen } = await proxy.explain();
    expect(chosen?.freshness).toMatchObject({
      lifetimeMs: 100_000,
      age: { ageFieldMs: 10_000, responseDelayMs: 2000, apparentAgeMs: 7000, residentMs: 30_000, ageMs: 42_000 },
      ttlMs: 58_000,
    });
  });
});

describe('the explained validators', () => {
  const strong = { value: '"v1"', strength: 'strong', owner: 'origin' };
  it.each<[name: string, fields: Record<string, string>, want: object]>([
    [
      'a strong tag',
      { etag: '"v1"' },
      { entityTag: strong, combinedBy: '"v1"', conditions: [['if-none-match', '"v1"']] },
    ],
    [
      'a weak tag',
      { etag: 'W/"v1"' },
      { entityTag: { value: 'W/"v1"', strength: 'weak', owner: 'origin' }, combinedBy: undefined },
    ],
    ['a malformed tag', { etag: 'v1' }, { entityTag: { value: 'v1', strength: 'malformed' }, conditions: [] }],
    [
      'a strong date',
      { 'last-modified': modified },
      {
        lastModified: { value: modified, strength: 'strong' },
        combinedBy: modified,
        conditions: [['if-modified-since', modified]],
      },
    ],
    [
      'a weak date',
      { 'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT', date: 'Thu, 01 Jan 2026 00:00:00 GMT' },
      { lastModified: { strength: 'weak' }, combinedBy: undefined },
    ],
    [
      'a malformed Last-Modified',
      { 'last-modified': 'yesterday', etag: '"v1"' },
      { lastModified: { strength: 'malformed' } },
    ],
    [
      'a tag made by Rangeway',
      {},
      {
        entityTag: { value: '"rw-generation-1"', strength: 'strong', owner: 'rangeway' },
        combinedBy: undefined,
        conditions: [],
      },
    ],
  ])('include %s', async (_name, fields, want) => {
    start();
    await fetched(proxy, { fields: { 'cache-control': 'max-age=60', ...fields } });
    const validators = (await proxy.explain()).chosen?.validators;
    expect({ combinedBy: undefined, ...validators }).toMatchObject(want);
  });
});
