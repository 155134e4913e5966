/** Cache keys: readable, defined for every input, and different for different inputs. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CacheKeyParts, cacheKey, originScope } from '../../src/routing/cache-key.ts';
import type { Route } from '../../src/routing/router.ts';
import type { QuerySelection } from '../../src/semantics/query.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { routeWith } from './route-sample.ts';

const parts: CacheKeyParts = {
  originScope: 'http://origin.test/',
  scheme: 'https',
  authority: 'a.test:8443',
  path: '/x%2Fy',
  query: '?z',
};

describe('cacheKey', () => {
  it.each<[Partial<CacheKeyParts>, string]>([
    [{}, 'http://origin.test/ https://a.test:8443/x%2Fy?z'],
    [{ authority: '[::1]', query: '' }, 'http://origin.test/ https://[::1]/x%2Fy'],
    [{ authority: '' }, 'http://origin.test/ https:///x%2Fy?z'],
    [{ path: '*', query: '' }, 'http://origin.test/ https://a.test:8443 *'],
    [{ originScope: 'a b%20;' }, 'a%20;b%25;20; https://a.test:8443/x%2Fy?z'],
    [{ authority: 'a/b' }, 'http://origin.test/ https://a%2f;b/x%2Fy?z'],
  ])('%j', (overrides, want) => {
    expect(cacheKey({ ...parts, ...overrides })).toBe(want);
  });

  it('differs for different parts, and never throws', () => {
    const text = fc.array(fc.constantFrom(' ', '/', ':', '%', '%20;', '*', 'a', '?', '\ud800', 'http://'), {
      maxLength: 4,
    });
    const joined = text.map((pieces) => pieces.join(''));
    const path = joined.map((whole) => whole.replaceAll('?', ''));
    const arbitrary = fc.record({
      originScope: joined,
      scheme: fc.constantFrom<'http' | 'https'>('http', 'https'),
      authority: joined,
      path,
      query: fc.constantFrom('', '?', '?a', '? /'),
    });
    fc.assert(
      fc.property(arbitrary, arbitrary, (a, b) => {
        expect(cacheKey(a) === cacheKey(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
      { numRuns: 5000 },
    );
  });
});

describe('originScope', () => {
  const media = { hosts: [], pathPrefix: '/media' };
  const toOrigin = { removed: new Set(['a']), removedFromShared: new Set<string>(), constant: [], scope: '0123abcd' };
  const cachedBy = (query: QuerySelection) => ({ cache: { ...defaultCaching, key: { ...defaultCaching.key, query } } });
  it.each<[Partial<Route>, string]>([
    [{}, 'http://origin.test/'],
    [{ originUrl: new URL('HTTPS://Origin.test:443/base') }, 'https://origin.test/base'],
    [{ originUrl: new URL('unix:/run/app.sock') }, 'unix:/run/app.sock'],
    [{ match: media }, 'http://origin.test/'],
    [{ match: media, stripPathPrefix: true }, 'http://origin.test/#strip=/media'],
    [{ host: 'keep' }, 'http://origin.test/#keep-host'],
    [{ host: { name: 'B.test' }, match: media, stripPathPrefix: true }, 'http://origin.test/#strip=/media#host=b.test'],
    [{ host: 'keep', toOrigin }, 'http://origin.test/#keep-host#fields=0123abcd'],
    [{ ...cachedBy('none'), toOrigin }, 'http://origin.test/#fields=0123abcd#query=none'],
    [cachedBy('none'), 'http://origin.test/#query=none'],
    [cachedBy({ keep: [] }), 'http://origin.test/#query=keep[]'],
    [cachedBy({ keep: ['b', 'a#'] }), 'http://origin.test/#query=keep["a#","b"]'],
    [{ ...cachedBy({ ignore: ['utm_*'] }), host: 'keep' }, 'http://origin.test/#keep-host#query=ignore["utm_*"]'],
  ])('%j', (overrides, want) => {
    expect(originScope(routeWith(overrides))).toBe(want);
  });
});
