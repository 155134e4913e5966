/** The keys and key prefixes of URLs, URL prefixes and hosts: those that requests for them are stored under, and no others. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  namesOfResource,
  parseResourceUrl,
  prefixesOf,
  prefixesOfHost,
  splitKey,
} from '../../src/routing/cache-key.ts';
import { createInquiry, routeRequest } from '../../src/routing/inquiry.ts';
import { createRouter, type Route } from '../../src/routing/router.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { routeWith } from './route-sample.ts';

const plain = routeWith();
const query = (selection: Route['cache']['key']['query']) => ({
  cache: { ...defaultCaching, key: { ...defaultCaching.key, query: selection } },
});

/** Creates the inquiry of a request, with its keys. */
function routedNames(route: Route, scheme: 'http' | 'https', authority: string, target: string) {
  const router = createRouter([route]);
  const request = { scheme, authority, target };
  const rest = { origin: route.origin, client: '', originFields: () => [], onInterim: () => {} };
  // The key depends on nothing else of a request.
  return createInquiry(request as Parameters<typeof createInquiry>[0], routeRequest(request, router), router, rest);
}

/** Returns the key that a request is stored under. */
function keyOfRequest(...request: Parameters<typeof routedNames>): string {
  return routedNames(...request).key;
}

/** Adds the same texts with a dot at the end of the host name, which routes do not distinguish. */
function withDot(texts: readonly string[]): readonly string[] {
  return [...new Set([...texts, ...texts.map((text) => text.replace(/(.*:\/\/[^/:[]+)/, '$1.'))])];
}

describe('parseResourceUrl', () => {
  it.each([
    ['https://example.org/a?b', 'example.org', '/a?b'],
    ['HTTPS://Example.ORG:443/A', 'example.org', '/A'],
    ['http://example.org:80/', 'example.org', '/'],
    ['https://example.org:80/', 'example.org:80', '/'],
    ['http://example.org:8080', 'example.org:8080', '/'],
    ['http://example.org?x', 'example.org', '/?x'],
    ['  https://example.org/a#part?no ', 'example.org', '/a'],
    ['https://bücher.example/straße?ö', 'xn--bcher-kva.example', '/stra%C3%9Fe?%C3%B6'],
    ['https://xn--bcher-kva.example/a b', 'xn--bcher-kva.example', '/a%20b'],
    ['http://[2001:DB8::1]:8080/x', '[2001:db8::1]:8080', '/x'],
    ['http://192.0.2.1/%7e/../x', '192.0.2.1', '/%7e/../x'],
    ['http://a.test/\ud800', 'a.test', '/%EF%BF%BD'],
  ])('%j', (url, authority, target) => {
    expect(parseResourceUrl(url)).toEqual({ authority, target });
  });

  it.each([
    '',
    '/a',
    'example.org/a',
    '//example.org/a',
    'ftp://example.org/',
    'https:/example.org/',
    'https:///a',
    'https://user@example.org/',
    'https://user:secret@example.org/',
    'https://bü@example.org/',
    'https://exam ple.org/',
    'https://example.org:65536/',
    'https://example.org:x/',
    'https://exa%6dple.org/',
    'https://[::1/',
    'javascript:alert(1)',
  ])('%j is refused', (url) => {
    expect(parseResourceUrl(url)).toBeUndefined();
  });
});

const keysOf: (...resource: Parameters<typeof namesOfResource>) => readonly string[] = (...resource) =>
  namesOfResource(...resource).keys;

describe('namesOfResource', () => {
  it.each<[string, string, Partial<Route>]>([
    ['https://a.test/x', 'https://a.test/x', {}],
    ['https://A.test:443/%7ex/./y', 'https://a.test/~x/y', {}],
    ['https://a.test/x?b=1&a=2', 'https://a.test/x?b=1&a=2', {}],
    ['https://a.test/x?utm_x=1&a=2', 'https://a.test/x?a=2', query({ ignore: ['utm_*'] })],
    ['https://a.test/x?a=2', 'https://a.test/x', query('none')],
  ])('%s is stored as %s', (url, uri, overrides) => {
    const route = routeWith(overrides);
    const place = parseResourceUrl(url);
    const keys = place && keysOf(place, [route]);
    expect(keys?.map((key) => splitKey(key).uri)).toEqual(withDot([uri.replace('https:', 'http:'), uri]));
    for (const name of ['a.test', 'A.TEST.', 'a.test.:443']) {
      const names = routedNames(route, 'https', name, place?.target ?? '');
      expect(keys).toContain(names.normalKey);
      expect(splitKey(names.key).uri.endsWith(place?.target ?? '')).toBe(route.cache.key.query === 'all');
    }
  });

  it.each(['/x/~a', '/x/%7ea', '/x/y/../~a', '/%78/~a'])(
    '%s has the same keys and tags as its other spellings',
    (target) => {
      const names = namesOfResource({ authority: 'a.test', target }, [plain]);
      expect(names).toEqual(namesOfResource({ authority: 'a.test', target: '/x/~a' }, [plain]));
      expect(names.tags).toContain('uri:http://origin.test/ https://a.test/x/~a');
    },
  );

  it('returns the keys of each route once', () => {
    const other = routeWith({ originUrl: new URL('http://other.test/') });
    const keys = [
      'http://origin.test/ http://a.test/',
      'http://origin.test/ https://a.test/',
      'http://other.test/ http://a.test/',
      'http://other.test/ https://a.test/',
    ];
    for (const authority of ['a.test', 'a.test.']) {
      expect(keysOf({ authority, target: '/' }, [plain, other, routeWith()])).toEqual(withDot(keys));
    }
  });
});

describe('prefixesOf', () => {
  it.each([
    ['http://a.test', '/'],
    ['http://a.test/', '/'],
    ['http://a.test/a', '/a'],
    ['http://a.test/a/', '/a/'],
    ['http://a.test/%61b', '/ab'],
    ['http://a.test/x/../a', '/a'],
    // Dots at the end may be the beginning of a name.
    ['http://a.test/a/..', '/a/..'],
    ['http://a.test/a/.', '/a/.'],
    ['http://a.test/a?', '/a?'],
    ['http://a.test/a?b=%7', '/a?b=%7'],
    ['http://a.test/a%2', '/a%2'],
  ])('%s: %s', (url, path) => {
    const place = parseResourceUrl(url);
    const prefixes = [`http://origin.test/ http://a.test${path}`, `http://origin.test/ https://a.test${path}`];
    expect(place && prefixesOf(place, [plain])).toEqual(withDot(prefixes));
  });

  it('returns prefixes of the keys of all targets that begin with the path', () => {
    const text = fc.array(fc.constantFrom('/', 'a', '.', '%7e', '%2F', '?', '&', '=', 'é'), { maxLength: 6 });
    const joined = text.map((parts) => `/${parts.join('')}`);
    fc.assert(
      fc.property(joined, joined, (begun, rest) => {
        const place = parseResourceUrl(`http://a.test${begun}`);
        const [prefix = ''] = place === undefined ? [] : prefixesOf(place, [plain]);
        const whole = parseResourceUrl(`http://a.test${begun}${rest.slice(1)}x`);
        // A later `..` would lead out of the prefix.
        fc.pre(whole !== undefined && !whole.target.includes('..') && !/\/\.(?:$|[/?])/.test(whole.target));
        const [key = ''] = whole === undefined ? [] : keysOf(whole, [plain]);
        expect(key.startsWith(prefix)).toBe(true);
      }),
    );
  });
});

describe('prefixesOfHost', () => {
  const uris = (host: string) => prefixesOfHost(host, [plain])?.map((prefix) => splitKey(prefix).uri);
  it.each([
    ['a.test', ['http://a.test/', 'http://a.test:', 'https://a.test/', 'https://a.test:']],
    ['A.Test', ['http://a.test/', 'http://a.test:', 'https://a.test/', 'https://a.test:']],
    ['a.test:8080', ['http://a.test:8080/', 'https://a.test:8080/']],
    ['a.test:80', ['http://a.test/', 'https://a.test:80/']],
    ['a.test:443', ['http://a.test:443/', 'https://a.test/']],
    ['[::1]', ['http://[::1]/', 'http://[::1]:', 'https://[::1]/', 'https://[::1]:']],
    ['[::1]:81', ['http://[::1]:81/', 'https://[::1]:81/']],
    ['bücher.example', ['http', 'https'].flatMap((s) => ['/', ':'].map((end) => `${s}://xn--bcher-kva.example${end}`))],
  ])('%s', (host, want) => {
    expect(uris(host)?.toSorted()).toEqual(withDot(want).toSorted());
  });

  it.each(['', 'https://a.test', 'a.test/', 'u@a.test', '::1', '*.a.test', 'a b'])('%j is refused', (host) => {
    expect(uris(host)).toBeUndefined();
  });

  it('returns no prefix of a host whose name only begins with this one', () => {
    const prefixes = prefixesOfHost('a.test', [plain]) ?? [];
    const isFound = (authority: string) =>
      prefixes.some((prefix) => keyOfRequest(plain, 'https', authority, '/x').startsWith(prefix));
    expect(['a.test', 'a.test:8443', 'A.test.', 'a.test.:8443'].every(isFound)).toBe(true);
    expect(['a.test.evil.test', 'xa.test', 'a.tes'].some(isFound)).toBe(false);
  });
});
