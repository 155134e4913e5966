/** The public suite http-tests/cache-tests in its published release: installed in its own folder, and run by its own runner. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  projectDirectory,
  type RangewayProcess,
  startLine,
  startRangeway,
} from '../support/processes/rangeway-process.ts';
import type { TestKind, Verdict } from './verdicts.ts';

const folder = 'test/conformance/suite';
const name = 'http-cache-tests';

/** The suite numbers its requests in these fields. As part of the identity they would make each request unique. */
const countingFields = ['test-name', 'test-id', 'req-num'];

/** The values of the route's option `cache.setCookie`. */
export type SetCookie = 'refuse' | 'strip' | 'store';
const packageFolder = `${folder}/node_modules/${name}`;
const packageDirectory = join(projectDirectory, packageFolder);

/** The output of the suite's runner by test id: `true`, or the kind of failure and its sentence. */
type Results = Readonly<Record<string, true | readonly [kind: string, sentence: string]>>;

interface SuiteTest {
  readonly id: string;
  /** `undefined` means required. `check` only finds out what a cache does. */
  readonly kind?: TestKind | 'check';
  readonly browser_only?: boolean;
}

interface TestGroup {
  readonly tests: readonly SuiteTest[];
}

/** Returns how the suite's own pages show a result: an icon, a colour and a sign. Considers the tests that a test depends on. */
type Judge = (groups: readonly TestGroup[], id: string, results: Results) => readonly [string, string, string];

/** A cache whose results are published with the suite. */
export interface Peer {
  readonly name: string;
  readonly version: string;
  readonly type: string;
  readonly verdicts: readonly Verdict[];
}

/** Returns name and version of the suite, such as `http-cache-tests 0.4.5`. */
export async function suiteVersion(): Promise<string> {
  const { dependencies } = await readJson<{ dependencies: Record<string, string> }>(folder, 'package.json');
  return `${name} ${dependencies[name]}`;
}

/** Installs the suite unless this version is installed. Throws with npm's output where npm fails. */
export async function installSuite(wait: Wait): Promise<void> {
  const isThere = await readJson<{ version: string }>(packageFolder, 'package.json').then(
    async ({ version }) => (await suiteVersion()) === `${name} ${version}`,
    () => false,
  );
  if (isThere) return;
  await using npm = startLine(`cd ${folder} && exec npm ci --ignore-scripts --no-audit --no-fund`);
  if ((await wait(npm.ended())) === 0) return;
  throw new Error(`the public suite could not be installed (npm ci in ${folder}):\n${npm.output()}`);
}

/** Waits for a promise. Rejects where it takes too long. */
export type Wait = <T>(thing: Promise<T>) => Promise<T>;

/** Runs the suite against the executable, and judges the results as the suite's own pages do. */
export async function runSuite(wait: Wait, setCookie: SetCookie): Promise<readonly Verdict[]> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-conformance-'));
  try {
    await using server = startServer(dir);
    const [, port = ''] = await wait(server.waitFor(/Listening on http:\S+:(\d+)\//));
    await using proxy = await startInFront(dir, port, setCookie);
    const [, url = ''] = await wait(proxy.waitFor(/ready on (http:[^\s",]+),/));
    const resultsFile = join(dir, 'results.json');
    await using runner = startRunner(url, resultsFile);
    const code = await wait(runner.ended());
    const text = await readFile(resultsFile, 'utf8');
    if (code !== 0 || !text.startsWith('{')) throw new Error(`the suite did not run:\n${runner.output()}${text}`);
    return judge(JSON.parse(text));
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** Returns the results that are published with the release, without those of browsers. */
export async function publishedResults(): Promise<readonly Peer[]> {
  type Entry = Omit<Peer, 'verdicts'> & { readonly file: string };
  const { default: entries } = await importFrom<{ default: readonly Entry[] }>('results/index.mjs');
  const peers = entries.filter(({ type }) => type !== 'browser');
  return Promise.all(
    peers.map(async ({ file, ...peer }) => ({
      ...peer,
      verdicts: await judge(await readJson(packageFolder, 'results', file)),
    })),
  );
}

/** Starts the suite's server in the suite's folder, with the variables that npm would set for its scripts. */
function startServer(dir: string): RangewayProcess {
  return startLine(`cd ${packageFolder} && exec "$NODE" server/server.mjs`, {
    NODE: process.execPath,
    npm_config_protocol: 'http',
    npm_config_port: '0',
    npm_config_pidfile: join(dir, 'server.pid'),
  });
}

/** Starts Rangeway. Two options differ from the defaults: the suite tests Surrogate-Control, and numbers its requests in own fields. */
async function startInFront(dir: string, port: string, setCookie: SetCookie): Promise<RangewayProcess> {
  const file = join(dir, 'rangeway.json');
  const targetedFields = ['Rangeway-Cache-Control', 'CDN-Cache-Control', 'Surrogate-Control'];
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    routes: [
      {
        origin: `http://127.0.0.1:${port}`,
        cache: { targetedFields, setCookie, identityFields: { ignore: countingFields } },
      },
    ],
  };
  await writeFile(file, JSON.stringify(config));
  return startRangeway(['--config', file]);
}

function startRunner(base: string, resultsFile: string): RangewayProcess {
  return startLine(`cd ${packageFolder} && exec "$NODE" --no-warnings cli.mjs >"$RESULTS"`, {
    NODE: process.execPath,
    RESULTS: resultsFile,
    npm_config_base: base,
    // An empty id selects all tests.
    npm_config_id: '',
    npm_package_config_id: '',
  });
}

async function judge(results: Results): Promise<readonly Verdict[]> {
  const { determineTestResult: show } = await importFrom<{ determineTestResult: Judge }>('lib/display.mjs');
  const { default: groups } = await importFrom<{ default: readonly TestGroup[] }>('tests/index.mjs');
  const { default: surrogates } = await importFrom<{ default: TestGroup }>('tests/surrogate-control.mjs');
  const all = [...groups, surrogates];
  return all
    .flatMap(({ tests }) => tests)
    .filter((test) => test.browser_only !== true)
    .flatMap(({ id, kind = 'required' }) => {
      if (kind === 'check') return [];
      const [, , sign] = show(all, id, results);
      const result = results[id];
      return [{ id, kind, passed: sign === '✅', detail: describeResult(sign, result) }];
    });
}

function describeResult(sign: string, result: Results[string] | undefined): string {
  if (sign === '⚪️') return 'a test that it depends on was not passed';
  return result === true || result === undefined ? '' : result.join(': ');
}

function importFrom<T>(path: string): Promise<T> {
  return import(pathToFileURL(join(packageDirectory, path)).href);
}

async function readJson<T>(...path: string[]): Promise<T> {
  return JSON.parse(await readFile(join(projectDirectory, ...path), 'utf8'));
}
