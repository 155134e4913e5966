/** Searches of operators: the keys and tags that they resolve to, and the errors of invalid ones. */

import { describe, expect, it } from 'vitest';
import { resolveSearch } from '../../src/admin/entries.ts';
import { type EntrySearch, OperationFault } from '../../src/admin/operations.ts';
import { hasPattern } from '../../src/cache/fleet.ts';
import { cacheKey, originScope } from '../../src/routing/cache-key.ts';
import { routeWith } from '../routing/route-sample.ts';

const scope = 'http://origin.test/';
const other = 'http://other.test/';
const routes = [routeWith(), routeWith({ originUrl: new URL(other) })];
const nothing = { keys: [], prefixes: [], tags: [] };
/** Returns keys of both routes, for the host name with and without a trailing dot. */
const under = (...texts: readonly string[]) =>
  ['a.test', 'a.test.'].flatMap((name) =>
    [scope, other].flatMap((each) => texts.map((text) => `${each} ${text.replace('a.test', name)}`)),
  );

const inAllSpellings = (keys: readonly string[]) => ({ keys, tags: keys.map((key) => `uri:${key}`) });

describe('resolveSearch', () => {
  it.each<[EntrySearch, unknown]>([
    [{ kind: 'all' }, { ...nothing, prefixes: [''] }],
    [
      { kind: 'url', url: 'https://A.test/x' },
      { ...nothing, ...inAllSpellings(under('http://a.test/x', 'https://a.test/x')) },
    ],
    [
      { kind: 'url', url: 'https://A.test/y/../%78' },
      { ...nothing, ...inAllSpellings(under('http://a.test/x', 'https://a.test/x')) },
    ],
    [
      { kind: 'prefix', url: 'http://a.test/x' },
      { ...nothing, prefixes: under('http://a.test/x', 'https://a.test/x') },
    ],
    [
      { kind: 'host', host: 'a.test:8080' },
      { ...nothing, prefixes: [...under('http://a.test:8080/'), ...under('https://a.test:8080/')] },
    ],
    [
      { kind: 'tag', tag: 'a b' },
      { ...nothing, tags: ['tag:a b'] },
    ],
    // The bytes of the tag as a field has them.
    [
      { kind: 'tag', tag: 'ä' },
      { ...nothing, tags: ['tag:\u00c3\u00a4'] },
    ],
    [
      { kind: 'group', group: 'g', origin: 'https://A.test:443/' },
      { ...nothing, tags: ['["https://a.test","g"]'] },
    ],
    // A tag never matches a group, even with the same text.
    [
      { kind: 'tag', tag: '["https://a.test","g"]' },
      { ...nothing, tags: ['tag:["https://a.test","g"]'] },
    ],
  ])('%j', (search, want) => {
    expect(resolveSearch(search, routes)).toEqual(want);
  });

  it('resolves a path alone to patterns for any authority, where there is one route', () => {
    const query = { keep: ['q'] };
    const only = routeWith({ cache: { ...routeWith().cache, key: { ...routeWith().cache.key, query } } });
    const { patterns = [], ...rest } = resolveSearch({ kind: 'url', url: '/x y?q=1&z' }, [only]);
    expect(rest).toEqual(nothing);
    expect(patterns.map(({ rest: path }) => path)).toEqual(['/x%20y?q=1', '/x%20y?q=1']);
    const key = (authority: string, path: string) =>
      cacheKey({ originScope: originScope(only), scheme: 'https', authority, path, query: '?q=1' });
    const has = (text: string) => patterns.some((pattern) => hasPattern(text, pattern));
    expect(['', 'a.test', '[::1]:8080', 'a/b'].map((authority) => has(key(authority, '/x%20y')))).toEqual(
      Array(4).fill(true),
    );
    expect(['/x%20y/', '/a/x%20y', '*'].map((path) => has(key('a.test', path)))).toEqual([false, false, false]);
  });

  it('resolves a URL with redacted secrets to all resources that are shown like it', () => {
    const only = routeWith();
    const resolve = (url: string) => resolveSearch({ kind: 'url', url }, [only]).patterns ?? [];
    const key = (path: string, query: string) =>
      cacheKey({ originScope: originScope(only), scheme: 'https', authority: 'a.test', path, query });
    const matches = (url: string, text: string) => resolve(url).some((pattern) => hasPattern(text, pattern));
    expect(resolve('https://a.test/x?token=1&b=2')).toEqual([]);
    for (const shown of ['token=[redacted]&b=2', 'token=%5Bredacted%5D&b=2']) {
      const url = `https://a.test/x?${shown}`;
      expect(
        ['?token=1&b=2', '?token=22&b=2', '?token=1&b=3', '?token=1', '?b=2', '?token=1&b=23'].map((query) =>
          matches(url, key('/x', query)),
        ),
      ).toEqual([true, true, false, false, false, false]);
      expect([
        matches(url, key('/xy', '?token=1&b=2')),
        matches(url, `${key('/x', '?token=1&b=2')}#/%78?token=1&b=2`),
      ]).toEqual([false, true]);
    }
  });

  it.each<[EntrySearch, string]>([
    [
      { kind: 'url', url: '/a' },
      'a path alone is enough where there is one route, and there are 2: expected a whole URL such as "https://example.org/a"',
    ],
    [{ kind: 'url', url: 'a.test/x' }, 'expected a whole URL such as "https://a.test/x", got "a.test/x"'],
    [
      { kind: 'prefix', url: 'ftp://a.test/' },
      'expected an http or https URL such as "https://example.org/path", got "ftp://a.test/"',
    ],
    [{ kind: 'url', url: '' }, 'expected an http or https URL such as "https://example.org/path", got ""'],
    [
      { kind: 'host', host: 'https://a.test' },
      'expected a host such as "example.org" or "example.org:8080", got "https://a.test"',
    ],
    [{ kind: 'tag', tag: '' }, 'expected a tag of 1 to 1024 bytes, got 0'],
    [{ kind: 'tag', tag: 'ä'.repeat(513) }, 'expected a tag of 1 to 1024 bytes, got 1026'],
    [
      { kind: 'group', group: 'g', origin: 'a.test' },
      'expected scheme and host such as "https://example.org", got "a.test"',
    ],
    [
      { kind: 'group', group: 'g', origin: 'https://a.test/x' },
      'expected scheme and host such as "https://example.org", got "https://a.test/x"',
    ],
  ])('%j: %s', (search, message) => {
    let thrown: unknown;
    try {
      resolveSearch(search, routes);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(OperationFault);
    expect(thrown).toMatchObject({ reason: 'invalid', message });
  });
});
