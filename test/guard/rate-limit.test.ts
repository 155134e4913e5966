/** Request rates: a request is allowed or refused at once. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideRate, RateLimit, type RateRules } from '../../src/guard/limits/rate-limit.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';

const rules: RateRules = { requests: 60, seconds: 60, burst: 5 };

describe('a request', () => {
  it.each<[owedMs: number, isAllowed: boolean, remaining: number, nextMs: number]>([
    [0, true, 4, 1000],
    [1000, true, 3, 1000],
    [500, true, 3, 500],
    [3999, true, 0, 999],
    [4000, true, 0, 1000],
    [4001, false, 0, 1],
    [4500, false, 0, 500],
    [5000, false, 0, 1000],
    [9000, false, 0, 5000],
  ])('of a client that owes %i ms: allowed %s, %i more at once, the next one in %i ms', (owedMs, ...want) => {
    const { isAllowed, remaining, nextMs } = decideRate(rules, owedMs);
    expect([isAllowed, remaining, Math.round(nextMs)]).toEqual(want);
  });
});

interface Attempt {
  readonly isAllowed: boolean;
  readonly fields: { readonly ratelimit?: string; readonly 'retry-after'?: string };
}

function createLimit(rateRules: RateRules) {
  const clock = { ms: 0 };
  const limit = new RateLimit(rateRules, { maxNames: 100, now: () => clock.ms });
  const attempt = (client = 'a'): Attempt => {
    try {
      return { isAllowed: true, fields: Object.fromEntries(limit.count(client)) };
    } catch (thrown) {
      if (!(thrown instanceof ProxyError) || thrown.code !== 'rate_limited') throw thrown;
      return { isAllowed: false, fields: Object.fromEntries(thrown.fields) };
    }
  };
  return { clock, attempt };
}

describe('a client', () => {
  it('gets a burst at once, then requests at the rate, and fields that state what is left', () => {
    const { clock, attempt } = createLimit(rules);
    const policy = '"rangeway";q=60;w=60';
    expect(attempt()).toEqual({
      isAllowed: true,
      fields: { 'ratelimit-policy': policy, ratelimit: '"rangeway";r=4;t=4' },
    });
    for (const remaining of [3, 2, 1, 0]) {
      expect(attempt().fields.ratelimit).toBe(`"rangeway";r=${remaining};t=${Math.max(1, remaining)}`);
    }
    clock.ms += 300;
    const refused = { 'retry-after': '1', 'ratelimit-policy': policy, ratelimit: '"rangeway";r=0;t=1' };
    expect(attempt()).toEqual({ isAllowed: false, fields: refused });
    clock.ms += 700;
    expect([attempt().isAllowed, attempt().isAllowed]).toEqual([true, false]);
  });

  it('gets no further into debt by refused requests', () => {
    const { clock, attempt } = createLimit({ requests: 1, seconds: 10, burst: 1 });
    expect(attempt().isAllowed).toBe(true);
    for (let ms = 0; ms < 9999; ms += 1) {
      clock.ms += 1;
      expect(attempt()).toMatchObject({
        isAllowed: false,
        fields: { 'retry-after': `${Math.ceil((10_000 - clock.ms) / 1000)}` },
      });
    }
    clock.ms += 1;
    expect(attempt().isAllowed).toBe(true);
  });

  it('does not use up the rate of another client', () => {
    const { attempt } = createLimit({ requests: 1, seconds: 60, burst: 1 });
    expect([attempt('a').isAllowed, attempt('a').isAllowed, attempt('b').isAllowed]).toEqual([true, false, true]);
  });

  it('is admitted after Retry-After, and never gets more than the burst and the rate', () => {
    const some = fc.record({
      requests: fc.integer({ min: 1, max: 1000 }),
      seconds: fc.integer({ min: 1, max: 3600 }),
      burst: fc.integer({ min: 1, max: 50 }),
    });
    fc.assert(
      fc.property(some, fc.array(fc.nat(5000), { maxLength: 150 }), (of, pauses) => {
        const { clock, attempt } = createLimit(of);
        let allowed = 0;
        for (const pause of pauses) {
          clock.ms += pause;
          if (attempt().isAllowed) allowed += 1;
          const ceiling = of.burst + (clock.ms / 1000) * (of.requests / of.seconds);
          expect(allowed).toBeLessThanOrEqual(ceiling + 1e-3);
        }
        const { isAllowed, fields } = attempt();
        if (!isAllowed) {
          clock.ms += Number(fields['retry-after']) * 1000;
          expect(attempt().isAllowed).toBe(true);
        }
      }),
    );
  });
});
