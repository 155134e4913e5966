/** The normal form of Accept-Encoding, which is one of eight values. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseAcceptEncoding } from '../../src/semantics/accept.ts';

describe('normaliseAcceptEncoding', () => {
  it.each<[value: string | undefined, want: string]>([
    [undefined, 'identity'],
    ['', 'identity'],
    ['identity', 'identity'],
    ['gzip', 'gzip'],
    ['GZip', 'gzip'],
    ['x-gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'zstd, br, gzip'],
    ['br;q=0.1,gzip;q=1.0', 'br, gzip'],
    ['br ; q=0.001 , gzip\t;\tQ=0', 'br'],
    ['gzip;q=0', 'identity'],
    ['gzip;q=0.000', 'identity'],
    ['deflate, compress, gzipped', 'identity'],
    ['*', 'zstd, br, gzip'],
    ['*;q=0.5', 'zstd, br, gzip'],
    ['*, zstd;q=0', 'br, gzip'],
    ['gzip;q=0, *', 'zstd, br'],
    ['*;q=0', 'identity'],
    ['br, *;q=0', 'br'],
    ['identity;q=0', 'identity'],
    ['gzip, identity;q=0', 'gzip'],
    ['gzip, gzip;q=0', 'identity'],
    ['x-gzip;q=0, gzip', 'identity'],
    ['gzip;q=2', 'identity'],
    ['gzip;q=0.1234', 'identity'],
    ['gzip;q=', 'identity'],
    ['gzip;q=.5', 'identity'],
    ['gzip;level=9', 'identity'],
    ['g zip, "br", ;q=1, zstd', 'zstd'],
    [', ,br,', 'br'],
  ])('%j', (value, want) => expect(normaliseAcceptEncoding(value)).toBe(want));

  it('gives one of eight values, and leaves each of them unchanged', () => {
    const coding = fc.constantFrom('gzip', 'x-gzip', 'br', 'zstd', 'identity', '*', 'deflate', '');
    const weight = fc.constantFrom('', ';q=0', ';q=0.5', ' ; q=1', ';q=x');
    const member = fc.tuple(coding, weight).map((texts) => texts.join(''));
    const seen = new Set<string>();
    fc.assert(
      fc.property(fc.array(member, { maxLength: 5 }), (members) => {
        const value = normaliseAcceptEncoding(members.join(', '));
        seen.add(value);
        expect(normaliseAcceptEncoding(value)).toBe(value);
      }),
      { numRuns: 3000 },
    );
    expect(seen.size).toBe(8);
  });
});
