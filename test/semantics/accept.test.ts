import { describe, expect, it } from 'vitest';
import { parseAccept, weightOf } from '../../src/semantics/accept.ts';

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

describe('Accept (RFC 9110 §12.5.1)', () => {
  it.each<[string | undefined, string, number]>([
    [undefined, 'text/plain', 1],
    ['', 'text/plain', 1],
    [' , ', 'text/plain', 1],
    ['text/plain', 'text/plain', 1],
    ['text/plain', 'text/html', 0],
    ['TEXT/Plain', 'text/plain', 1],
    ['text/*', 'text/plain', 1],
    ['text/*', 'application/json', 0],
    ['*/*', 'application/json', 1],
    ['text/*;q=0.3, text/plain;q=0.7, */*;q=0.5', 'text/plain', 0.7],
    ['text/*;q=0.3, text/plain;q=0.7, */*;q=0.5', 'text/html', 0.3],
    ['text/*;q=0.3, text/plain;q=0.7, */*;q=0.5', 'image/png', 0.5],
    ['*/*, text/plain;q=0', 'text/plain', 0],
    ['text/plain; q=0.5', 'text/plain', 0.5],
    ['text/plain\t;\tQ=0.5', 'text/plain', 0.5],
    ['text/plain;charset=utf-8;q=0.5', 'text/plain', 0.5],
    ['text/plain;format=flowed', 'text/plain', 1],
    ['text/plain;q=0.5;ext=1', 'text/plain', 0.5],
    ['text/plain;q=0.2, text/plain;level=1;q=0.6', 'text/plain', 0.6],
    ['text/plain;q=0.', 'text/plain', 0],
    ['text/plain;q=1.000', 'text/plain', 1],
    // Malformed members are ignored.
    ['text/plain;q=2, */*;q=0.1', 'text/plain', 0.1],
    ['text/plain;q=-1, */*;q=0.1', 'text/plain', 0.1],
    ['text/plain;q=0.1234, */*;q=0.1', 'text/plain', 0.1],
    ['text/plain;q=x, */*;q=0.1', 'text/plain', 0.1],
    ['text/plain;q=, */*;q=0.1', 'text/plain', 0.1],
    ['text, */*;q=0.1', 'text/plain', 0.1],
    ['text', 'text/plain', 1],
    [browser, 'text/html', 1],
    [browser, 'application/problem+json', 0.8],
  ])('%j: the weight of %s is %s', (value, type, weight) => {
    expect(weightOf(type, parseAccept(value))).toBe(weight);
  });

  it('is parsed in linear time', () => {
    const value = `text/plain;${' '.repeat(100_000)}q=0.5${',;='.repeat(30_000)}`;
    expect(weightOf('text/plain', parseAccept(value))).toBe(0.5);
  });
});
