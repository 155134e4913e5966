/**
 * `npm run planted`: plants faults in copies of the checkout, and runs the tests that must find them.
 *
 *     npm run planted                          all faults of `faults.ts`
 *     npm run planted -- --only NAME           the faults with this text in their names
 *     npm run planted -- --report FILE         also writes a report in Vitest's form
 *     npm run planted -- --workers 1           in this number of processes; by default as many as there are cores
 *
 * Exits with 1 where a fault is not found, or a test fails without a fault. The last line is `N passed, N failed`.
 */

import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { plantedFaults } from './faults.ts';
import { runPlanted } from './planted-run.ts';
import { describeOutcome, isRight, type Outcome, vitestReport } from './report.ts';

const { values: options } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    report: { type: 'string' },
    workers: { type: 'string', default: String(availableParallelism()) },
  },
});
const maxWorkers = Number(options.workers);
const faults = plantedFaults.filter(({ name }) => name.includes(options.only));
if (!(maxWorkers >= 1) || faults.length === 0) {
  console.error('--workers takes a number, and --only a part of the name of a fault: see test/planted/faults.ts');
  process.exit(2);
}

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort(new Error(signal)));

const outcomes: Outcome[] = [];
await runPlanted(faults, {
  maxWorkers,
  signal: interruption.signal,
  onOutcome(outcome) {
    outcomes.push(outcome);
    console.log(describeOutcome(outcome));
  },
});
interruption.signal.throwIfAborted();
if (options.report !== undefined) await writeFile(options.report, JSON.stringify(vitestReport(outcomes)));
// One more than the faults: the tests without a fault. An outcome that is missing has failed, too.
const passed = outcomes.filter(isRight).length;
const failed = faults.length + 1 - passed;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
