import { describe, expect, it } from 'vitest';
import { type CacheStatus, formatCacheStatus, withCacheStatus } from '../../src/semantics/cache-status.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('formatCacheStatus, RFC 9211 §2', () => {
  const rows: readonly (readonly [status: CacheStatus, member: string])[] = [
    [{}, 'rangeway'],
    [{ hit: true }, 'rangeway; hit'],
    [{ hit: true, ttlSeconds: 376 }, 'rangeway; hit; ttl=376'],
    [{ hit: true, ttlSeconds: -412 }, 'rangeway; hit; ttl=-412'],
    [{ hit: true, ttlSeconds: 1.9 }, 'rangeway; hit; ttl=1'],
    [{ hit: true, ttlSeconds: -0.5 }, 'rangeway; hit; ttl=-1'],
    [{ hit: true, ttlSeconds: -0 }, 'rangeway; hit; ttl=0'],
    [{ hit: true, ttlSeconds: Number.NaN }, 'rangeway; hit; ttl=0'],
    [{ hit: true, ttlSeconds: Number.POSITIVE_INFINITY }, 'rangeway; hit; ttl=999999999999999'],
    [{ hit: false, fwd: 'uri-miss', stored: false }, 'rangeway; fwd=uri-miss'],
    [{ fwd: 'uri-miss', fwdStatus: 200, stored: true }, 'rangeway; fwd=uri-miss; fwd-status=200; stored'],
    [{ fwd: 'uri-miss', collapsed: true }, 'rangeway; fwd=uri-miss; collapsed'],
    [{ fwd: 'uri-miss', collapsed: false }, 'rangeway; fwd=uri-miss; collapsed=?0'],
    [{ fwd: 'stale', fwdStatus: 304, ttlSeconds: 60 }, 'rangeway; fwd=stale; fwd-status=304; ttl=60'],
    // `hit` and `fwd` exclude each other, §2.2.
    [{ hit: true, fwd: 'stale' }, 'rangeway; hit'],
    // A detail is a token or a string, §2.8.
    [{ fwd: 'uri-miss', detail: 'set-cookie' }, 'rangeway; fwd=uri-miss; detail=set-cookie'],
    [{ detail: 'two words' }, 'rangeway; detail="two words"'],
    [{ detail: '' }, 'rangeway; detail=""'],
    [{ detail: '5xx' }, 'rangeway; detail="5xx"'],
    [{ detail: 'a "b" \\c' }, 'rangeway; detail="a \\"b\\" \\\\c"'],
    [{ detail: 'a\r\nSet-Cookie: b=ü' }, 'rangeway; detail="a??Set-Cookie: b=?"'],
  ];
  it.each(rows)('%j', (status, member) => {
    expect(formatCacheStatus(status)).toBe(member);
  });

  it.each([
    ['edge-1', 'edge-1; hit'],
    ['cache.example.net:8080', 'cache.example.net:8080; hit'],
    ['10.0.0.1', '"10.0.0.1"; hit'],
    ['My Company', '"My Company"; hit'],
  ])('formats the name %s', (name, member) => {
    expect(formatCacheStatus({ hit: true }, name)).toBe(member);
  });
});

describe('withCacheStatus, RFC 9211 §2', () => {
  it('adds its member after those of caches closer to the origin', () => {
    const fields = fieldsOf('Cache-Status: origin-cache; hit', 'X: 1');
    expect(withCacheStatus(fields, 'rangeway; hit')).toEqual(
      fieldsOf('Cache-Status: origin-cache; hit', 'X: 1', 'Cache-Status: rangeway; hit'),
    );
  });
});
