/** Targets and authorities of requests: which are read, and which are refused. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isAuthority, readTarget } from '../../src/listener/receive.ts';

describe('readTarget', () => {
  const read: [method: string, text: string, target: string, authority?: string][] = [
    ['GET', '/', '/'],
    ['GET', '//', '//'],
    ['GET', '/?', '/?'],
    ['GET', '/a?b?c', '/a?b?c'],
    ['GET', '/http://b/', '/http://b/'],
    ['OPTIONS', '*', '*'],
    ['OPTIONS', '/*', '/*'],
    ['GET', 'http://a', '/', 'a'],
    ['GET', 'http://a/', '/', 'a'],
    ['GET', 'hTTp://A:80?b/c', '/?b/c', 'A:80'],
    ['GET', 'http://[::1]:8080/a', '/a', '[::1]:8080'],
    ['OPTIONS', 'http://a', '*', 'a'],
    ['OPTIONS', 'http://a?', '/?', 'a'],
  ];
  it.each(read)('%s %s', (method, text, target, authority) => {
    expect(readTarget(method, text, 'http')).toEqual({ kind: 'target', target, authority });
  });

  const refused: readonly (readonly [method: string, text: string])[] = [
    ['GET', ''],
    ['GET', '*'],
    ['POST', '*'],
    ['OPTIONS', '**'],
    ['GET', 'a'],
    ['GET', 'a:80'],
    ['GET', '?a'],
    ['GET', '/ '],
    ['GET', '/\n'],
    ['GET', '/\u00e4'],
    ['GET', '/\u{1f600}'],
    ['GET', '/#'],
    ['GET', 'http:/a'],
    ['GET', 'http:a'],
    ['GET', 'http://'],
    ['GET', 'http:///'],
    ['GET', 'http://?a'],
    ['GET', 'http://a@b/'],
    ['GET', 'http://a\\b/'],
    ['GET', 'https://a/'],
    ['GET', 'ws://a/'],
  ];
  it.each(refused)('%s %j is refused', (method, text) => {
    expect(readTarget(method, text, 'http')).toMatchObject({ kind: 'refused' });
  });

  it('returns only targets of visible characters without a fragment', () => {
    fc.assert(
      fc.property(fc.constantFrom('/', 'http://a', ''), fc.string({ unit: 'binary', maxLength: 8 }), (start, rest) => {
        const reading = readTarget('GET', start + rest, 'http');
        if (reading.kind === 'target') expect(reading.target).toMatch(/^\/[!"$-~]*$/);
      }),
    );
  });
});

describe('isAuthority', () => {
  it.each([
    'a',
    'A.b-c_d~e',
    'a.',
    'a:',
    'a:0',
    'a:65535',
    '127.0.0.1',
    '127.0.0.1:80',
    '[::1]',
    '[::ffff:127.0.0.1]:80',
    '[v1.abc]',
    '[V1F.a:b]:8080',
    'xn--bcher-kva.example',
    'a%20b',
    "a!$&'()*+,;=",
  ])('%s', (text) => {
    expect(isAuthority(text)).toBe(true);
  });

  it.each([
    '',
    ':80',
    ' a',
    'a ',
    'a b',
    'a/b',
    'a?b',
    'a#b',
    'a@b',
    'a\\b',
    'a:b',
    'a:-1',
    'a:65536',
    'a:000080',
    'a:80:80',
    'a%2',
    'a%gg',
    '[]',
    '[::1',
    '::1',
    '[::1]a',
    '[1.2.3.4]',
    '[::1%25eth0]',
    '[v.x]',
    '[v1.]',
    '[v1]',
    '[vg.x]',
    '[v1.x/y]',
    '[v1.x%20]',
    '[v1.x]y',
    'b\u00fccher.example',
  ])('%j is no authority', (text) => {
    expect(isAuthority(text)).toBe(false);
  });
});
