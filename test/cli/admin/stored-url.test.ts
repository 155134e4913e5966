import { describe, expect, it } from 'vitest';
import { isServedAt, withScheme } from '../../../src/cli/admin/flags.ts';

describe('withScheme', () => {
  it.each([
    ['https://example.org/a', 'https://example.org/a'],
    ['HTTP://example.org', 'HTTP://example.org'],
    ['example.org/a?b', 'http://example.org/a?b'],
    ['127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['/film.mp4', '/film.mp4'],
    ['//example.org/film.mp4', undefined],
    ['', undefined],
    ['ftp://example.org/', undefined],
  ])('%j: %s', (text, want) => expect(withScheme(text)).toBe(want));
});

describe('isServedAt', () => {
  it.each<[url: string, address: string, want: boolean]>([
    ['http://127.0.0.1:8080/a', 'http://127.0.0.1:8080', true],
    ['127.0.0.1:8080', 'http://127.0.0.1:8080', true],
    ['http://localhost:8080/a', 'http://127.0.0.1:8080', true],
    ['http://localhost:8080/a', 'http://[::1]:8080', true],
    ['http://localhost:8080/a', 'http://0.0.0.0:8080', true],
    ['http://[::1]:8080/a', 'http://[::]:8080', true],
    ['http://127.0.0.1/a', 'http://127.0.0.1:80', true],
    ['http://127.0.0.1:8081/a', 'http://127.0.0.1:8080', false],
    ['https://127.0.0.1:8080/a', 'http://127.0.0.1:8080', false],
    ['http://127.0.0.2:8080/a', 'http://127.0.0.1:8080', false],
    ['http://example.org:8080/a', 'http://0.0.0.0:8080', false],
    ['/a', 'http://127.0.0.1:8080', false],
    ['http://127.0.0.1:8080/a', 'unix:/run/a.sock', false],
  ])('%s at %s: %s', (url, address, want) => expect(isServedAt(url, [address])).toBe(want));
});
