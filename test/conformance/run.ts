/**
 * `npm run conformance`: runs the public suite and our own rows, and compares the suite's results with expectations.json.
 *
 *     npm run conformance -- [--json FILE] [--report FILE]     run both; FILE gets the figures, or a report in vitest's form
 *     npm run conformance -- --set-cookie store               run the public suite with another value of `cache.setCookie`
 *     npm run conformance -- --peers                           print the results that are published with the suite
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { runOwnRows } from './own-rows.ts';
import { installSuite, publishedResults, runSuite, type SetCookie, suiteVersion, type Wait } from './public-suite.ts';
import { addScores, type Expectations, findDifferences, formatScore, scoreOf, type Verdict } from './verdicts.ts';

/** The time limit of the whole run. */
const patienceMs = 10 * 60 * 1000;

const { values: options } = parseArgs({
  options: {
    json: { type: 'string' },
    report: { type: 'string' },
    peers: { type: 'boolean' },
    'set-cookie': { type: 'string' },
  },
});

/** Every wait ends at the time limit or on a signal. The processes that were started are then stopped. */
const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort(new Error(signal)));
const end = AbortSignal.any([interruption.signal, AbortSignal.timeout(patienceMs)]);
const ended = new Promise<never>((_resolve, reject) => {
  end.addEventListener('abort', () => reject(end.reason), { once: true });
});
ended.catch(() => undefined);
const wait: Wait = (thing) => Promise.race([thing, ended]);

await installSuite(wait);
if (options.peers === true) await printPeers();
else await runBoth();

async function runBoth(): Promise<void> {
  const version = await suiteVersion();
  const setCookie = readSetCookie(options['set-cookie']);
  const suite = await runSuite(wait, setCookie);
  const expectations = expectationsFor(
    JSON.parse(await readFile(join(projectDirectory, 'test/conformance/expectations.json'), 'utf8')),
    setCookie,
  );
  const differences = findDifferences(suite, expectations);
  const own = await runOwnRows(wait);
  for (const difference of differences) console.log(difference);
  for (const { id, passed, detail } of own.verdicts) if (!passed) console.log(`${id} failed: ${detail}`);

  const [suiteScore, ownScore] = [scoreOf(suite), scoreOf(own.verdicts)];
  console.log(`${version}: ${formatScore(suiteScore)}, ${Object.keys(expectations).length} in the list of exceptions`);
  console.log(`our own rows: ${formatScore(ownScore)}`);
  console.log(formatScore(addScores(suiteScore, ownScore)));
  if (options.json !== undefined) {
    await writeFile(
      options.json,
      `${JSON.stringify({ version, suite: suiteScore, own: ownScore, verdicts: suite }, null, 2)}\n`,
    );
  }
  if (options.report !== undefined)
    await writeFile(options.report, JSON.stringify(reportOf(version, suite, differences)));
  process.exitCode = differences.length === 0 && own.isGreen ? 0 : 1;
}

function readSetCookie(value = 'refuse'): SetCookie {
  if (value === 'refuse' || value === 'strip' || value === 'store') return value;
  throw new Error(`--set-cookie takes refuse, strip or store, and not ${value}`);
}

/** Returns the expectations without the tests that fail only with another value of `cache.setCookie`. */
function expectationsFor(all: Expectations, setCookie: SetCookie): Expectations {
  return Object.fromEntries(
    Object.entries(all).filter(([, { onlyWith }]) => onlyWith === undefined || onlyWith.includes(setCookie)),
  );
}

/** Returns a report in vitest's form: how many tests of the public suite passed, and each difference as a failure. */
function reportOf(version: string, verdicts: readonly Verdict[], differences: readonly string[]): object {
  return {
    numPassedTests: verdicts.filter(({ passed }) => passed).length,
    numFailedTests: differences.length,
    numPendingTests: 0,
    numTodoTests: 0,
    testResults: [
      {
        name: version,
        status: differences.length === 0 ? 'passed' : 'failed',
        assertionResults: differences.map((difference) => ({
          status: 'failed',
          fullName: difference,
          failureMessages: [],
        })),
      },
    ],
  };
}

async function printPeers(): Promise<void> {
  console.log('| cache | required | optimal |\n| --- | --- | --- |');
  for (const { name, version, verdicts } of await publishedResults()) {
    const { required, optimal } = scoreOf(verdicts);
    console.log(`| ${name} ${version} | ${required.passed} | ${optimal.passed} |`);
  }
}
