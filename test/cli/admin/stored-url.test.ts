import { describe, expect, it } from 'vitest';
import { withScheme } from '../../../src/cli/admin/stored-url.ts';

describe('withScheme', () => {
  it.each([
    ['https://example.org/a', 'https://example.org/a'],
    ['HTTP://example.org', 'HTTP://example.org'],
    ['example.org/a?b', 'http://example.org/a?b'],
    ['127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['/film.mp4', undefined],
    ['//example.org/film.mp4', undefined],
    ['', undefined],
    ['ftp://example.org/', undefined],
  ])('%j: %s', (text, want) => expect(withScheme(text)).toBe(want));
});
