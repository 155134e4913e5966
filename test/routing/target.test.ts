/** The normal form of request targets, and other readings of their paths. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  hasHiddenDotDot,
  hasOneReading,
  mayLeavePrefix,
  normaliseTarget,
  pathReadings,
  splitTarget,
} from '../../src/routing/target.ts';

describe('normaliseTarget', () => {
  it.each([
    // already normal
    ['/', '/', ''],
    ['/a/b.mp4', '/a/b.mp4', ''],
    ['/a?b=c&b=d', '/a', '?b=c&b=d'],
    ['/A/b', '/A/b', ''],
    ['//a//b//', '//a//b//', ''],
    ['/a;x=1/b', '/a;x=1/b', ''],
    ['/a?', '/a', '?'],
    ['/a??x?', '/a', '??x?'],
    ['/?b&a', '/', '?b&a'],
    ['*', '*', ''],
    ['', '', ''],
    // percent-encoding
    ['/%2f', '/%2F', ''],
    ['/%41%5a%61%7A%30%39%2D%2e%5f%7e', '/AZaz09-._~', ''],
    ['/%20%3f%25%c3%a9', '/%20%3F%25%C3%A9', ''],
    ['/a%3Fb?c', '/a%3Fb', '?c'],
    ['/a?%61%2f%3d', '/a', '?a%2F%3D'],
    ['/%2541', '/%2541', ''],
    // percent signs that begin nothing
    ['/%', '/%', ''],
    ['/%4', '/%4', ''],
    ['/%zz%41', '/%zzA', ''],
    ['/%%34%31', '/%%341', ''],
    ['/%%341', '/%%341', ''],
    ['/%4%31', '/%4%31', ''],
    ['/%4%2f', '/%4%2F', ''],
    ['/%?%', '/%', '?%'],
    // dot segments
    ['/.', '/', ''],
    ['/..', '/', ''],
    ['/a/.', '/a/', ''],
    ['/a/..', '/', ''],
    ['/a/./b', '/a/b', ''],
    ['/a/b/../c', '/a/c', ''],
    ['/a/b/../../../c', '/c', ''],
    ['/../../a', '/a', ''],
    ['/a//../b', '/a/b', ''],
    ['/a/%2e%2E/b', '/b', ''],
    ['/a/.%2e/b', '/b', ''],
    ['/a/%2e/b', '/a/b', ''],
    ['/a/..%2fb', '/a/..%2Fb', ''],
    ['/a/.../b', '/a/.../b', ''],
    ['/a/.b/..c', '/a/.b/..c', ''],
    ['/a/..;/b', '/a/..;/b', ''],
    ['/.//a', '//a', ''],
    ['/a?/../b', '/a', '?/../b'],
    ['/a?%2e%2e', '/a', '?..'],
    // not a path
    ['a/../b', 'a/../b', ''],
    ['/\ud800', '/\ud800', ''],
  ])('%j', (target, path, query) => {
    expect(normaliseTarget(target)).toEqual({ path, query });
  });

  const pieces = fc.constantFrom(
    '/',
    '.',
    '..',
    '%',
    '%2',
    '%2e',
    '%2E',
    '%2f',
    '%41',
    '%25',
    '4',
    '1',
    'e',
    '?',
    '&',
    'é',
  );
  const targets = fc.array(pieces, { maxLength: 16 }).map((parts) => `/${parts.join('')}`);

  it('does not change its own results', () => {
    fc.assert(
      fc.property(targets, (target) => {
        const { path, query } = normaliseTarget(target);
        expect(normaliseTarget(path + query)).toEqual({ path, query });
      }),
      { numRuns: 2000 },
    );
  });

  it('leaves no dot segment in a path', () => {
    fc.assert(
      fc.property(targets, (target) => {
        expect(normaliseTarget(target).path.split('/')).not.toContain('..');
        expect(normaliseTarget(target).path.split('/')).not.toContain('.');
      }),
      { numRuns: 2000 },
    );
  });

  it('gives one form to all encodings of a character that needs none', () => {
    const character = fc.constantFrom(...'azAZ09-._~/!$=+');
    const choices = fc.array(fc.tuple(character, fc.constantFrom('plain', 'lower', 'upper')), { maxLength: 12 });
    fc.assert(
      fc.property(choices, (chosen) => {
        const encode = ([plain, how]: readonly [string, string]): string => {
          if (how === 'plain' || !/[\w.~-]/.test(plain)) return plain;
          const digits = plain.charCodeAt(0).toString(16);
          return `%${how === 'lower' ? digits : digits.toUpperCase()}`;
        };
        const plain = normaliseTarget(`/${chosen.map(([character]) => character).join('')}`);
        expect(normaliseTarget(`/${chosen.map(encode).join('')}`)).toEqual(plain);
      }),
    );
  });

  it('agrees with the URL parser on paths that both understand', () => {
    const segments = fc.array(fc.constantFrom('a', 'b%20c', '.', '..', '%2e', '', 'd;e'), { maxLength: 8 });
    fc.assert(
      fc.property(segments, (parts) => {
        const target = `/${parts.join('/')}`;
        expect(normaliseTarget(target).path).toBe(new URL(`http://a.test${target}`).pathname);
      }),
    );
  });
});

describe('hidesStepUp', () => {
  it.each([
    ['/a/..%2fb', true],
    ['/a%2F..%2Fb', true],
    ['/a/%2e%2e%2Fb', true],
    ['/a%2F%2e%2e', true],
    ['/a%2F../b', true],
    ['/a/..%5cb', true],
    ['/a/..\\b', true],
    ['/a\\..', true],
    ['/a/..;/b', true],
    ['/a/..;x=1', true],
    ['/a/..;', true],
    ['/a/..%3bb', true],
    ['/a/..%2fb/../c', true],
    ['/a/../b', false],
    ['/a/..', false],
    ['/a/%2e%2e/b', false],
    ['/a/..b', false],
    ['/a/b..', false],
    ['/a/b..%2Fc', false],
    ['/a%2F..b', false],
    ['/a/...', false],
    ['/a/...%2Fb', false],
    ['/a/.%2Fb', false],
    ['/a/%252e%252e%252fb', false],
    ['/a?x=/..%2Fb', false],
    ['/a;../b', false],
    ['*', false],
  ])('%s: %s', (target, want) => expect(hasHiddenDotDot(splitTarget(target).path)).toBe(want));
});

describe('pathReadings', () => {
  it.each<[path: string, readings: string[]]>([
    ['/', ['/']],
    ['/a.b/.c', ['/a.b/.c']],
    ['/a%20b', ['/a%20b']],
    ['*', ['*']],
    // Characters that are encoded needlessly.
    ['/%7ea', ['/~a', '/%7Ea']],
    ['/%c3%a9', ['/%C3%A9']],
    // Dot segments, kept or removed, before or after decoding.
    ['/a/../b', ['/b', '/a/../b']],
    ['/a/./b', ['/a/b', '/a/./b']],
    ['/%61/../b', ['/b', '/%61/../b', '/a/../b']],
    ['/a/%2e%2e/b', ['/b', '/a/%2E%2E/b', '/a/../b']],
    // Readings of the most lenient origins.
    ['//a', ['//a', '/a']],
    ['//', ['//', '/']],
    ['/a%2fb', ['/a%2Fb', '/a/b']],
    ['/a\\b', ['/a\\b', '/a/b']],
    ['/%5ca', ['/%5Ca', '//a', '/a']],
    ['/.%2fa', ['/.%2Fa', '/./a', '/a']],
    ['/a;x/b', ['/a;x/b', '/a/b']],
    ['/a%3bx', ['/a%3Bx', '/a']],
    ['/.;/a', ['/.;/a', '/./a', '/a']],
    ['/a//../b', ['/a/b', '/a//../b', '/a/../b', '/b']],
  ])('%s', (path, readings) => {
    const [normal] = readings;
    const found = pathReadings(path);
    expect(found[0]).toBe(normal);
    expect(found.toSorted()).toEqual(readings.toSorted());
  });

  it('are only the path itself where `hasOneReading` holds', () => {
    const path = fc.array(fc.constantFrom('a', '.', '/', '%2F', '%41', '\\', ';'), { maxLength: 8 });
    fc.assert(
      fc.property(path, (parts) => {
        const text = `/${parts.join('')}`;
        if (hasOneReading(text)) expect(pathReadings(text)).toEqual([text]);
      }),
    );
  });
});

describe('stepsOut', () => {
  it.each<[path: string, prefix: string, want: boolean]>([
    ['/a/../b', '/', false],
    ['/a/..', '/', false],
    ['/..', '/', true],
    ['/../a', '/', true],
    ['/%2e%2E/a', '/', true],
    ['/a/../../b', '/', true],
    ['/a/../../a', '/', true],
    ['/./../a', '/', true],
    // Segments that some origins ignore.
    ['/a//../../b', '/', true],
    ['//../b', '/', true],
    ['/;x/../b', '/', true],
    ['/.;x/../b', '/', true],
    ['/%2F/../b', '/', true],
    ['/a%2Fb/../../c', '/', true],
    ['/a;x/../b', '/', false],
    // The prefix of a route.
    ['/media/a/../b', '/media', false],
    ['/media/../media/b', '/media', true],
    ['/media/..', '/media', true],
    ['/media/a/..', '/media/', false],
    ['/media/../a', '/media/', true],
    ['/media/a/b/../../../a', '/media', true],
    ['/a..b/..c', '/', false],
    ['*', '/', false],
  ])('%s below %s: %s', (path, prefix, want) => expect(mayLeavePrefix(path, prefix)).toBe(want));
});
