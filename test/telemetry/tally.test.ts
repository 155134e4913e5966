import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Counts, createAsked, Spreads } from '../../src/telemetry/counters.ts';

const seconds = { name: 'x_seconds', help: 'x.', type: 'histogram', labels: ['a'], aggregation: 'sum' } as const;
const count = { name: 'x_total', help: 'x.', type: 'counter', labels: ['a', 'b'], aggregation: 'sum' } as const;

describe('Spreads', () => {
  it('count a negative value as 0, so that no sum decreases', () => {
    const spreads = new Spreads(seconds, [1]);
    spreads.of('one').observe(-3_600);
    expect(spreads.read().values.map(({ value }) => value)).toEqual([1, 1, 0, 1]);
  });

  it('count in each bucket the values up to its bound', () => {
    const bounds = fc
      .uniqueArray(fc.integer({ min: 1, max: 50 }), { minLength: 1 })
      .map((list) => list.sort((a, b) => a - b));
    fc.assert(
      fc.property(bounds, fc.array(fc.integer({ min: 0, max: 60 })), (limits, values) => {
        const spreads = new Spreads(seconds, limits);
        const spread = spreads.of('one');
        for (const value of values) spread.observe(value);
        const read = spreads.read().values;
        for (const [at, limit] of limits.entries()) {
          const below = values.filter((value) => value <= limit).length;
          expect(read[at]).toEqual({ metricName: 'x_seconds_bucket', labels: { le: limit, a: 'one' }, value: below });
        }
        const sum = values.reduce((total, value) => total + value, 0);
        expect(read.slice(limits.length)).toEqual([
          { metricName: 'x_seconds_bucket', labels: { le: '+Inf', a: 'one' }, value: values.length },
          { metricName: 'x_seconds_sum', labels: { a: 'one' }, value: sum },
          { metricName: 'x_seconds_count', labels: { a: 'one' }, value: values.length },
        ]);
      }),
    );
  });
});

describe('Counts', () => {
  it('have one number for each combination of label values', () => {
    const counts = new Counts(count);
    expect(counts.read().values).toEqual([]);
    counts.of('1', '2').value += 3;
    counts.of('1', '2').value += 4;
    counts.of('12', '').value += 1;
    counts.of('', '12');
    expect(counts.read()).toEqual({
      name: 'x_total',
      help: 'x.',
      type: 'counter',
      aggregator: 'sum',
      values: [
        { labels: { a: '1', b: '2' }, value: 7 },
        { labels: { a: '12', b: '' }, value: 1 },
        { labels: { a: '', b: '12' }, value: 0 },
      ],
    });
  });

  it('begin with 0 where there are no labels', () => {
    expect(new Counts({ ...count, labels: [] }).read().values).toEqual([{ labels: {}, value: 0 }]);
  });
});

describe('createAsked', () => {
  it('reads its source each time', () => {
    let value = 0;
    const asked = createAsked(count, () => [[['x', 'y'], ++value]]);
    expect([asked.read().values, asked.read().values]).toEqual([
      [{ labels: { a: 'x', b: 'y' }, value: 1 }],
      [{ labels: { a: 'x', b: 'y' }, value: 2 }],
    ]);
  });
});
