/**
 * Fuzzes parsers: `npm run fuzz`, `npm run fuzz -- --seconds 600 --target range`.
 *
 * `--seconds` limits all targets together. `--runs` replaces it by a number of inputs for each target, so that `--seed`
 * repeats a run. `--keep` adds inputs that reach new code to the corpus. Inputs that break a promise are always added.
 */

import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { addToCorpus, readCorpus } from './corpus.ts';
import { Coverage } from './coverage.ts';
import { type FuzzResult, fuzz } from './fuzzer.ts';
import { createChance } from './mutator.ts';
import type { Target } from './target.ts';
import { Watchdog } from './watchdog.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    runs: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    target: { type: 'string', multiple: true, default: [] },
    keep: { type: 'boolean', default: false },
    report: { type: 'string' },
  },
});

using coverage = new Coverage((url) => url.includes('/src/') && !url.includes('/node_modules/'));
const { targets } = await import('./targets.ts');

const named = new Set(values.target);
const chosen = targets.filter(({ name }) => named.size === 0 || named.has(name));
const unknown = [...named].filter((name) => !targets.some((target) => target.name === name));
if (unknown.length > 0 || chosen.length === 0) {
  console.error(`no target ${unknown.join(', ')}; there are ${targets.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}

console.log(`seed ${values.seed}`);
const secondsEach = Number(values.seconds) / chosen.length;
let failed = 0;
for (const target of chosen) if (!fuzzOne(target)) failed += 1;
const passed = chosen.length - failed;
console.log(`${passed} passed, ${failed} failed`);
if (values.report !== undefined) writeFileSync(values.report, JSON.stringify(summary(passed, failed)));
process.exit(failed === 0 ? 0 : 1);

function fuzzOne(target: Target): boolean {
  using watchdog = new Watchdog(target.name);
  const startedAt = performance.now();
  const until = startedAt + 1000 * secondsEach;
  const mayGoOn = (runs: number) =>
    values.runs === undefined ? performance.now() < until : runs < Number(values.runs);
  const result = fuzz({
    target,
    corpus: readCorpus(target.name),
    // Each target has its own numbers, so that it does the same alone and among others.
    chance: createChance(Number(values.seed)),
    coverage,
    mayGoOn,
    onRun: (input) => watchdog.note(input),
  });
  if (values.keep) addToCorpus(target.name, result.found);
  report(target, result, performance.now() - startedAt);
  return result.failure === undefined;
}

/** Returns a report in vitest's form. */
function summary(numPassedTests: number, numFailedTests: number): object {
  return { numPassedTests, numFailedTests, numPendingTests: 0, numTodoTests: 0, testResults: [] };
}

function report({ name }: Target, { runs, found, failure }: FuzzResult, elapsedMs: number): void {
  const perSecond = Math.round((1000 * runs) / elapsedMs);
  console.log(`${name.padEnd(20)} ${runs} inputs, ${perSecond}/s, ${found.length} reach something new`);
  if (failure === undefined) return;
  addToCorpus(name, [failure.input]);
  console.log(`${name}: ${failure.error.stack}\nwith ${JSON.stringify(failure.input.slice(0, 2000))}, which is kept`);
}
