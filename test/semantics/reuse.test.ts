import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FreshnessPolicy } from '../../src/semantics/freshness.ts';
import { decideReuse, type ReuseDecision } from '../../src/semantics/reuse.ts';
import { fieldsOf, sentAt, sentDate, storedWith } from '../support/fields-of.ts';

const policy: FreshnessPolicy = { defaultTtlSeconds: 0, rangeReuseSeconds: 60 };

interface Case {
  readonly response: readonly string[];
  readonly request?: readonly string[];
  readonly hasRange?: boolean;
  readonly ageSeconds: number;
  readonly policy?: Partial<FreshnessPolicy>;
}

function decide({ response, request = [], hasRange = false, ageSeconds, policy: own = {} }: Case): ReuseDecision {
  return decideReuse({
    requestFields: fieldsOf(...request),
    hasRange,
    stored: storedWith([`Date: ${sentDate}`, ...response]),
    now: sentAt + ageSeconds * 1000,
    policy: { ...policy, ...own },
  });
}

/** A decision in short: `fresh 50`, `stale -10`, `validate stale -10`, with `!` where it must not be served stale. */
function inShort(decision: ReuseDecision): string {
  const seconds = decision.ttlMs / 1000;
  if (decision.kind !== 'validate') return `${decision.kind} ${seconds}`;
  return `validate ${decision.reason} ${seconds}${decision.mayServeStale ? '' : '!'}`;
}

describe('decideReuse by the response, RFC 9111 §4, §5.2.2', () => {
  const rows: readonly (readonly [cacheControl: string, ageSeconds: number, decision: string])[] = [
    ['max-age=60', 10, 'fresh 50'],
    ['max-age=60', 59.999, 'fresh 0.001'],
    // Fresh is a lifetime greater than the age, §4.2.
    ['max-age=60', 60, 'validate stale 0'],
    ['max-age=60', 70, 'validate stale -10'],
    ['max-age=0', 0, 'validate stale 0'],
    ['max-age=abc', 0, 'validate stale 0'],
    ['s-maxage=60, max-age=1', 10, 'fresh 50'],
    ['s-maxage=60', 70, 'validate stale -10!'],
    ['max-age=60, must-revalidate', 10, 'fresh 50'],
    ['max-age=60, must-revalidate', 70, 'validate stale -10!'],
    ['max-age=60, proxy-revalidate', 70, 'validate stale -10!'],
    ['no-cache, max-age=60', 10, 'validate no-cache 50!'],
    ['no-cache="x", max-age=60', 10, 'fresh 50'],
    ['no-cache', 10, 'validate no-cache -10!'],
    // Brought by a 304 after the response was stored.
    ['private, max-age=60', 10, 'validate no-cache 50!'],
    ['no-store, max-age=60', 10, 'validate no-cache 50!'],
    ['no-store, must-understand, max-age=60', 10, 'fresh 50'],
  ];
  it.each(rows)('%s at %d s: %s', (cacheControl, ageSeconds, decision) => {
    expect(inShort(decide({ response: [`Cache-Control: ${cacheControl}`], ageSeconds }))).toBe(decision);
  });
});

describe('decideReuse by the request, RFC 9111 §5.2.1', () => {
  const rows: readonly (readonly [request: string, ageSeconds: number, decision: string])[] = [
    ['Cache-Control: no-cache', 10, 'validate request 50!'],
    ['Pragma: no-cache', 10, 'validate request 50!'],
    ['Cache-Control: no-store', 10, 'fresh 50'],
    ['Cache-Control: only-if-cached', 10, 'fresh 50'],
    ['Cache-Control: max-age=0', 10, 'validate request 50'],
    ['Cache-Control: max-age=0', 0, 'validate request 60'],
    ['Cache-Control: max-age=20', 10, 'fresh 50'],
    ['Cache-Control: max-age=5', 10, 'validate request 50'],
    ['Cache-Control: min-fresh=50', 10, 'fresh 50'],
    ['Cache-Control: min-fresh=51', 10, 'validate request 50'],
    ['Cache-Control: min-fresh=abc', 10, 'validate request 50'],
    ['Cache-Control: max-stale', 10, 'fresh 50'],
    ['Cache-Control: max-stale', 1000, 'stale -940'],
    ['Cache-Control: max-stale=10', 70, 'stale -10'],
    ['Cache-Control: max-stale=10', 71, 'validate stale -11'],
    ['Cache-Control: max-stale=abc', 61, 'validate stale -1'],
    ['Cache-Control: max-stale=10, max-age=65', 64, 'stale -4'],
    ['Cache-Control: max-stale=10, max-age=65', 66, 'validate request -6'],
    ['Cache-Control: max-stale=10, min-fresh=1', 61, 'validate stale -1'],
    ['Cache-Control: max-stale, no-cache', 10, 'validate request 50!'],
  ];
  it.each(rows)('%s at %d s of max-age=60: %s', (request, ageSeconds, decision) => {
    expect(inShort(decide({ response: ['Cache-Control: max-age=60'], request: [request], ageSeconds }))).toBe(decision);
  });

  it.each(['must-revalidate', 'proxy-revalidate', 's-maxage=60'])('§4.2.4: max-stale does not lift %s', (directive) => {
    const response = [`Cache-Control: max-age=60, ${directive}`];
    const decision = decide({ response, request: ['Cache-Control: max-stale'], ageSeconds: 61 });
    expect(inShort(decision)).toBe('validate stale -1!');
  });
});

describe('decideReuse where nobody gives a lifetime', () => {
  interface Row extends Omit<Case, 'response'> {
    readonly name: string;
    readonly response?: readonly string[];
    readonly decision: string;
  }
  const rows: readonly Row[] = [
    { name: 'a plain request', ageSeconds: 1, decision: 'validate stale -1' },
    { name: 'a Range request', hasRange: true, ageSeconds: 1, decision: 'fresh 59' },
    { name: 'a Range request too late', hasRange: true, ageSeconds: 60, decision: 'validate stale 0' },
    { name: 'with a validator', hasRange: true, response: ['ETag: "a"'], ageSeconds: 1, decision: 'fresh 59' },
    {
      name: 'a Range request that reloads',
      hasRange: true,
      request: ['Cache-Control: no-cache'],
      ageSeconds: 1,
      decision: 'validate request 59!',
    },
    {
      name: 'a Range request with max-age',
      hasRange: true,
      request: ['Cache-Control: max-age=5'],
      ageSeconds: 6,
      decision: 'validate request 54',
    },
    {
      name: 'the origin says no-cache',
      hasRange: true,
      response: ['Cache-Control: no-cache'],
      ageSeconds: 1,
      decision: 'validate no-cache 59!',
    },
    {
      name: 'the origin says stale',
      hasRange: true,
      response: ['Cache-Control: max-age=0'],
      ageSeconds: 1,
      decision: 'validate stale -1',
    },
    {
      name: 'the origin says expired',
      hasRange: true,
      response: ['Expires: 0'],
      ageSeconds: 1,
      decision: 'validate stale -1',
    },
    { name: 'the operator gives a default', ageSeconds: 1, policy: { defaultTtlSeconds: 300 }, decision: 'fresh 299' },
    {
      name: 'a default, and Range',
      hasRange: true,
      ageSeconds: 1,
      policy: { defaultTtlSeconds: 30 },
      decision: 'fresh 29',
    },
    {
      name: 'no reuse by policy',
      hasRange: true,
      ageSeconds: 1,
      policy: { rangeReuseSeconds: 0 },
      decision: 'validate stale -1',
    },
    {
      name: 'a heuristic, and Range',
      hasRange: true,
      response: [`Last-Modified: ${sentDate}`],
      ageSeconds: 1,
      decision: 'validate stale -1',
    },
  ];
  it.each(rows)('$name: $decision', ({ decision, response = [], ...rest }) => {
    expect(inShort(decide({ response, ...rest }))).toBe(decision);
  });
});

describe('decideReuse, any directives', () => {
  const said = fc.array(
    fc.constantFrom('max-age=60', 'max-age=x', 'no-cache', 'must-revalidate', 's-maxage=30', 'public'),
  );
  const asked = fc.array(fc.constantFrom('max-stale', 'max-stale=10', 'max-age=30', 'min-fresh=10', 'no-cache', 'foo'));
  const cases = fc.record({ said, asked, ageSeconds: fc.integer({ min: 0, max: 120 }), hasRange: fc.boolean() });
  const cacheControl = (directives: readonly string[]) =>
    directives.length === 0 ? [] : [`Cache-Control: ${directives.join(', ')}`];
  const staleForbidden = /no-cache|must-revalidate|s-maxage/;

  function decideCase(row: { said: string[]; asked: string[]; ageSeconds: number; hasRange: boolean }): ReuseDecision {
    return decide({ ...row, response: cacheControl(row.said), request: cacheControl(row.asked) });
  }

  it('calls fresh only what has lifetime left', () => {
    fc.assert(
      fc.property(cases, (row) => {
        const decision = decideCase(row);
        fc.pre(decision.kind === 'fresh');
        expect(decision.ttlMs).toBeGreaterThan(0);
      }),
    );
  });

  it('uses nothing without validation where either side says no-cache', () => {
    fc.assert(
      fc.property(cases, (row) => {
        fc.pre(row.said.includes('no-cache') || row.asked.includes('no-cache'));
        expect(decideCase(row).kind).toBe('validate');
      }),
    );
  });

  it('allows nothing stale where the origin forbids it, or to a client that did not ask', () => {
    fc.assert(
      fc.property(cases, (row) => {
        const decision = decideCase(row);
        const isForbidden = staleForbidden.test(row.said.join());
        if (decision.kind === 'stale')
          expect([isForbidden, row.asked.join().includes('max-stale')]).toEqual([false, true]);
        if (decision.kind === 'validate') expect(decision.mayServeStale && isForbidden).toBe(false);
      }),
    );
  });
});
