/** Random traffic over the store on a real disk, which fails, is damaged, and is closed and opened again. */

import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { runTraffic } from '../support/traffic/traffic.ts';
import { DiskGround } from '../support/traffic/traffic-disk.ts';
import { diskPlans } from '../support/traffic/traffic-plan.ts';
import { noteUnhandled } from '../support/traffic/traffic-unhandled.ts';

/** More runs than the default find rarer failures. */
const { RANGEWAY_TEST_RUNS = '150' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);
/** Milliseconds: enough for a slow disk, and to shrink a failing plan. */
const timeout = 60_000 + 1000 * runs;

describe('random traffic over a disk', () => {
  it.each([
    ['are read', false],
    ['are moved', true],
  ])(
    'gets no wrong byte, neither then nor after a restart, does not wait for ever, and leaves nothing open: bytes %s',
    {
      timeout,
    },
    async (_way, moves) => {
      const unhandled = noteUnhandled();
      const root = await temporaryDirectory();
      const traffic = fc.asyncProperty(diskPlans, async (plan) => {
        const dir = await mkdtemp(join(root, 'run-'));
        try {
          await runTraffic(plan, new DiskGround(plan, dir, moves));
        } finally {
          await rm(dir, { recursive: true, force: true });
        }
      });
      await fc.assert(traffic, { numRuns: runs });
      expect(unhandled).toEqual([]);
    },
  );
});
