/**
 * The soak: `npm run soak`, `npm run soak -- --minutes 3 --seed 7 --report /tmp/soak`.
 *
 * Starts Rangeway with two workers before origins that fail, sends mixed clients, disturbs everything, checks every byte, and
 * writes a report with plots. Exits with 1 where a rule is broken. `--rate` sets the clients per second. `--summary` writes the
 * result in vitest's form.
 */

import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { processSeconds } from '../../bench/cpu-time.ts';
import { mayMount, mountSmallDisk } from '../support/processes/small-disk.ts';
import { storeRemains } from '../support/stores/store-remains.ts';
import { seededRandom } from '../support/stores/traces.ts';
import { Clients } from './clients.ts';
import { soakFiles } from './content.ts';
import { Disturbances } from './disturb.ts';
import { Excuses } from './excuses.ts';
import { Findings } from './findings.ts';
import { History } from './history.ts';
import { Load } from './load.ts';
import { openSoakOrigins } from './origins.ts';
import { actionNames, planDisturbances } from './plan.ts';
import { drawReport, formatReport, type SoakReport, vitestReport } from './report.ts';
import { readMetrics, Sampler } from './samples.ts';
import { type SoakServer, startSoakServer, storeBytes } from './server.ts';
import { judge } from './verdict.ts';

/** The disk of the store: its size, the free bytes that Rangeway keeps by default, and room for files while they are replaced. */
const diskBytes = 96_000_000;
const sampleEveryMs = 1500;
/** Time for fills without clients to end, on a machine that may be busy. */
const settlesWithinMs = 120_000;

interface Options {
  readonly seconds: number;
  readonly seed: number;
  readonly rate: number;
  readonly reportDir: string;
  readonly summary: string | undefined;
}

// The server is ended and the disk unmounted at an exit, which a signal alone is not.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const options = readOptions();
const report = await soak(options);
await mkdir(options.reportDir, { recursive: true });
await writeFile(join(options.reportDir, 'soak.svg'), drawReport(report));
await writeFile(join(options.reportDir, 'report.md'), formatReport(report, 'soak.svg'));
await writeFile(
  join(options.reportDir, 'samples.json'),
  JSON.stringify({ samples: report.samples, marks: report.marks }),
);
if (options.summary !== undefined) await writeFile(options.summary, JSON.stringify(vitestReport(report.rulings)));
process.exit(tell(report) ? 0 : 1);

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string' },
      seconds: { type: 'string' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      rate: { type: 'string', default: '20' },
      report: { type: 'string' },
      summary: { type: 'string' },
    },
  });
  const { minutes = '30', seed, rate, report: reportDir } = values;
  const seconds = values.seconds === undefined ? Number(minutes) * 60 : Number(values.seconds);
  if (!(seconds > 0) || !Number.isSafeInteger(Number(seed)) || !(Number(rate) > 0)) {
    console.error('--minutes or --seconds and --rate must be positive numbers, and --seed a whole number');
    process.exit(2);
  }
  return {
    seconds,
    seed: Number(seed),
    rate: Number(rate),
    reportDir: resolve(reportDir ?? join(tmpdir(), `rangeway-soak-${seed}`)),
    summary: values.summary,
  };
}

/** Runs everything. */
async function soak({ seconds, seed, rate, reportDir }: Options): Promise<SoakReport> {
  console.log(`soak of ${seconds} seconds, seed ${seed}, report in ${reportDir}`);
  await mkdir(reportDir, { recursive: true });
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-soak-'));
  const hasDisk = process.platform === 'linux' && process.getuid?.() === 0 && mayMount();
  if (!hasDisk) {
    const sentence = 'the full disk needs root on Linux and the right to mount';
    const { RANGEWAY_REQUIRE_CLIENTS: required } = process.env;
    if (required === '1') throw new Error(sentence);
    console.log(`SKIPPED: ${sentence}`);
  }
  try {
    await using disk = hasDisk ? await mountSmallDisk(diskBytes) : undefined;
    const history = new History();
    await using origins = await openSoakOrigins(history, seededRandom(seed + 1));
    const urls = new Map([...origins.of].map(([kind, { url }]) => [kind, url]));
    const storeDir = join(disk?.dir ?? dir, 'store');
    await using server = await startSoakServer(reportDir, storeDir, urls);
    const findings = new Findings();
    const excuses = new Excuses();
    const fullDisks = new Excuses();
    const clients = new Clients(server.plainUrl, server.tlsUrl);
    const load = new Load({ clients, history, excuses, fullDisks, findings, random: seededRandom(seed) });
    const diskDir = disk?.dir;
    const disturbances = new Disturbances({ server, origins, history, excuses, fullDisks, findings, load, diskDir });
    const sampler = new Sampler(server, load);

    const before = [processSeconds(server.pid) ?? 0, process.cpuUsage()] as const;
    const startedAt = performance.now();
    const disturbed = disturbances.run(planDisturbances(seededRandom(seed + 2), seconds));
    const running = load.run(rate);
    const sampled = sampler.run(sampleEveryMs);
    await lasting(seconds, server, load, findings);
    load.stop();
    disturbances.stop();
    sampler.stop();
    await Promise.all([disturbed, running, sampled]);
    const tookSeconds = (performance.now() - startedAt) / 1000;
    const { user, system } = process.cpuUsage(before[1]);
    const serverSeconds = (processSeconds(server.pid) ?? 0) - before[0];

    const ranToTheEnd = server.isRunning();
    const leftOver = ranToTheEnd ? await findLeftOver(server, load, clients, storeDir, findings) : [];
    const metrics = (ranToTheEnd ? await readMetrics(server) : undefined) ?? new Map<string, number>();
    const failedReloads = metrics.get('rangeway_reloads_total{result="failed"}') ?? 0;
    if (failedReloads > 0) findings.add('operations', `${failedReloads} reloads failed`);
    const exitCode = await server.stop();
    const { counts } = load;
    const rulings = judge({
      samples: sampler.samples,
      findings,
      maxStoreBytes: storeBytes,
      kills: disturbances.kills,
      restarts: metrics.get('rangeway_worker_restarts_total') ?? 0,
      damagedBlocks: metrics.get('rangeway_store_damaged_blocks_total') ?? 0,
      ranToTheEnd,
      exitCode,
      leftOver,
      errorLines: errorLines(readFileSync(server.logFile, 'utf8')),
      hits: counts.outcomes.hit,
      misses: counts.outcomes.miss,
      missingActions: actionNames.filter((action) => !counts.actions.has(action)),
    });
    return {
      seed,
      seconds,
      samples: sampler.samples,
      marks: disturbances.marks,
      counts,
      rulings,
      skipped: disturbances.skipped,
      originRequests: origins.requests,
      serverCores: serverSeconds / tookSeconds,
      generatorCores: (user + system) / 1e6 / tookSeconds,
    };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Waits for the end of the run; ends early where the server ends. Writes a line once a minute. */
async function lasting(seconds: number, server: SoakServer, load: Load, findings: Findings): Promise<void> {
  const until = performance.now() + seconds * 1000;
  for (let minute = 1; performance.now() < until && server.isRunning(); minute += 1) {
    const next = Math.min(until, performance.now() + 60_000);
    while (performance.now() < next && server.isRunning()) await delay(200);
    const { outcomes, explained } = load.counts;
    const breaches = findings.total;
    console.log(`${minute} min: ${JSON.stringify(outcomes)}, ${explained} explained, ${breaches} breaches`);
  }
}

/** Waits until nothing runs any more, asks for files once again, and looks for what is left over. */
async function findLeftOver(
  server: SoakServer,
  load: Load,
  clients: Clients,
  storeDir: string,
  findings: Findings,
): Promise<string[]> {
  await settled(async () => (await server.workers()).length === 2);
  // A lease that a dead worker still holds would make these requests fail or wait.
  for (const file of soakFiles.filter((_, at) => at % 7 === 0)) await load.expectWhole(file);
  clients.close();
  const gauges = ['rangeway_requests_in_flight', 'rangeway_fills_running', 'rangeway_connections_open'];
  const running = async (): Promise<string[]> => {
    const metrics = await readMetrics(server);
    return gauges.flatMap((name) => {
      const value = metrics?.get(name);
      return value === 0 ? [] : [`${name} is ${value} instead of 0`];
    });
  };
  await settled(async () => (await running()).length === 0);
  const isClean = async (): Promise<string | undefined> => {
    const { held, miscounted, orphans, bodiless } = await storeRemains(storeDir);
    const remains = { held, miscounted, orphans, bodiless };
    const clean = { held: [], miscounted: [0, 0], orphans: [], bodiless: [] };
    return JSON.stringify(remains) === JSON.stringify(clean) ? undefined : `the store has ${JSON.stringify(remains)}`;
  };
  await settled(async () => (await isClean()) === undefined);
  const metrics = await readMetrics(server);
  if (metrics?.get('rangeway_store_writable') !== 1) findings.add('operations', 'the store is not written any more');
  return [...(await running()), ...[await isClean()].filter((text) => text !== undefined)];
}

/** Polls until something is so, or for long enough. */
async function settled(isSo: () => Promise<boolean>): Promise<void> {
  const until = performance.now() + settlesWithinMs;
  while (!(await isSo()) && performance.now() < until) await delay(100);
}

/** Returns the lines of a log with the level `error`, and those that are no log lines at all, such as a trace of an exception. */
function errorLines(log: string): string[] {
  return log.split('\n').filter((line) => {
    if (line === '') return false;
    // A worker that is killed may leave half a line.
    if (!line.startsWith('{')) return true;
    // The workers that the soak kills are counted by a rule of their own.
    return /^\{"level":"(?:error|fatal)"/.test(line) && !line.includes('was ended by SIGKILL');
  });
}

/** Prints the verdict. Returns whether all rules were kept. */
function tell({ rulings, counts, skipped }: SoakReport): boolean {
  const broken = rulings.filter(({ breaches }) => breaches.length > 0);
  for (const { rule, breaches } of broken) {
    console.log(`BROKEN: ${rule}`);
    for (const breach of breaches) console.log(`  ${breach.slice(0, 1000)}`);
  }
  if (skipped.length > 0) console.log(`skipped: ${skipped.join(', ')}`);
  console.log(
    `${counts.outcomes.hit + counts.outcomes.miss} answers checked; the report is ${join(options.reportDir, 'report.md')}`,
  );
  console.log(`${rulings.length - broken.length} passed, ${broken.length} failed`);
  return broken.length === 0;
}
