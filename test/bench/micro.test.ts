/** The micro-benchmarks still run and have results. Times do not count here. */

import { describe, expect, it } from 'vitest';
import { findMicroCases, measureMicro } from '../../bench/micro-case.ts';

const files = await findMicroCases();

describe.each([...files])('the micro-benchmarks of %s', (_, cases) => {
  it.each(cases.map((each) => [each.name, each] as const))('%s has a result', (_, { call }) => {
    for (let turn = 0; turn < 3; turn += 1) expect(call(turn)).not.toBeUndefined();
  });
});

describe('a measurement', () => {
  it('calls the function, and has the median between the quartiles', () => {
    let calls = 0;
    const call = () => {
      calls += 1;
      return calls;
    };
    const { lowNs, medianNs, highNs } = measureMicro({ name: '', call }, { warmUpMs: 1, batches: 5, batchMs: 0.01 });
    expect(calls).toBeGreaterThan(5);
    expect(lowNs).toBeGreaterThan(0);
    expect(medianNs).toBeGreaterThanOrEqual(lowNs);
    expect(highNs).toBeGreaterThanOrEqual(medianNs);
  });
});
