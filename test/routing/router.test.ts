/** Which route a request takes, and the target that its origin gets. */

import { describe, expect, it } from 'vitest';
import { createRouter, originTarget, referenceRules } from '../../src/routing/router.ts';
import { routeWith } from './route-sample.ts';

/** A route named after what it matches: `host,host /prefix`. */
function routeFor(name: string) {
  const [hosts = '', pathPrefix = '/'] = name.split(' ');
  return routeWith({ name, match: { hosts: hosts === 'any' ? [] : hosts.split(','), pathPrefix } });
}

describe('createRouter', () => {
  it.each<[routes: string[], authority: string, path: string, want: string | undefined]>([
    // prefixes are whole segments
    [['any /'], 'a.test', '/x', 'any /'],
    [['any /'], '', '/x', 'any /'],
    [['any /'], 'a.test', '*', 'any /'],
    [['any /media'], 'a.test', '/media', 'any /media'],
    [['any /media'], 'a.test', '/media/', 'any /media'],
    [['any /media'], 'a.test', '/media/x', 'any /media'],
    [['any /media'], 'a.test', '/mediax', undefined],
    [['any /media'], 'a.test', '/Media', undefined],
    [['any /media'], 'a.test', '/', undefined],
    [['any /media'], 'a.test', '*', undefined],
    [['any /media/'], 'a.test', '/media', undefined],
    [['any /media/'], 'a.test', '/media/', 'any /media/'],
    [['any /media/'], 'a.test', '/media/x', 'any /media/'],
    [['any /%7euser'], 'a.test', '/~user/x', 'any /%7euser'],
    [['any /%7euser'], 'a.test', '/%7Euser/x', 'any /%7euser'],
    [['any /~user'], 'a.test', '/%7Euser/x', undefined],
    [['any /x/../a'], 'a.test', '/a/x', 'any /x/../a'],
    [['any /x/../a'], 'a.test', '/x/../a', undefined],
    // the longest prefix
    [['any /', 'any /a', 'any /a/b'], 'a.test', '/a/b/c', 'any /a/b'],
    [['any /a/b', 'any /a', 'any /'], 'a.test', '/a/c', 'any /a'],
    [['any /a', 'any /a/'], 'a.test', '/a/c', 'any /a/'],
    [['any /a', 'any /a/'], 'a.test', '/a', 'any /a'],
    // hosts
    [['a.test /'], 'a.test', '/', 'a.test /'],
    [['A.Test /'], 'a.test', '/', 'A.Test /'],
    [['a.test /'], 'a.test:8080', '/', 'a.test /'],
    [['a.test /'], 'b.test', '/', undefined],
    [['a.test /', 'any /'], 'a.test.', '/', 'a.test /'],
    [['*.example.org /', 'any /'], 'a.example.org.:81', '/', '*.example.org /'],
    [['a.test /'], '.', '/', undefined],
    [['a.test /'], '', '/', undefined],
    [['b.test,a.test /'], 'a.test', '/', 'b.test,a.test /'],
    [['[::1] /'], '[::1]:8080', '/', '[::1] /'],
    [['*.example.org /'], 'a.example.org', '/', '*.example.org /'],
    [['*.example.org /'], 'a.b.example.org:81', '/', '*.example.org /'],
    [['*.example.org /'], 'example.org', '/', undefined],
    [['*.example.org /'], '.example.org', '/', undefined],
    [['*.example.org /'], 'aexample.org', '/', undefined],
    [['* /'], 'a.test', '/', '* /'],
    // exact before wildcard before any, and only then the prefix
    [['any /', '*.test /', 'a.test /'], 'a.test', '/x', 'a.test /'],
    [['any /', '*.test /', 'a.test /'], 'b.test', '/x', '*.test /'],
    [['any /', '*.test /', 'a.test /'], 'b.example', '/x', 'any /'],
    [['*.org /', '*.example.org /'], 'a.example.org', '/x', '*.example.org /'],
    [['any /long/prefix', 'a.test /'], 'a.test', '/long/prefix', 'a.test /'],
    [['any /', 'a.test /media'], 'a.test', '/other', 'any /'],
    // the first of those that match alike
    [['any /', 'any /'], 'a.test', '/', 'any /'],
    [[], 'a.test', '/', undefined],
  ])('%j for %j %j', (routes, authority, path, want) => {
    const router = createRouter(routes.map(routeFor));
    expect(router(authority, path)?.name).toBe(want);
  });

  it('takes the first of two that match alike', () => {
    const [first, second] = [routeWith(), routeWith()];
    expect(createRouter([first, second])('a.test', '/')).toBe(first);
  });
});

describe('originTarget', () => {
  it.each<[origin: string, prefix: string, isStripped: boolean, path: string, query: string, want: string]>([
    ['http://o.test', '/', false, '/', '', '/'],
    ['http://o.test', '/', false, '/a%2Fb', '?c?', '/a%2Fb?c?'],
    ['http://o.test', '/', false, '//a', '?', '//a?'],
    ['http://o.test', '/media', false, '/media/a', '', '/media/a'],
    ['http://o.test', '/media', true, '/media/a', '?b', '/a?b'],
    ['http://o.test', '/media', true, '/media/', '', '/'],
    ['http://o.test', '/media', true, '/media', '?b', '/?b'],
    ['http://o.test', '/media', true, '/media//a', '', '//a'],
    ['http://o.test', '/media/', true, '/media/a', '', '/a'],
    ['http://o.test', '/media/', true, '/media/', '', '/'],
    ['http://o.test', '/', true, '/a', '', '/a'],
    ['http://o.test', '/%7eu', true, '/~u/a', '', '/a'],
    ['http://o.test', '/%7eu', true, '/%7Eu/a', '', '/a'],
    ['http://o.test', '/%7eu', false, '/%7eu/a', '', '/%7eu/a'],
    ['http://o.test', '/%c3%a9', true, '/%C3%a9/%61', '?%61', '/%61?%61'],
    // Unchanged, including dot segments.
    ['http://o.test', '/', false, '/a/../b/./%7e', '?', '/a/../b/./%7e?'],
    ['http://o.test/base', '/media', true, '/media/a/../%2f', '', '/base/a/../%2f'],
    ['http://o.test/base', '/', false, '/a', '?b', '/base/a?b'],
    ['http://o.test/base/', '/', false, '/a', '', '/base/a'],
    ['http://o.test/base/', '/', false, '/', '', '/base/'],
    ['http://o.test/base', '/media', true, '/media/a', '', '/base/a'],
    ['http://o.test/base', '/media', true, '/media', '', '/base/'],
    ['http://o.test/base', '/', false, '*', '', '*'],
    ['unix:/run/app.sock', '/', false, '/a', '?b', '/a?b'],
    ['unix:/run/app.sock', '/media', true, '/media', '', '/'],
  ])('%s, prefix %s, stripped %s: %s %s', (url, pathPrefix, stripPathPrefix, path, query, want) => {
    const route = routeWith({ originUrl: new URL(url), match: { pathPrefix }, stripPathPrefix });
    expect(originTarget(route, path, query)).toBe(want);
  });
});

it.each([
  ['http://127.0.0.1:3000/base', ['http://127.0.0.1:3000', 'http://localhost:3000']],
  ['http://[::1]', ['http://[::1]', 'http://localhost']],
  ['https://localhost:3443', ['https://localhost:3443', 'https://127.0.0.1:3443', 'https://[::1]:3443']],
  ['http://10.0.0.1:3000', ['http://10.0.0.1:3000']],
  ['http://app:3000', ['http://app:3000']],
  ['unix:/run/app.sock', ['http://localhost']],
])('references of %s to itself begin with %j', (url, names) => {
  const { names: found } = referenceRules(routeWith({ originUrl: new URL(url) }));
  expect([...found]).toEqual(names);
});
