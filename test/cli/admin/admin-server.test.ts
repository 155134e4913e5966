import { describe, expect, it } from 'vitest';
import { formatAdminPlace, parseAdminPlace } from '../../../src/cli/admin/flags.ts';

describe('parseAdminPlace', () => {
  it.each<[text: string, want: string | undefined]>([
    ['9180', 'http://127.0.0.1:9180'],
    ['localhost:9180', 'http://localhost:9180'],
    ['10.0.0.7:9180', 'http://10.0.0.7:9180'],
    ['[::1]:9180', 'http://[::1]:9180'],
    ['http://a.example:9180', 'http://a.example:9180'],
    ['https://a.example/rangeway/', 'https://a.example/rangeway'],
    ['unix:/run/admin.sock', 'unix:/run/admin.sock'],
    ['unix:admin.sock', 'unix:admin.sock'],
    ['unix:', undefined],
    ['0', undefined],
    ['70000', undefined],
    ['systemd', undefined],
    ['a.example', undefined],
    ['ftp://a.example', undefined],
    ['http://', undefined],
    ['http://a:b@c.example', undefined],
    ['http://a.example/?x', undefined],
    ['', undefined],
  ])('%s: %s', (text, want) => {
    const place = parseAdminPlace(text);
    expect(place && formatAdminPlace(place)).toBe(want);
  });
});
