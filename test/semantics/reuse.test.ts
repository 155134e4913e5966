import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decideReuse,
  type ReuseDecision,
  type ReusePolicy,
  type ReuseTerms,
  reuseTerms,
} from '../../src/semantics/reuse.ts';
import { defaultCaching as policy } from '../support/proxies/default-caching.ts';
import { fieldsOf, sentAt, sentDate, storedWith } from '../support/values/fields-of.ts';

interface Case {
  readonly response: readonly string[];
  readonly request?: readonly string[];
  readonly hasRange?: boolean;
  readonly ageSeconds: number;
  readonly policy?: Partial<ReusePolicy>;
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

/**
 * Formats a decision with its remaining lifetime in seconds: `fresh 50`; `stale -10`, with `+` where it is revalidated in the
 * background; `validate stale -10`, with `!` where the response must not be served stale.
 */
function inShort(decision: ReuseDecision): string {
  const seconds = decision.ttlMs / 1000;
  if (decision.kind === 'fresh') return `fresh ${seconds}`;
  if (decision.kind === 'stale') return `stale ${seconds}${decision.isValidated ? '+' : ''}`;
  return `validate ${decision.reason} ${seconds}${decision.serveStaleUntil > 0 ? '' : '!'}`;
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
    // Directives that a 304 added after the response was stored.
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

describe('decideReuse without a stated lifetime', () => {
  interface Row extends Omit<Case, 'response'> {
    readonly name: string;
    readonly response?: readonly string[];
    readonly decision: string;
  }
  const rows: readonly Row[] = [
    { name: 'a plain request', ageSeconds: 1, decision: 'validate stale -1' },
    { name: 'a Range request', hasRange: true, ageSeconds: 1, decision: 'fresh 59' },
    { name: 'a Range request after rangeReuseSeconds', hasRange: true, ageSeconds: 60, decision: 'validate stale 0' },
    {
      name: 'a Range request and a validator',
      hasRange: true,
      response: ['ETag: "a"'],
      ageSeconds: 1,
      decision: 'fresh 59',
    },
    {
      name: 'a Range request with no-cache',
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
      name: 'a Range request and no-cache of the origin',
      hasRange: true,
      response: ['Cache-Control: no-cache'],
      ageSeconds: 1,
      decision: 'validate no-cache 59!',
    },
    {
      name: 'a Range request and max-age=0 of the origin',
      hasRange: true,
      response: ['Cache-Control: max-age=0'],
      ageSeconds: 1,
      decision: 'validate stale -1',
    },
    {
      name: 'a Range request and a past Expires of the origin',
      hasRange: true,
      response: ['Expires: 0'],
      ageSeconds: 1,
      decision: 'validate stale -1',
    },
    { name: 'a configured default', ageSeconds: 1, policy: { defaultTtlSeconds: 300 }, decision: 'fresh 299' },
    {
      name: 'a Range request and a configured default',
      hasRange: true,
      ageSeconds: 1,
      policy: { defaultTtlSeconds: 30 },
      decision: 'fresh 29',
    },
    {
      name: 'a Range request with rangeReuseSeconds 0',
      hasRange: true,
      ageSeconds: 1,
      policy: { rangeReuseSeconds: 0 },
      decision: 'validate stale -1',
    },
    {
      name: 'a Range request and a heuristic lifetime',
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

describe('decideReuse with stale responses, RFC 5861', () => {
  const rows: readonly (readonly [response: string, request: string, ageSeconds: number, decision: string])[] = [
    // §3.
    ['max-age=60, stale-while-revalidate=10', '', 59, 'fresh 1'],
    ['max-age=60, stale-while-revalidate=10', '', 60, 'stale 0+'],
    ['max-age=60, stale-while-revalidate=10', '', 69, 'stale -9+'],
    ['max-age=60, stale-while-revalidate=10', '', 70, 'validate stale -10'],
    ['max-age=60, stale-while-revalidate=x', '', 60, 'validate stale 0'],
    ['max-age=60, stale-while-revalidate', '', 60, 'validate stale 0'],
    ['max-age=60, stale-while-revalidate=10, stale-while-revalidate=2', '', 63, 'validate stale -3'],
    ['stale-while-revalidate=10', '', 1, 'stale -1+'],
    // The request may be stricter.
    ['max-age=60, stale-while-revalidate=10', 'no-cache', 61, 'validate request -1!'],
    ['max-age=60, stale-while-revalidate=10', 'max-age=0', 61, 'validate request -1'],
    ['max-age=60, stale-while-revalidate=10', 'max-age=100', 61, 'stale -1+'],
    ['max-age=60, stale-while-revalidate=10', 'min-fresh=1', 61, 'validate stale -1'],
    ['max-age=60, stale-while-revalidate=10', 'max-stale=100', 75, 'stale -15'],
    // RFC 9111 §4.2.4: a prohibition of stale responses prevails.
    ['max-age=60, stale-while-revalidate=10, must-revalidate', '', 61, 'validate stale -1!'],
    ['max-age=60, stale-while-revalidate=10, proxy-revalidate', '', 61, 'validate stale -1!'],
    ['s-maxage=60, stale-while-revalidate=10', '', 61, 'validate stale -1!'],
    ['no-cache, max-age=60, stale-while-revalidate=10', '', 61, 'validate no-cache -1!'],
  ];
  it.each(rows)('%s for "%s" at %d s: %s', (response, request, ageSeconds, decision) => {
    const lines = {
      response: [`Cache-Control: ${response}`],
      request: request === '' ? [] : [`Cache-Control: ${request}`],
    };
    expect(inShort(decide({ ...lines, ageSeconds }))).toBe(decision);
  });

  it('uses the configured stale-while-revalidate where the origin states none', () => {
    const policyOf = { policy: { staleWhileRevalidateSeconds: 30 } };
    const at = (ageSeconds: number, cacheControl: string) =>
      inShort(decide({ response: [`Cache-Control: ${cacheControl}`], ageSeconds, ...policyOf }));
    expect(at(89, 'max-age=60')).toBe('stale -29+');
    expect(at(90, 'max-age=60')).toBe('validate stale -30');
    expect(at(61, 'max-age=60, stale-while-revalidate=0')).toBe('validate stale -1');
    expect(at(61, 'max-age=60, must-revalidate')).toBe('validate stale -1!');
  });

  const failing: readonly (readonly [response: string, request: string, policySeconds: number, until: number])[] = [
    // Seconds past the end of the lifetime, §4.
    ['max-age=60', '', 100, 100],
    ['max-age=60', '', 0, 0],
    ['max-age=60, stale-if-error=20', '', 100, 20],
    ['max-age=60, stale-if-error=0', '', 100, 0],
    ['max-age=60, stale-if-error=x', '', 100, 0],
    ['max-age=60', 'stale-if-error=200', 100, 200],
    ['max-age=60', 'stale-if-error=20', 100, 100],
    ['max-age=60, stale-if-error=20', 'stale-if-error=50', 0, 50],
    ['max-age=60, stale-if-error=20', 'stale-if-error=x', 0, 20],
  ];
  it.each(failing)('%s for "%s", by policy %d s: until %d s later', (response, request, staleIfErrorSeconds, until) => {
    const decision = decide({
      response: [`Cache-Control: ${response}`],
      request: request === '' ? [] : [`Cache-Control: ${request}`],
      ageSeconds: 70,
      policy: { staleIfErrorSeconds },
    });
    expect(decision).toMatchObject({ kind: 'validate', serveStaleUntil: sentAt + (60 + until) * 1000 });
  });

  it.each(['must-revalidate', 'proxy-revalidate', 's-maxage=60', 'no-cache'])(
    'does not serve a stale response on errors with %s',
    (directive) => {
      const response = [`Cache-Control: max-age=60, stale-if-error=100, ${directive}`];
      const decision = decide({ response, request: ['Cache-Control: stale-if-error=100'], ageSeconds: 70 });
      expect(decision).toMatchObject({ kind: 'validate', serveStaleUntil: 0 });
    },
  );
});

describe('decideReuse of an immutable response, RFC 8246', () => {
  const rows: readonly (readonly [response: string, request: string, ageSeconds: number, decision: string])[] = [
    ['max-age=60, immutable', 'max-age=0', 10, 'fresh 50'],
    ['max-age=60, immutable', 'max-age=5', 10, 'fresh 50'],
    ['max-age=60, immutable', 'no-cache', 10, 'validate request 50!'],
    ['max-age=60, immutable', 'min-fresh=55', 10, 'validate request 50'],
    ['max-age=60, immutable', 'max-age=0', 60, 'validate request 0'],
    ['max-age=60, immutable', '', 60, 'validate stale 0'],
    ['max-age=60, immutable=1', 'max-age=0', 10, 'validate request 50'],
  ];
  it.each(rows)('%s for "%s" at %d s: %s', (response, request, ageSeconds, decision) => {
    const lines = {
      response: [`Cache-Control: ${response}`],
      request: request === '' ? [] : [`Cache-Control: ${request}`],
    };
    expect(inShort(decide({ ...lines, ageSeconds }))).toBe(decision);
  });
});

describe('decideReuse by policy', () => {
  it.each(['no-cache', 'max-age=0', 'min-fresh=100', 'stale-if-error=5'])(
    'ignores %s of a request with requestDirectives "ignore"',
    (directive) => {
      const request = [`Cache-Control: ${directive}`];
      const own = { requestDirectives: 'ignore', staleIfErrorSeconds: 0 } as const;
      expect(inShort(decide({ response: ['Cache-Control: max-age=60'], request, ageSeconds: 10, policy: own }))).toBe(
        'fresh 50',
      );
      const stale = decide({ response: ['Cache-Control: max-age=60'], request, ageSeconds: 70, policy: own });
      expect(stale).toMatchObject({ kind: 'validate', reason: 'stale', serveStaleUntil: sentAt + 60_000 });
    },
  );

  it('takes the lifetime from a targeted field, RFC 9213', () => {
    const response = ['Cache-Control: no-cache', 'CDN-Cache-Control: max-age=60'];
    expect(inShort(decide({ response, ageSeconds: 10 }))).toBe('fresh 50');
    expect(inShort(decide({ response, ageSeconds: 10, policy: { targetedFields: [] } }))).toBe(
      'validate no-cache -10!',
    );
  });
});

describe('decideReuse of an invalid response', () => {
  it('validates it regardless of its lifetime, and never serves it stale', () => {
    const stored = storedWith([`Date: ${sentDate}`, 'Cache-Control: max-age=60, stale-while-revalidate=60'], {
      isInvalid: true,
    });
    for (const seconds of [0, 10, 70]) {
      const decision = decideReuse({ requestFields: [], hasRange: true, stored, now: sentAt + seconds * 1000, policy });
      expect(decision).toMatchObject({ kind: 'validate', reason: 'stale', serveStaleUntil: 0 });
    }
  });
});

describe('decideReuse of an expired response', () => {
  const expire = (control: string, expiredAfter: number) =>
    storedWith([`Date: ${sentDate}`, `Cache-Control: ${control}`], { expiredAt: sentAt + expiredAfter * 1000 });

  it.each<[control: string, expiredAfter: number, seconds: number, until: number]>([
    // stale-if-error counts from the instant of the expiry, not from the end of the lifetime.
    ['max-age=60, stale-if-error=30', 10, 10, 40],
    ['max-age=60, stale-if-error=30', 10, 20, 40],
    ['max-age=60, stale-if-error=30', 10, 50, 40],
    // The lifetime ended before the expiry.
    ['max-age=60, stale-if-error=30', 70, 80, 90],
    // stale-while-revalidate does not apply: an expiry means that the origin has a newer response.
    ['max-age=60, stale-while-revalidate=60, stale-if-error=0', 10, 20, 10],
  ])('%s, expired after %d s, is validated at %d s, and served until %d s where the origin fails', (...row) => {
    const [control, expiredAfter, seconds, until] = row;
    const stored = expire(control, expiredAfter);
    const decision = decideReuse({ requestFields: [], hasRange: true, stored, now: sentAt + seconds * 1000, policy });
    expect(decision).toMatchObject({ kind: 'validate', reason: 'stale', serveStaleUntil: sentAt + until * 1000 });
  });

  it('is not served stale where the origin forbids it', () => {
    const stored = expire('max-age=60, must-revalidate, stale-if-error=30', 10);
    const decision = decideReuse({ requestFields: [], hasRange: false, stored, now: sentAt + 20_000, policy });
    expect(decision).toMatchObject({ kind: 'validate', serveStaleUntil: 0 });
  });

  it('is validated even where the clock was set back', () => {
    const now = sentAt + 5_000;
    const decision = decideReuse({ requestFields: [], hasRange: false, stored: expire('max-age=60', 10), now, policy });
    expect(decision).toMatchObject({ kind: 'validate', reason: 'stale' });
  });
});

describe('reuseTerms', () => {
  const terms = (response: string, request: string, ageSeconds = 20, isInvalid?: true) => {
    const stored = storedWith([`Date: ${sentDate}`, `Cache-Control: ${response}`]);
    return reuseTerms({
      requestFields: fieldsOf(`Cache-Control: ${request}`),
      hasRange: false,
      stored: isInvalid === undefined ? stored : { ...stored, isInvalid },
      now: sentAt + ageSeconds * 1000,
      policy,
    });
  };

  it.each<[response: string, request: string, want: Partial<ReuseTerms>]>([
    ['max-age=60', '', { ban: undefined, demand: undefined, staleBan: undefined, lifetimeMs: 60_000, ttlMs: 40_000 }],
    ['no-cache', '', { ban: 'no-cache', staleBan: 'no-cache' }],
    ['private', '', { ban: 'private', staleBan: 'private' }],
    ['no-store', '', { ban: 'no-store', staleBan: 'no-store' }],
    ['max-age=60, no-store, must-understand', '', { ban: undefined }],
    ['max-age=60', 'no-cache', { demand: 'no-cache', staleBan: 'request' }],
    ['max-age=60', 'min-fresh=50', { demand: 'min-fresh', staleBan: undefined }],
    ['max-age=60', 'max-age=20', { demand: 'max-age' }],
    ['max-age=60', 'max-age=21', { demand: undefined }],
    ['max-age=60, immutable', 'max-age=0', { demand: undefined }],
    ['max-age=60, must-revalidate', 'no-cache', { demand: 'no-cache', staleBan: 'must-revalidate' }],
  ])('%s, requested with %s: %o', (response, request, want) => expect(terms(response, request)).toMatchObject(want));

  it('forbid serving an invalid response stale', () => {
    expect(terms('max-age=60', '', 20, true)).toMatchObject({ ban: undefined, staleBan: 'invalid' });
  });
});

describe('decideReuse, any directives', () => {
  const fromOrigin = fc.array(
    fc.constantFrom('max-age=60', 'max-age=x', 'no-cache', 'must-revalidate', 's-maxage=30', 'public'),
  );
  const fromClient = fc.array(
    fc.constantFrom('max-stale', 'max-stale=10', 'max-age=30', 'min-fresh=10', 'no-cache', 'foo'),
  );
  const cases = fc.record({
    fromOrigin,
    fromClient,
    ageSeconds: fc.integer({ min: 0, max: 120 }),
    hasRange: fc.boolean(),
  });
  const cacheControl = (directives: readonly string[]) =>
    directives.length === 0 ? [] : [`Cache-Control: ${directives.join(', ')}`];
  const staleForbidden = /no-cache|must-revalidate|s-maxage/;

  function decideCase(row: {
    fromOrigin: string[];
    fromClient: string[];
    ageSeconds: number;
    hasRange: boolean;
  }): ReuseDecision {
    return decide({ ...row, response: cacheControl(row.fromOrigin), request: cacheControl(row.fromClient) });
  }

  it('decides fresh only with lifetime left', () => {
    fc.assert(
      fc.property(cases, (row) => {
        const decision = decideCase(row);
        fc.pre(decision.kind === 'fresh');
        expect(decision.ttlMs).toBeGreaterThan(0);
      }),
    );
  });

  it('always validates where either side says no-cache', () => {
    fc.assert(
      fc.property(cases, (row) => {
        fc.pre(row.fromOrigin.includes('no-cache') || row.fromClient.includes('no-cache'));
        expect(decideCase(row).kind).toBe('validate');
      }),
    );
  });

  it('allows a stale response only where the origin does not forbid it and the client accepts it', () => {
    fc.assert(
      fc.property(cases, (row) => {
        const decision = decideCase(row);
        const isForbidden = staleForbidden.test(row.fromOrigin.join());
        if (decision.kind === 'stale')
          expect([isForbidden, row.fromClient.join().includes('max-stale')]).toEqual([false, true]);
        if (decision.kind === 'validate') expect(decision.serveStaleUntil > 0 && isForbidden).toBe(false);
      }),
    );
  });
});
