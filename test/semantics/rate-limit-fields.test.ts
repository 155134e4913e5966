/** The response fields that state a rate limit. */

import { describe, expect, it } from 'vitest';
import { type RateState, rateLimitFields, retryAfter } from '../../src/semantics/rate-limit-fields.ts';
import { parseDictionary } from '../../src/semantics/structured-fields.ts';

describe('the fields of', () => {
  const state = (requests: number, seconds: number, remaining: number, nextSeconds: number): RateState => ({
    requests,
    seconds,
    remaining,
    nextSeconds,
  });
  it.each<[rate: RateState, policy: string, limit: string]>([
    [state(100, 10, 99, 0.1), 'q=100;w=10', 'r=99;t=10'],
    [state(100, 10, 50, 0.1), 'q=100;w=10', 'r=50;t=5'],
    [state(100, 10, 1, 0.1), 'q=100;w=10', 'r=1;t=1'],
    [state(100, 10, 0, 0.05), 'q=100;w=10', 'r=0;t=1'],
    [state(1, 86_400, 0, 86_399.5), 'q=1;w=86400', 'r=0;t=86400'],
    [state(1_000_000, 1, 1_000_000, 0), 'q=1000000;w=1', 'r=1000000;t=1'],
  ])('%j', (rate, policy, limit) => {
    expect(rateLimitFields(rate)).toEqual([
      ['ratelimit-policy', `"rangeway";${policy}`],
      ['ratelimit', `"rangeway";${limit}`],
    ]);
  });

  it('have integers as parameters', () => {
    for (const [, value] of rateLimitFields(state(7, 3, 2, 0.3))) {
      const parameters = value.split(';').slice(1).join(', ');
      const kinds = [...(parseDictionary([parameters]) ?? new Map()).values()].map(({ kind }) => kind);
      expect(kinds).toEqual(['integer', 'integer']);
    }
  });
});

describe('Retry-After', () => {
  it.each([
    [-5, '1'],
    [0, '1'],
    [1, '1'],
    [1000, '1'],
    [1001, '2'],
    [59_999.5, '60'],
  ])('for %f ms is %s', (delayMs, value) => expect(retryAfter(delayMs)).toEqual(['retry-after', value]));
});
