/** `npm run bench`: Rangeway and its peers side by side on this machine, under the same load. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, release, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compareEvictions, evictionName, formatEvictions } from './eviction.ts';
import { BenchFault } from './fault.ts';
import { formatAmplification, missedGoals } from './goals.ts';
import { chooseGenerators } from './load/generators.ts';
import { type BenchOptions, isSelected, parseOptions, usage } from './options.ts';
import { findNginx } from './peers/nginx.ts';
import type { Peer } from './peers/peer.ts';
import { rangewayPeer } from './peers/rangeway.ts';
import { congestionControl, currentPlace, type Place, runInPlace } from './place.ts';
import { formatProfile, profileArgs } from './profile.ts';
import { formatSummary, formatWorkload, toJson } from './report.ts';
import { type RunContext, runWorkload, type WorkloadResult } from './rounds.ts';
import { createWorkloads } from './workloads/workloads.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const resultsDir = join(root, 'bench/results');

process.exitCode = await main();

async function main(): Promise<number> {
  const names = [...createWorkloads({ isShort: true }).map(({ name }) => name), evictionName];
  const parsed = parseOptions(process.argv.slice(2), names);
  if (parsed.kind === 'help') {
    console.log(`${usage}\n\nworkloads: ${names.join(', ')}`);
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
  const scratch = openScratch();
  const profileDir = join(scratch, 'profile');
  const peers = findPeers(options, profileDir);
  const generators = chooseGenerators(options.load, { cores, scratch });
  const machine = describeMachine(cores !== undefined);
  console.log(
    `${machine}\n${peers.map(({ name, version }) => `${name} ${version}`).join(', ')}; ` +
      `in turns, ${options.rounds} × ${options.seconds} s each; medians\n`,
  );

  const context: RunContext = { ...options, peers, generators, cores, scratch };
  const { results, faults } = await runAll(options, context, profileDir);
  const evictions = isSelected(evictionName, options.only) ? compareEvictions(options) : [];
  const missed = missedGoals(results);
  if (options.isShort) faults.push(...missed);
  const tables = [
    evictions.length > 0 ? formatEvictions(evictions) : undefined,
    formatAmplification(results),
    missed.length > 0 ? missed.map((sentence) => `  MISSED: ${sentence}`).join('\n') : undefined,
    formatSummary(results),
  ];
  console.log(tables.filter((table) => table !== undefined).join('\n\n'));
  const workloads = toJson(results);
  writeResults({ at: new Date().toISOString(), machine, options, peers, workloads, evictions, missed, faults });
  return faults.length === 0 ? 0 : 1;
}

/** Prints each result as soon as it is there; a workload that fails is told among the faults. */
async function runAll(
  options: BenchOptions,
  context: RunContext,
  profileDir: string,
): Promise<{ readonly results: WorkloadResult[]; readonly faults: string[] }> {
  const results: WorkloadResult[] = [];
  const faults: string[] = [];
  for (const workload of createWorkloads(options)) {
    if (!isSelected(workload.name, options.only)) continue;
    try {
      const result = await runWorkload(workload, context);
      results.push(result);
      console.log(`${formatWorkload(result)}\n`);
      if (options.isProfiled) console.log(`${await formatProfile(profileDir, result.peers[0]?.periods ?? [])}\n`);
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

function findPeers({ against, isProfiled }: BenchOptions, profileDir: string): readonly Peer[] {
  const nodeArgs = isProfiled ? profileArgs(profileDir) : [];
  const peers = [rangewayPeer({ name: 'rangeway', root, nodeArgs })];
  if (against !== undefined) {
    peers.push(rangewayPeer({ name: 'rangeway-against', root: resolve(against), nodeArgs: [] }));
  }
  for (const found of [findNginx()]) {
    if (found.kind === 'found') peers.push(found.peer);
    else console.log(`${found.name} is not installed and left out (${found.hint})`);
  }
  return peers;
}

/** Removed when this process ends, however it does. */
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

function writeResults(results: unknown): void {
  mkdirSync(resultsDir, { recursive: true });
  writeFileSync(join(resultsDir, 'latest.json'), `${JSON.stringify(results, undefined, 2)}\n`);
}
