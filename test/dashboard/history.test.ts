import { describe, expect, it } from 'vitest';
import {
  amplification,
  History,
  hitRatioByBytes,
  hitRatioByRequests,
  type Interval,
  intervalBetween,
  keptMs,
  latencyAt,
  outcomeNames,
  type Reading,
  requestCount,
} from '../../dashboard/src/model/history.ts';
import { percentile } from '../../dashboard/src/model/latency.ts';

const boundsMs = [1, 10, 100];

interface Totals {
  readonly at: number;
  readonly startedAt?: number;
  readonly hit?: number;
  readonly miss?: number;
  readonly none?: number;
  readonly failed?: number;
  readonly sent?: number;
  readonly fromOrigin?: number;
  readonly counts?: readonly number[];
}

function reading({ at, startedAt = 0, sent = 0, fromOrigin = 0, counts = [0, 0, 0, 0], ...outcomes }: Totals): Reading {
  const none = Object.fromEntries(outcomeNames.map((name) => [name, 0])) as Record<
    (typeof outcomeNames)[number],
    number
  >;
  return {
    at,
    startedAt,
    requests: { ...none, inFlight: 0, ...outcomes },
    bytes: { sent, fromOrigin },
    latency: { boundsMs, counts },
  };
}

function between(before: Totals, after: Totals): Interval {
  const interval = intervalBetween(reading(before), reading(after));
  if (interval === undefined) throw new Error('expected an interval');
  return interval;
}

describe('the interval between two readings', () => {
  it('has the differences of all totals', () => {
    const interval = between(
      { at: 1000, hit: 10, miss: 1, sent: 500, fromOrigin: 100, counts: [5, 1, 0, 0] },
      { at: 3500, hit: 30, miss: 2, sent: 1500, fromOrigin: 150, counts: [20, 4, 1, 0] },
    );
    expect(interval).toMatchObject({ seconds: 2.5, sentBytes: 1000, originBytes: 50, counts: [15, 3, 1, 0] });
    expect(interval.requests).toMatchObject({ hit: 20, miss: 1 });
    expect(requestCount(interval)).toBe(21);
  });

  it.each<[why: string, before: Totals, after: Totals]>([
    ['the server was started again', { at: 1000, startedAt: 0 }, { at: 2000, startedAt: 1500 }],
    ['no time passed', { at: 1000 }, { at: 1000 }],
    ['a number of requests went down', { at: 1000, hit: 10 }, { at: 2000, hit: 9 }],
    ['bytes went down', { at: 1000, sent: 10 }, { at: 2000, sent: 9 }],
    ['a bucket went down', { at: 1000, counts: [1, 0, 0, 0] }, { at: 2000, counts: [0, 5, 0, 0] }],
    ['there are other buckets', { at: 1000, counts: [1, 0, 0] }, { at: 2000, counts: [1, 0, 0, 0] }],
  ])('is undefined where %s', (_why, before, after) => {
    expect(intervalBetween(reading(before), reading(after))).toBeUndefined();
  });
});

describe('ratios', () => {
  it.each<[what: string, totals: Omit<Totals, 'at'>, byRequests: number | undefined]>([
    ['nothing', {}, undefined],
    ['only what the cache was not asked for', { none: 5 }, undefined],
    ['hits and misses', { hit: 3, miss: 1 }, 0.75],
    ['failures count as not stored', { hit: 1, failed: 1 }, 0.5],
    ['what the cache was not asked for does not count', { hit: 1, none: 9 }, 1],
  ])('by requests, of %s', (_what, totals, byRequests) => {
    expect(hitRatioByRequests(between({ at: 0 }, { at: 1, ...totals }))).toBe(byRequests);
  });

  it.each([
    [0, 0, undefined, undefined],
    [0, 10, undefined, undefined],
    [100, 0, 1, 0],
    [100, 25, 0.75, 0.25],
    // A range of a file that is fetched as a whole.
    [100, 400, 0, 4],
  ])('by bytes, and amplification: %i sent, %i from origins', (sent, fromOrigin, byBytes, factor) => {
    const interval = between({ at: 0 }, { at: 1, sent, fromOrigin });
    expect(hitRatioByBytes(interval)).toBe(byBytes);
    expect(amplification(interval)).toBe(factor);
  });
});

describe('percentiles', () => {
  it.each([
    ['nothing', [0, 0, 0, 0], 0.5, undefined],
    ['the first bucket has only a bound', [10, 0, 0, 0], 0.5, { kind: 'below', ms: 1 }],
    ['the last bucket has only a bound', [0, 0, 0, 3], 0.5, { kind: 'above', ms: 100 }],
    ['the middle of a bucket', [0, 10, 0, 0], 0.5, { kind: 'within', ms: 5.5 }],
    ['the end of a bucket', [0, 10, 0, 0], 1, { kind: 'within', ms: 10 }],
    ['between buckets', [50, 40, 10, 0], 0.95, { kind: 'within', ms: 55 }],
    ['an empty bucket is skipped', [5, 0, 5, 0], 0.75, { kind: 'within', ms: 55 }],
  ])('%s: %j at %d', (_what, counts, share, expected) => {
    expect(percentile(boundsMs, counts, share)).toEqual(expected);
  });

  it('are of the requests of an interval only', () => {
    const interval = between({ at: 0, counts: [1000, 0, 0, 0] }, { at: 1, counts: [1000, 0, 10, 0] });
    expect(latencyAt(interval, 0.5)).toEqual({ kind: 'within', ms: 55 });
  });
});

describe('the history', () => {
  it('has a row of rates for each reading after the first', () => {
    const history = new History();
    for (const step of [0, 1, 2]) {
      history.add(
        reading({
          at: step * 1000,
          hit: step * 30,
          miss: step * 10,
          sent: step * 8000,
          fromOrigin: step * 2000,
          counts: [0, step, 0, 0],
        }),
      );
    }
    const { columns } = history;
    expect(columns.seconds).toEqual([0, 1, 2]);
    expect(columns.sent).toEqual([null, 8000, 8000]);
    expect(columns.fromOrigin).toEqual([null, 2000, 2000]);
    expect(columns.hits).toEqual([null, 30, 30]);
    expect(columns.byRequests).toEqual([null, 0.75, 0.75]);
    expect(columns.byBytes).toEqual([null, 0.75, 0.75]);
    expect(columns.p50).toEqual([null, 5.5, 5.5]);
  });

  it('computes ratios and percentiles over the last ten seconds', () => {
    const history = new History();
    for (let step = 0; step <= 20; step += 1) {
      // All requests of the first ten seconds miss, all later ones hit.
      history.add(reading({ at: step * 1000, miss: Math.min(step, 10), hit: Math.max(0, step - 10) }));
    }
    expect(history.columns.byRequests[10]).toBe(0);
    expect(history.columns.byRequests[15]).toBe(0.5);
    expect(history.columns.byRequests[20]).toBe(1);
  });

  it('breaks the lines where the server was started again', () => {
    const history = new History();
    history.add(reading({ at: 1000, hit: 5 }));
    history.add(reading({ at: 2000, hit: 6 }));
    history.add(reading({ at: 3000, startedAt: 2500, hit: 1 }));
    history.add(reading({ at: 4000, startedAt: 2500, hit: 3 }));
    expect(history.columns.hits).toEqual([null, 1, null, 2]);
  });

  it('breaks the lines where the page was hidden, but counts the time for totals', () => {
    const history = new History();
    history.add(reading({ at: 1000, hit: 0 }));
    history.add(reading({ at: 2000, hit: 1 }));
    history.add(reading({ at: 62_000, hit: 121 }));
    expect(history.columns.hits).toEqual([null, 1, null, null]);
    expect(history.columns.seconds).toEqual([1, 2, 32, 62]);
    expect(history.since(100_000)?.requests.hit).toBe(121);
  });

  it('says what happened in a time, from the oldest reading that can be compared', () => {
    const history = new History();
    expect(history.since(60_000)).toBeUndefined();
    for (let step = 0; step <= 100; step += 1) {
      const isOld = step < 70;
      history.add(reading({ at: step * 1000, startedAt: isOld ? 0 : 1, hit: isOld ? 1000 + step : step }));
    }
    expect(history.since(5000)).toMatchObject({ seconds: 5, requests: { hit: 5 } });
    expect(history.since(60_000)).toMatchObject({ seconds: 30, requests: { hit: 30 } });
  });

  it('forgets what is older than a quarter of an hour', () => {
    const history = new History();
    const seconds = keptMs / 1000;
    for (let step = 0; step <= seconds + 100; step += 1) history.add(reading({ at: step * 1000, hit: step }));
    expect(history.columns.seconds[0]).toBe(100);
    expect(history.columns.seconds.length).toBe(seconds + 1);
    expect(history.columns.hits.length).toBe(seconds + 1);
    expect(history.since(10 * keptMs)?.seconds).toBe(seconds);
  });

  it('leaves out a reading that it has already', () => {
    const history = new History();
    history.add(reading({ at: 1000 }));
    history.add(reading({ at: 1000 }));
    expect(history.columns.seconds).toEqual([1]);
  });
});
