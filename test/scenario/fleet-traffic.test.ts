/** Random traffic over several processes that share a store and die: each response is one that a single process would give. */

import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { peersQuiet, watchPeers } from '../support/clocks/peer-quiet.ts';
import { runTraffic } from '../support/traffic/traffic.ts';
import { MemoryGround } from '../support/traffic/traffic-ground.ts';
import { plans, withDeaths } from '../support/traffic/traffic-plan.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';

/** More runs than the default find rarer failures. */
const { RANGEWAY_TEST_RUNS = '60' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);
/** Milliseconds: enough to shrink a failing plan. */
const timeout = 60_000 + 30 * runs;

/** Plans in which processes die. */
const deadlyPlans = withDeaths(plans);

/** Over sockets, a turn is over when the sockets are quiet. */
class PeerGround extends MemoryGround {
  override turn(): Promise<void> {
    return peersQuiet();
  }

  override rest(): Promise<void> {
    return peersQuiet();
  }
}

beforeAll(watchPeers);

describe('random traffic over several processes', () => {
  it.each([2, 3])('is right over %s processes that call each other', { timeout }, async (processes) => {
    const unhandled = noteUnhandled();
    const traffic = fc.asyncProperty(deadlyPlans, (plan) => runTraffic(plan, new MemoryGround(plan), { processes }));
    await fc.assert(traffic, { numRuns: runs });
    expect(unhandled).toEqual([]);
  });

  it('is right over two processes that ask each other over sockets', { timeout }, async () => {
    const unhandled = noteUnhandled();
    const traffic = fc.asyncProperty(deadlyPlans, (plan) =>
      runTraffic(plan, new PeerGround(plan), { processes: 2, peersBy: 'sockets' }),
    );
    await fc.assert(traffic, { numRuns: runs });
    expect(unhandled).toEqual([]);
  });
});
