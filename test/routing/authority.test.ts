/** The normal form of authorities. */

import { describe, expect, it } from 'vitest';
import { hostOf, normaliseAuthority, portOf } from '../../src/routing/target.ts';

describe('normaliseAuthority', () => {
  it.each<[string, 'http' | 'https', string | undefined]>([
    ['example.org', 'http', 'example.org'],
    ['EXAMPLE.Org', 'http', 'example.org'],
    ['example.org:80', 'http', 'example.org'],
    ['example.org:443', 'http', 'example.org:443'],
    ['example.org:443', 'https', 'example.org'],
    ['example.org:80', 'https', 'example.org:80'],
    ['example.org:', 'https', 'example.org'],
    ['example.org:0080', 'http', 'example.org'],
    ['example.org:08080', 'http', 'example.org:8080'],
    ['example.org:65535', 'http', 'example.org:65535'],
    ['example.org.', 'http', 'example.org.'],
    ['a_b-c.example', 'http', 'a_b-c.example'],
    ['127.0.0.1:8080', 'http', '127.0.0.1:8080'],
    ['[::1]', 'http', '[::1]'],
    ['[2001:DB8::A]:80', 'http', '[2001:db8::a]'],
    ['[::ffff:127.0.0.1]:81', 'http', '[::ffff:127.0.0.1]:81'],
    ['', 'http', undefined],
    [':80', 'http', undefined],
    ['example.org:0', 'http', undefined],
    ['example.org:65536', 'http', undefined],
    ['example.org:123456', 'http', undefined],
    ['example.org:-1', 'http', undefined],
    ['example.org:80:80', 'http', undefined],
    ['example.org:http', 'http', undefined],
    ['user@example.org', 'http', undefined],
    ['example.org/a', 'http', undefined],
    ['example.org?a', 'http', undefined],
    ['example.org#a', 'http', undefined],
    ['example.org, other.org', 'http', undefined],
    ['example org', 'http', undefined],
    [' example.org', 'http', undefined],
    ['ex%61mple.org', 'http', undefined],
    ['exämple.org', 'http', undefined],
    ['example.org\n', 'http', undefined],
    ['::1', 'http', undefined],
    ['[::1', 'http', undefined],
    ['[]', 'http', undefined],
    ['[1:2]', 'http', undefined],
    ['[fe80::1%25eth0]', 'http', undefined],
    ['[v1.A:b]:80', 'http', '[v1.a:b]'],
    ['[V1.a]:8080', 'http', '[v1.a]:8080'],
    ['[v1.]', 'http', undefined],
    ['[v1.a@b]', 'http', undefined],
    ['[v1.a%20]', 'http', undefined],
    ['[::1]a', 'http', undefined],
  ])('%j over %s', (authority, scheme, want) => {
    expect(normaliseAuthority(authority, scheme)).toBe(want);
    if (want !== undefined) expect(normaliseAuthority(want, scheme)).toBe(want);
  });
});

describe('the parts of an authority', () => {
  it.each<[string, string, number]>([
    ['example.org', 'example.org', 443],
    ['example.org:8080', 'example.org', 8080],
    ['[::1]', '[::1]', 443],
    ['[::1]:8080', '[::1]', 8080],
    ['', '', 443],
  ])('%j', (authority, host, port) => {
    expect(hostOf(authority)).toBe(host);
    expect(portOf(authority, 'https')).toBe(port);
  });
});
