/**
 * Random traffic over the store in a real engine, which evicts and damages what it has, is flushed, full, paused or cut off; and the
 * server is closed and opened again. Over one server, over a Cluster of three, and with several processes that share the engine.
 */

import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { FaultyEngine } from '../support/engines/faulty-engine.ts';
import { describeWithEngine } from '../support/engines/redis-server.ts';
import { runTraffic } from '../support/traffic/traffic.ts';
import { EngineGround } from '../support/traffic/traffic-engine.ts';
import { enginePlans, withDeaths } from '../support/traffic/traffic-plan.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';

/** More runs than the default, which is for each of the tests below, find rarer failures. */
const { RANGEWAY_TEST_RUNS = '30' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);
/** Milliseconds: enough for a slow engine, and to shrink a failing plan. */
const timeout = 60_000 + 1000 * runs;

const places = [
  ['one server', () => FaultyEngine.startServer()],
  ['a Cluster of three', () => FaultyEngine.startCluster()],
] as const;

for (const [name, start] of places) {
  describeWithEngine(`random traffic over ${name}`, () => {
    let engine: FaultyEngine;
    beforeAll(async () => {
      engine = await start();
    });
    afterAll(() => engine[Symbol.asyncDispose]());

    it.each([
      ['one process', 1, enginePlans],
      ['two processes, which die', 2, withDeaths(enginePlans)],
    ] as const)(
      'gets no wrong byte, neither then nor after a restart, does not wait for ever, and leaves nothing open: %s',
      { timeout },
      async (_name, processes, plans) => {
        const unhandled = noteUnhandled();
        const traffic = fc.asyncProperty(plans, async (plan) => {
          await using ground = new EngineGround(plan, engine, processes);
          await runTraffic(plan, ground, { processes });
        });
        await fc.assert(traffic, { numRuns: runs });
        expect(unhandled).toEqual([]);
      },
    );
  });
}
