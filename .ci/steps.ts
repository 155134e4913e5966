/**
 * The steps of CI, which `.ci/run` starts once everything is installed. They run in lanes beside each other, which keeps two
 * cores busy. A test file that failed runs once more, alone, when everything else has ended. The end is a table of the steps,
 * the failures, and a line `N passed, N failed`.
 *
 *     node .ci/steps.ts [--all] [--seed N] [STEP…]     all steps or the named ones; --all runs every test, and takes long
 */

import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import type { TestReport } from '../test/support/reports/test-report.ts';
import { type Again, type Ended, type FailedFile, failedFiles, judge } from './verdict.ts';

/** A step: a command, and how it is told where its report goes: by a flag, or, as for Vitest, by the environment. */
interface Step {
  readonly name: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly reportBy?: '--report' | '--summary' | 'environment';
  readonly maySkip?: true;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { all: { type: 'boolean', default: false }, seed: { type: 'string', default: String(randomInt(2 ** 31)) } },
});
const dir = mkdtempSync(join(tmpdir(), 'rangeway-ci-'));

/** The seed of all random tests, which a second run of a failed file has too. */
const seeds = { RANGEWAY_TEST_SEED: values.seed, RANGEWAY_FAULT_SEED: values.seed };
const vitest = ['node_modules/.bin/node', 'node_modules/vitest/vitest.mjs', 'run', '--no-color', '--mode'];

/** Returns a step that runs these test files, also those that `npm test` leaves out. */
function tests(name: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Step {
  return { name, command: [...vitest, 'all', '--maxWorkers=1', ...args], env, reportBy: 'environment' };
}

function program(name: string, args: readonly string[], reportBy?: Step['reportBy']): Step {
  return { name, command: ['npm', 'run', '--silent', name, '--', ...args], ...(reportBy && { reportBy }) };
}

function node24(args: readonly string[]): Step {
  return { name: 'node 24', command: ['bash', '.ci/node-24', ...args], reportBy: 'environment' };
}

/** Test files of what clients and processes do, which `npm test` leaves out. */
const processes = [
  'activity',
  'admin',
  'fair-',
  'listeners',
  'metrics',
  'names',
  'origins',
  'purge-',
  'route-',
  'warm-',
].map((name) => `test/process/${name}`);
const engines = ['contract/redis-', 'contract/shared-store', 'contract/disk-store-tiers', 'store/redis-'].map(
  (name) => `test/${name}`,
);
const hostile = ['amplification', 'cost', 'deception', 'ranges', 'regular-'].map((name) => `test/hostile/${name}`);
const random = [
  'test/listener/http1/differential',
  'test/scenario/random-',
  'test/scenario/purge-random',
  'test/scenario/explain-agrees',
  'test/scenario/fleet-traffic',
];

const quick: Step = {
  name: 'npm test',
  command: ['npm', 'test', '--silent', '--', '--no-color'],
  reportBy: 'environment',
};

/** Every landing: in fifteen minutes on two slow cores. The third lane waits more than it works. */
const lanes: readonly (readonly Step[])[] = [
  [
    quick,
    tests('engines', ['--project', 'tests', ...engines]),
    tests('processes', ['--project', 'tests', ...processes]),
  ],
  [
    program('check', []),
    program('conformance', [], '--report'),
    tests('packages', ['--project', 'packages']),
    tests('random', ['--project', 'tests', ...random], { RANGEWAY_TEST_RUNS: '200' }),
    tests('hostile', ['--project', 'tests', ...hostile, 'test/process/streams']),
    program('fuzz', ['--seconds', '10'], '--report'),
    node24([
      'test/contract/disk-store',
      'test/origin/undici-',
      'test/wire/requests',
      'test/wire/responses',
      'test/wire/http2-re',
    ]),
    { name: 'old node', command: ['bash', '.ci/old-node'] },
  ],
  [
    tests('clients', ['--project', 'tests', 'test/clients'], { RANGEWAY_CLIENTS: 'short' }),
    // The random faults of a fleet run with --all.
    tests(
      'faults',
      ['--project', 'tests', 'test/faults', 'test/store/disk-store-kill', '--exclude', 'test/faults/fleet.test.ts'],
      { RANGEWAY_FAULT_ROUNDS: '4' },
    ),
    program('planted', [], '--report'),
  ],
];

/** Before an issue is called resolved. */
const allLanes: readonly (readonly Step[])[] = [
  [quick, { ...tests('rest', ['test/packages/*']), command: [...vitest, 'rest', '--exclude', 'test/packages/*'] }],
  [
    program('check', []),
    program('conformance', [], '--report'),
    tests('packages', ['--project', 'packages']),
    tests('random', ['--project', 'tests', ...random], { RANGEWAY_TEST_RUNS: '1000' }),
    program('fuzz', ['--seconds', '60'], '--report'),
    program('planted', [], '--report'),
    program('bench', ['--short', '--peers', 'nginx', '--only', 'W1,W6,W26']),
    program('soak', ['--minutes', '5', '--report', join(dir, 'soak')], '--summary'),
    // More than four gigabytes, which 32 bits cannot count, through a process that may use 512 MiB of memory.
    {
      ...tests('large body', ['test/process/large-body.test.ts', '-t', 'too large for the disk store'], {
        RANGEWAY_LARGE_BODY_BYTES: '4400000000',
      }),
      maySkip: true,
    },
    node24([
      'test/origin',
      'test/store',
      'test/wire',
      '--exclude',
      'test/{origin/timeouts,store/{local-tier,redis-*,shared-*},wire/over-*}.test.ts',
    ]),
    { name: 'old node', command: ['bash', '.ci/old-node'] },
  ],
];

const chosen = (values.all ? allLanes : lanes).map((lane) =>
  lane.filter(({ name }) => positionals.length === 0 || positionals.includes(name)),
);
console.log(`seed ${values.seed}`);
const steps = new Map(chosen.flat().map((step) => [step.name, step]));
const ended = (await Promise.all(chosen.map(runInOrder))).flat();
const again: Again[] = [];
for (const file of ended.flatMap(failedFiles)) again.push({ ...file, passed: await passesAlone(file) });
const verdict = judge(ended, again);
console.log(`\n${verdict.lines.join('\n')}`);
rmSync(dir, { recursive: true, force: true });
process.exitCode = verdict.passed ? 0 : 1;

async function runInOrder(lane: readonly Step[]): Promise<Ended[]> {
  const results: Ended[] = [];
  for (const step of lane) results.push(await run(step));
  return results;
}

/** Runs a step to its end, then prints its output in one piece: the output of two lanes would mix. */
async function run(step: Step): Promise<Ended> {
  const { name, command, env = {}, reportBy, maySkip } = step;
  const place = join(dir, name.replaceAll(/\W/g, '-'));
  const [reportPath, outputPath, timePath] = [`${place}.json`, `${place}.log`, `${place}.time`];
  const words = reportBy?.startsWith('--') ? [...command, reportBy, reportPath] : command;
  console.log(`== ${name} begins`);
  const startedAt = performance.now();
  // Bash tells the processor time of everything that the command waited for, which Node does not.
  const script = 'TIMEFORMAT="%U %S"; exec 3>"$1" 4>"$2"; shift 2; { time "$@" >&3 2>&1; } 2>&4';
  const child = spawn('bash', ['-c', script, 'bash', outputPath, timePath, ...words], {
    stdio: 'ignore',
    env: {
      ...process.env,
      ...seeds,
      RANGEWAY_REQUIRE_CLIENTS: '1',
      ...(reportBy === 'environment' && { RANGEWAY_TEST_REPORT: reportPath }),
      ...env,
    },
  });
  const code = await new Promise<number>((resolve) => child.once('close', (exitCode) => resolve(exitCode ?? 1)));
  const [user = 0, system = 0] = read(timePath).trim().split('\n').at(-1)?.split(' ').map(Number) ?? [];
  const output = read(outputPath).trimEnd();
  const wallSeconds = (performance.now() - startedAt) / 1000;
  const processorSeconds = user + system;
  console.log(`== ${name}: ${wallSeconds.toFixed(0)} s, ${processorSeconds.toFixed(0)} s of processor time\n${output}`);
  return {
    name,
    code,
    wallSeconds,
    processorSeconds,
    lastOutput: output.split('\n').slice(-30).join('\n'),
    ...(existsSync(reportPath) && { report: JSON.parse(read(reportPath)) as TestReport }),
    ...(maySkip && { maySkip }),
  };
}

/** Returns whether a failed file passes by itself, with the same seed and settings. */
async function passesAlone({ step, file, project, first }: FailedFile): Promise<boolean> {
  console.log(`== ${file} failed in "${step}"; once more, alone:\n${first}`);
  const env = steps.get(step)?.env ?? {};
  const { code, report } = await run(tests(`${file} over ${project} alone`, ['--project', project, file], env));
  return code === 0 && (report?.numPassedTests ?? 0) > 0 && report?.numPendingTests === 0;
}

function read(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}
