/** `npm run bench`: measures Rangeway and its peers on this machine under the same load. README.md describes the workloads. */

import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, loadavg, release, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatAmplification } from './amplification-table.ts';
import { missingEngine } from './engine/engine.ts';
import { compareEvictions, evictionName, formatEvictions } from './eviction.ts';
import { BenchFault } from './fault.ts';
import { formatVerdicts, judge, missedCounts, type Verdict } from './goals.ts';
import { chooseGenerators } from './load/generators.ts';
import { mergeRuns } from './merge-runs.ts';
import { type BenchOptions, parseOptions, usage } from './options.ts';
import { floorName, floorPeer } from './peers/floor.ts';
import { findNginx } from './peers/nginx.ts';
import type { Peer } from './peers/peer.ts';
import { rangewayPeer } from './peers/rangeway.ts';
import { findTrafficServer } from './peers/traffic-server.ts';
import { findVarnish } from './peers/varnish.ts';
import { congestionControl, currentPlace, type Place, runInPlace } from './place.ts';
import { formatProfile, keepProfile, profileArgs } from './profile.ts';
import { formatCosts, formatSummary, formatWorkload } from './report.ts';
import { writeResults } from './results.ts';
import { type RunContext, runWorkload, type WorkloadResult } from './rounds.ts';
import { workloadLabel } from './workloads/workload.ts';
import { createWorkloads } from './workloads/workloads.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const resultsDir = join(root, 'bench/results');

process.exitCode = await main();

async function main(): Promise<number> {
  const known = [...createWorkloads({ isShort: false }), { name: evictionName }];
  const parsed = parseOptions(process.argv.slice(2), known);
  if (parsed.kind === 'help') {
    console.log(`${usage}\n\nworkloads: ${known.map(workloadLabel).join(', ')}`);
    return 0;
  }
  if (parsed.kind === 'refused') {
    console.error(`bench: ${parsed.reason}`);
    return 2;
  }
  const place = currentPlace();
  return place === undefined ? await runInPlace() : await run(parsed.options, place);
}

async function run(options: BenchOptions, { cores }: Place): Promise<number> {
  // A full run measures the start of processes, so it does not use a compile cache.
  if (options.isShort) process.env['NODE_COMPILE_CACHE'] ??= join(root, 'node_modules/.cache/node-compile-cache');
  const scratch = openScratch();
  const profileDir = join(scratch, 'profile');
  const peers = findPeers(options, profileDir);
  const generators = chooseGenerators(options.load, { cores, scratch });
  const machine = describeMachine(cores !== undefined);
  console.log(
    `${machine}\n${peers.map(({ name, version }) => `${name} ${version}`).join(', ')}; ` +
      `in turns, ${options.rounds} × ${options.seconds} s each; medians\n`,
  );

  const lacking = missingEngine();
  if (lacking !== undefined) {
    const names = createWorkloads(options).filter(
      ({ name, rows }) => rows?.needsEngine && options.names.includes(name),
    );
    if (names.length > 0) console.log(`${names.map(workloadLabel).join(', ')} are left out: ${lacking}\n`);
  }
  const context: RunContext = { ...options, peers, generators, cores, scratch };
  const runs: { readonly results: readonly WorkloadResult[]; readonly verdicts: readonly Verdict[] }[] = [];
  const faults: string[] = [];
  for (let time = 1; time <= options.repeat; time += 1) {
    if (options.repeat > 1) console.log(`— run ${time} of ${options.repeat}\n`);
    const run = await runAll(options, context, profileDir);
    const verdicts = judge(run.results);
    runs.push({ results: run.results, verdicts });
    faults.push(...run.faults, ...(options.isShort ? missedCounts(verdicts) : []));
  }
  const evictions = options.names.includes(evictionName) ? compareEvictions(options) : [];
  const merged = mergeRuns(runs.map(({ results }) => results));
  const withoutFloor = merged.map((result) => ({
    ...result,
    peers: result.peers.filter(({ name }) => name !== floorName),
  }));
  const tables = [
    evictions.length > 0 ? formatEvictions(evictions) : undefined,
    formatAmplification(merged),
    formatSummary(withoutFloor),
    formatCosts(merged),
    formatVerdicts(runs.map(({ verdicts }) => verdicts)),
    faults.length > 0 ? faults.map((sentence) => `FAILED: ${sentence.split('\n', 1)[0]}`).join('\n') : undefined,
  ];
  console.log(tables.filter((table) => table !== undefined).join('\n\n'));
  // Short and profiled runs measure no real speed: they must not overwrite the results of a full run.
  if (options.isShort || options.isProfiled) return faults.length === 0 ? 0 : 1;
  const command = ['npm run bench --', ...process.argv.slice(2)].join(' ').replace(/ --$/, '');
  writeResults(resultsDir, { command, machine, peers, options, runs, evictions, faults });
  return faults.length === 0 ? 0 : 1;
}

/** Runs all selected workloads, and prints each result at once. Returns the results, and a fault for each workload that failed. */
async function runAll(
  options: BenchOptions,
  context: RunContext,
  profileDir: string,
): Promise<{ readonly results: WorkloadResult[]; readonly faults: string[] }> {
  const results: WorkloadResult[] = [];
  const faults: string[] = [];
  for (const workload of createWorkloads(options)) {
    if (!options.names.includes(workload.name)) continue;
    if (workload.rows?.needsEngine === true && missingEngine() !== undefined) continue;
    try {
      const result = await runWorkload(workload, context);
      if (result === undefined) {
        console.log(
          `${workloadLabel(workload)} is left out: h2load is not installed (apt-get install nghttp2-client)\n`,
        );
        continue;
      }
      results.push(result);
      console.log(`${formatWorkload(result)}\n`);
      if (options.isProfiled) await printProfile(result, profileDir);
    } catch (error) {
      if (!(error instanceof BenchFault)) throw error;
      faults.push(`${workload.name}: ${error.message}`);
      console.log(`${workload.name}: FAILED: ${error.message}\n`);
    } finally {
      rmSync(profileDir, { recursive: true, force: true });
    }
  }
  return { results, faults };
}

/** Copies the profile of a workload to the results folder, and prints the functions with the most self time in its rounds. */
async function printProfile({ workload, peers }: WorkloadResult, profileDir: string): Promise<void> {
  const periods = peers[0]?.periods ?? [];
  const kept = await keepProfile(profileDir, join(resultsDir, `${workload.name}.cpuprofile`), periods);
  console.log(`${kept}\n${await formatProfile(kept, periods)}\n`);
}

function findPeers(options: BenchOptions, profileDir: string): readonly Peer[] {
  const { peers: wanted, against, isCopyingToo, isProfiled } = options;
  const nodeArgs = isProfiled ? profileArgs(profileDir) : [];
  // Without node:ffi there is no sendfile, as with Node 24 or over TLS; all other options are the same.
  const copying = rangewayPeer({ name: 'rangeway-copying', root, nodeArgs: [...nodeArgs, '--no-experimental-ffi'] });
  if (isProfiled) return [isCopyingToo ? copying : rangewayPeer({ name: 'rangeway', root, nodeArgs })];
  const peers = [rangewayPeer({ name: 'rangeway', root, nodeArgs })];
  if (isCopyingToo) peers.push(copying);
  if (against !== undefined) {
    peers.push(rangewayPeer({ name: 'rangeway-against', root: resolve(against), nodeArgs: [] }));
  }
  for (const found of [findNginx(), findVarnish(), findTrafficServer()]) {
    const { name } = found.kind === 'found' ? found.peer : found;
    if (wanted !== undefined && !wanted.includes(name)) continue;
    if (found.kind === 'found') peers.push(found.peer);
    else console.log(`${found.name} is not installed and left out (${found.hint})`);
  }
  peers.push(floorPeer);
  return peers;
}

/** Creates a temporary folder. It is removed when this process exits, also by SIGINT or SIGTERM. */
function openScratch(): string {
  const scratch = mkdtempSync(join(tmpdir(), 'rangeway-bench-'));
  process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
  for (const [signal, code] of [['SIGINT', 130] as const, ['SIGTERM', 143] as const]) {
    process.on(signal, () => process.exit(code));
  }
  return scratch;
}

function describeMachine(isPinned: boolean): string {
  const congestion = congestionControl();
  const pinning = isPinned ? 'proxy and load on cores of their own' : 'NOT pinned: no taskset, or one core only';
  const tcp = congestion === undefined ? 'unknown' : congestion.name;
  const warning = congestion?.isPacing === true ? ' (it PACES, which hides differences: run as root on Linux)' : '';
  return `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, ${process.platform} ${release()}; ${pinning}; TCP ${tcp}${warning}; load average before: ${loadavg()[0]?.toFixed(1)}`;
}
