/** Random traffic with random faults: no wrong byte, no byte of another client, no endless wait, and nothing left open. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runTraffic } from '../support/traffic/traffic.ts';
import { MemoryGround } from '../support/traffic/traffic-ground.ts';
import { plans } from '../support/traffic/traffic-plan.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';

/** More runs than the default find rarer failures. */
const { RANGEWAY_TEST_RUNS = '150' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);
/** Milliseconds: enough to shrink a failing plan. */
const timeout = 60_000 + 20 * runs;

describe('random traffic', () => {
  it('gets no wrong byte and no byte of another client, does not wait for ever, and leaves nothing open', {
    timeout,
  }, async () => {
    const unhandled = noteUnhandled();
    const traffic = fc.asyncProperty(plans, (plan) => runTraffic(plan, new MemoryGround(plan)));
    await fc.assert(traffic, { numRuns: runs });
    expect(unhandled).toEqual([]);
  });
});
