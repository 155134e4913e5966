import { it } from 'vitest';
import { readFileSync } from 'node:fs';
import { runTraffic } from '../support/traffic.ts';
import { MemoryGround } from '../support/traffic-ground.ts';
const plans = JSON.parse(readFileSync('/tmp/a3-plans.json','utf8'));
for (const [i, [plan, processes]] of plans.entries()) it(`plan ${i}`, async () => { await runTraffic(plan, new MemoryGround(plan), { processes }); });
