/** From a request to its route and its inquiry. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changedInquiry } from '../../src/cache/inquiry.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import type { ProxyError } from '../../src/http/proxy-error.ts';
import { splitKey } from '../../src/routing/cache-key.ts';
import { createInquiry, routeRequest } from '../../src/routing/inquiry.ts';
import { createRouter, type RouteCaching } from '../../src/routing/router.ts';
import { normaliseTarget } from '../../src/routing/target.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { routeWith } from './route-sample.ts';

function requestFor(target: string): ProxyRequest {
  return {
    method: 'GET',
    scheme: 'http',
    authority: 'a.test',
    target,
    version: '1.1',
    fields: [],
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: '192.0.2.7', port: 40_000 },
    receivedAt: 0,
    signal: new AbortController().signal,
    sendInterim: () => undefined,
  };
}

/** Creates the inquiry for a target. All paths use the query selection `query`, except those below `/all`. */
function inquiryFor(target: string, query: RouteCaching['key']['query']) {
  const cache: RouteCaching = { ...defaultCaching, key: { ...defaultCaching.key, query } };
  const routes = [routeWith({ cache }), routeWith({ name: 'all', match: { pathPrefix: '/all' } })];
  const router = createRouter(routes);
  const request = requestFor(target);
  return createInquiry(request, routeRequest(request, router), router, {
    origin: routeWith().origin,
    client: '192.0.2.7',
    originFields: () => [],
    onInterim: () => undefined,
  });
}

const withoutTracking = { ignore: ['utm_*'] };

describe('routeRequest', () => {
  const routes = ['/', '/private', '/files/', '/other'].map((pathPrefix) =>
    routeWith({ name: pathPrefix, match: { pathPrefix } }),
  );
  const nameOf = (target: string): string => {
    try {
      return routeRequest(requestFor(target), createRouter(routes)).route.name;
    } catch (thrown) {
      return (thrown as ProxyError).code;
    }
  };

  it('returns for a repeated request what it would return without remembered results', () => {
    const router = createRouter([...routes, routeWith({ name: 'host', match: { hosts: ['a.test', 'b.test'] } })]);
    const scheme = fc.constantFrom('http' as const, 'https' as const);
    const authority = fc.constantFrom('', 'a.test', 'A.test', 'b.test', 'a.test:80', 'a.test/other', 'c.test', 'a b');
    const target = fc.constantFrom(
      '/',
      '/private',
      '/other',
      '/%6fther',
      '/files/a',
      '//private/a',
      '*',
      '/..%2f',
      'st/',
    );
    const outcome = (find: () => unknown) => {
      try {
        return find();
      } catch (thrown) {
        return (thrown as ProxyError).code;
      }
    };
    fc.assert(
      fc.property(fc.array(fc.record({ scheme, authority, target }), { maxLength: 30 }), (asked) => {
        for (const each of asked) {
          const fresh: typeof router = (...place) => router(...place);
          expect(outcome(() => routeRequest(each, router))).toEqual(outcome(() => routeRequest(each, fresh)));
        }
      }),
    );
  });

  it.each([
    ['/private/a', '/private'],
    ['/a', '/'],
    ['/%61', '/'],
    ['/x/../b', '/'],
    ['/x/./b', '/'],
    ['/private/x/../b', '/private'],
    ['/private/%61/%2e%2e/b', '/private'],
    ['/private/.', '/private'],
    ['/files/a/..', '/files/'],
    // The origin gets the path unchanged. If it compares text, it sees the path of another route than if it decodes.
    ['/%70rivate', 'malformed_request'],
    ['/x/../private', 'malformed_request'],
    ['/x/%2e%2e/private', 'malformed_request'],
    ['/./private', 'malformed_request'],
    ['/private/../a', 'malformed_request'],
    ['/private/../other', 'malformed_request'],
    ['/%70rivate/../a', 'malformed_request'],
    ['/files/..', 'malformed_request'],
    // No path may step out of its route, not even to return.
    ['/private/../private/a', 'malformed_request'],
    ['/..', 'malformed_request'],
    ['/../a', 'malformed_request'],
    ['/a/%2e%2e/%2e%2e/b', 'malformed_request'],
    ['/private//../a', 'malformed_request'],
    ['/private/;/../a', 'malformed_request'],
    // Paths that some origin may read as one of another route are refused.
    ['//private/a', 'malformed_request'],
    ['/private%2fa', 'malformed_request'],
    ['/private%5Ca', 'malformed_request'],
    ['/private\\a', 'malformed_request'],
    ['/private;x/a', 'malformed_request'],
    ['/private%3b/a', 'malformed_request'],
    ['/;/private/a', 'malformed_request'],
    ['/.;/private', 'malformed_request'],
    ['/.%2Fprivate', 'malformed_request'],
    ['/%2Fprivate', 'malformed_request'],
    ['/files%2Fa', 'malformed_request'],
    ['/files/%2F../private', 'malformed_request'],
    // Within one route, the origin decides what such paths mean.
    ['/private//a%2Fb;c', '/private'],
    ['/a//private', '/'],
    ['/a%2Fprivate', '/'],
    ['/a;b', '/'],
    ['/Private', '/'],
    ['/a?//private', '/'],
    ['/a?/../private', '/'],
    ['/a?%2e%2e', '/'],
    // A fragment is no part of a target (RFC 9112 §3.2).
    ['/a#b', 'malformed_request'],
    ['/a?b#', 'malformed_request'],
  ])('%s: %s', (target, want) => expect(nameOf(target)).toBe(want));

  it.each(['/~user/a', '/%7euser/a', '/%7Euser/a'])(
    '%s is below a prefix that is written with an encoded tilde',
    (target) => {
      const router = createRouter([routeWith(), routeWith({ name: 'user', match: { pathPrefix: '/%7euser' } })]);
      expect(routeRequest(requestFor(target), router).route.name).toBe('user');
    },
  );

  it('reports no more than that a path has no route', () => {
    const router = createRouter([routeWith({ match: { pathPrefix: '/private' } })]);
    expect(() => routeRequest(requestFor('//private'), router)).toThrow('No route is configured');
  });
});

describe('the key of an inquiry', () => {
  it.each<[target: string, query: RouteCaching['key']['query'], want: string]>([
    ['/f?b=2&a=1', 'all', 'http://origin.test/ http://a.test/f?b=2&a=1'],
    ['/f?', 'all', 'http://origin.test/ http://a.test/f?'],
    ['/f?b=2&a=1', 'none', 'http://origin.test/#query=none http://a.test/f'],
    ['/f?b=2&a=1', { keep: ['a'] }, 'http://origin.test/#query=keep["a"] http://a.test/f?a=1'],
    ['/f?utm_x=1&b=%7e', withoutTracking, 'http://origin.test/#query=ignore["utm_*"] http://a.test/f?b=~#/f?b=%7e'],
    ['/f?utm%5Fx=1', withoutTracking, 'http://origin.test/#query=ignore["utm_*"] http://a.test/f'],
    ['/all?utm_x=1', withoutTracking, 'http://origin.test/ http://a.test/all?utm_x=1'],
  ])('%s, %j: %s', (target, query, want) => expect(inquiryFor(target, query).key).toBe(want));

  it.each<[target: string, key: string]>([
    ['/a~', '/a~'],
    ['/a%7e', '/a~#/a%7e'],
    ['/a%7E', '/a~#/a%7E'],
    ['/b/../a~', '/a~#/b/../a~'],
    ['/a~?', '/a~?'],
    ['/a?b=%61', '/a?b=a#/a?b=%61'],
    ['/%2f', '/%2F#/%2f'],
    ['*', ' *'],
  ])('begins with the key of the normal form: %s', (target, want) => {
    const { key, normalKey, originTarget } = inquiryFor(target, 'all');
    expect(key).toBe(`http://origin.test/ http://a.test${want}`);
    expect(normalKey).toBe(key.replace(/#\/.*$/, ''));
    expect(originTarget).toBe(target);
    expect(splitKey(key).uri).toBe(`http://a.test${target === '*' ? ' *' : target}`);
  });

  it('is the same only for the same spelling; the normal key is the same for all spellings', () => {
    const piece = fc.constantFrom('/', 'a', '.', '..', '%7e', '%7E', '~', '%2f', '%61', '?', '&', ';');
    const target = fc.array(piece, { maxLength: 6 }).map((pieces) => `/${pieces.join('')}`);
    const asked = (text: string) => {
      try {
        return inquiryFor(text, 'all');
      } catch {
        return undefined;
      }
    };
    fc.assert(
      fc.property(target, target, (one, other) => {
        const [a, b] = [asked(one), asked(other)];
        fc.pre(a !== undefined && b !== undefined);
        expect(a.key === b.key).toBe(one === other);
        expect([a.originTarget, splitKey(a.key).uri]).toEqual([one, `http://a.test${one}`]);
        const isOneUri = JSON.stringify(normaliseTarget(one)) === JSON.stringify(normaliseTarget(other));
        expect(a.normalKey === b.normalKey).toBe(isOneUri);
      }),
      { numRuns: 3000 },
    );
  });

  it('does not shorten the query for the origin', () => {
    expect(inquiryFor('/f?utm_x=1&a=1', 'none').originTarget).toBe('/f?utm_x=1&a=1');
  });

  it('is the same where only ignored parameters differ, and differs otherwise', () => {
    const parameter = fc.constantFrom('a=1', 'a=2', 'b', 'utm_x=1', 'utm_y', 'utm_x=1;a=2', '');
    const parameters = fc.array(parameter, { maxLength: 4 });
    const targetOf = (list: readonly string[]) => (list.length === 0 ? '/f' : `/f?${list.join('&')}`);
    const counting = (list: readonly string[]) => list.filter((one) => !one.startsWith('utm_') || one.includes(';'));
    fc.assert(
      fc.property(parameters, parameters, (one, other) => {
        const [key, otherKey] = [one, other].map((list) => inquiryFor(targetOf(list), withoutTracking).key);
        expect(key === otherKey).toBe(JSON.stringify(counting(one)) === JSON.stringify(counting(other)));
      }),
    );
  });
});

describe('the keys of another target', () => {
  it.each<[other: string, sameAs: string]>([
    ['/g?x=1&utm_x=2', '/g?x=1'],
    ['/g?x=1', '/g?utm_x=2&x=1'],
    ['/g?utm_x=2', '/g'],
    ['/g?x=1', '/g?x=1'],
  ])('of %s are those of a request for %s', (other, sameAs) => {
    expect(inquiryFor('/f', withoutTracking).keysOf(other)?.key).toBe(inquiryFor(sameAs, withoutTracking).key);
  });

  it('use the query selection of the route that serves it', () => {
    expect(inquiryFor('/f', 'none').keysOf('/all?a=1')?.key).toBe(inquiryFor('/all?a=1', 'none').key);
    expect(inquiryFor('/all', 'none').keysOf('/f?a=1')?.key).toBe(inquiryFor('/f', 'none').key);
  });
});

describe('the policy of an inquiry', () => {
  it('is the one of the route', () => {
    const { enabled, digest, acceptEncoding: _forTheOrigin, ...policy } = defaultCaching;
    const { fill, closeDelimited, ranges } = routeWith();
    expect(inquiryFor('/all', 'none').policy).toEqual({
      ...policy,
      isEnabled: enabled,
      maxRanges: ranges.maxRanges,
      wantsDigest: digest,
      fill,
      closeDelimited,
    });
  });
});

describe('the fields for the origin', () => {
  const create = () => {
    let made = 0;
    const router = createRouter([routeWith()]);
    const request = requestFor('/a');
    const inquiry = createInquiry(request, routeRequest(request, router), router, {
      origin: routeWith().origin,
      client: '192.0.2.7',
      originFields: () => {
        made += 1;
        return [['x-made', String(made)]];
      },
      onInterim: () => undefined,
    });
    return { inquiry, made: () => made };
  };

  it('are made once, on demand', () => {
    const { inquiry, made } = create();
    expect(made()).toBe(0);
    expect([inquiry.originFields, inquiry.originFields]).toEqual([[['x-made', '1']], [['x-made', '1']]]);
  });

  it('are kept in a changed inquiry, like everything that is not changed', () => {
    const { inquiry } = create();
    const changed = changedInquiry(inquiry, { client: 'another' });
    const { originFields, key, uriOrigin, originTarget, policy } = inquiry;
    expect(changed).toMatchObject({ client: 'another', originFields, key, uriOrigin, originTarget, policy });
    expect(changed.request).toBe(inquiry.request);
    expect(changed.keysOf('/b')).toEqual(inquiry.keysOf('/b'));
    expect(changedInquiry(changed, { originFields: [], isBackground: true })).toMatchObject({
      originFields: [],
      isBackground: true,
      client: 'another',
    });
  });

  it('are not made for inquiries that have others already', () => {
    const { inquiry, made } = create();
    changedInquiry(inquiry, { originFields: [] });
    expect(made()).toBe(0);
  });
});
