/** Random traffic over several processes that share a store: whichever of them a request comes to, it gets what one would give. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { peersQuiet, watchPeers } from '../support/peer-quiet.ts';
import { runTraffic } from '../support/traffic.ts';
import { MemoryGround } from '../support/traffic-ground.ts';
import { plans } from '../support/traffic-plan.ts';
import { processStep } from '../support/traffic-steps.ts';

/** Plans in which processes die. */
const deadlyPlans = fc.tuple(plans, fc.array(fc.tuple(fc.nat(80), processStep), { maxLength: 3 })).map(([plan, deaths]) => {
  const steps = [...plan.steps];
  for (const [at, death] of deaths) steps.splice(at % (steps.length + 1), 0, death);
  return { ...plan, steps };
});

const numRuns = Math.ceil(Number(process.env['RANGEWAY_TEST_RUNS'] ?? 200) / 2);

/** Over sockets a turn is over when nothing moves on them. */
class PeerGround extends MemoryGround {
  override turn(): Promise<void> {
    return peersQuiet();
  }

  override rest(): Promise<void> {
    return peersQuiet();
  }
}

let dir: string;
beforeAll(async () => {
  watchPeers();
  dir = await mkdtemp(join(tmpdir(), 'rangeway-peers-'));
});
afterAll(async () => {
  await rm(dir, { recursive: true });
});

describe('random traffic over several processes', () => {
  it.each([2, 3])('gets no wrong byte, does not wait for ever, and leaves nothing open: %s that call each other', async (processes) => {
    await fc.assert(
      fc.asyncProperty(deadlyPlans, (plan) => runTraffic(plan, new MemoryGround(plan), { processes })),
      { numRuns },
    );
  }, 600_000);

  it('gets no wrong byte, does not wait for ever, and leaves nothing open: two that ask each other over sockets', async () => {
    await fc.assert(
      fc.asyncProperty(deadlyPlans, (plan) => runTraffic(plan, new PeerGround(plan), { processes: 2, peersDir: dir })),
      { numRuns },
    );
  }, 600_000);
});
