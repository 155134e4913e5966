/** The option `limits` of a route: accepted values, and the messages for others. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';

const check = (limits: unknown) => checkConfig({ routes: [{ origin: 'http://127.0.0.1:3000', limits }] }, '.');

describe('limits accepts', () => {
  it.each<[limits: Readonly<Record<string, unknown>>, want?: Readonly<Record<string, unknown>>]>([
    [{}, { fills: 0, fillsPerClient: 0 }],
    [{ bodyBytes: '0B' }, { bodyBytes: 0 }],
    [
      { bodyBytes: '10MB', requestsPerClient: 10, fills: 50, fillsPerClient: 5 },
      { bodyBytes: 10e6, fills: 50 },
    ],
    [{ rate: { requests: 10, seconds: 1 } }],
    [{ rate: { requests: 10, seconds: 86_400, burst: 20 } }],
    [{ amplification: {} }, { amplification: { factor: 100, freeBytes: 5e9, windowSeconds: 900 } }],
    [{ amplification: { factor: 0 } }],
    [
      { amplification: { factor: 1, freeBytes: '1MB', windowSeconds: 1.5 } },
      { amplification: { factor: 1, freeBytes: 1e6, windowSeconds: 1.5 } },
    ],
  ])('%j', (limits, want = limits) => {
    expect(check(limits)).toMatchObject({ kind: 'ok', config: { routes: [{ limits: want }] } });
  });
});

describe('limits refuses', () => {
  it.each<[limits: unknown, ...want: string[]]>([
    [{ bodyBytes: '1 apple' }, 'bodyBytes: expected a size such as "512MiB" or "10GB"'],
    [{ requestsPerClient: -1 }, 'requestsPerClient: must be at least 0, found -1'],
    [{ rate: { requests: 1 } }, 'rate.seconds: is required'],
    [{ rate: { requests: 0, seconds: 1 } }, 'rate.requests: must be at least 1, found 0'],
    [{ rate: { requests: 1, seconds: 0.5 } }, 'rate.seconds: expected a whole number, found 0.5'],
    [{ rate: { requests: 1, seconds: 1, burst: 0 } }, 'rate.burst: must be at least 1, found 0'],
    [{ fills: 1.5 }, 'fills: expected a whole number, found 1.5'],
    [{ amplification: { freeBytes: '999KB' } }, 'amplification.freeBytes: must be at least 1MB'],
    [{ amplification: { windowSeconds: 0 } }, 'amplification.windowSeconds: must be at least 1, found 0'],
    [{ amplification: { factr: 1 } }, 'amplification.factr: unknown option "factr"; did you mean "factor"?'],
  ])('%j', (limits, ...want) => {
    const checked = check(limits);
    const problems = checked.kind === 'invalid' ? checked.problems : [];
    const messages = problems.map(({ path, message }) => `${path}: ${message}`.replace('routes[0].limits.', ''));
    expect(messages).toEqual(want.map((start) => expect.stringContaining(start)));
  });
});
