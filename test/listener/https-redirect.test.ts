import { describe, expect, it } from 'vitest';
import { httpsLocation } from '../../src/listener/https-redirect.ts';

describe('httpsLocation', () => {
  it.each<[authority: string, target: string, port: number, location: string | undefined]>([
    ['example.org', '/', 443, 'https://example.org/'],
    ['example.org', '/a/../b?c=d&e', 443, 'https://example.org/a/../b?c=d&e'],
    ['example.org', '//evil.example/', 443, 'https://example.org//evil.example/'],
    ['example.org:80', '/', 443, 'https://example.org/'],
    ['Example.org:8080', '/', 443, 'https://example.org/'],
    ['example.org', '/', 8443, 'https://example.org:8443/'],
    ['192.0.2.1:8080', '/', 8443, 'https://192.0.2.1:8443/'],
    ['[2001:db8::1]:8080', '/', 443, 'https://[2001:db8::1]/'],
    ['[::1]', '/x', 8443, 'https://[::1]:8443/x'],
    ['example.org', '*', 443, 'https://example.org'],
    ['', '/', 443, undefined],
    ['a b', '/', 443, undefined],
    ['user@example.org', '/', 443, undefined],
    ['[::1', '/', 443, undefined],
    ['example.org:0', '/', 443, undefined],
    ['example.org:99999', '/', 443, undefined],
    ['exam%70le.org', '/', 443, undefined],
  ])('%s %s, port %i', (authority, target, port, location) => {
    expect(httpsLocation({ authority, target }, port)).toBe(location);
  });
});
