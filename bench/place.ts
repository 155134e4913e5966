/** Restarts the benchmark in its place: a network namespace whose TCP does not pace, pinned to the core of the load. */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type Cores, chooseCores, pinned } from './cores.ts';
import { findProgram } from './programs.ts';

/** Environment variable that marks the restarted benchmark, and passes the chosen cores to it. */
const placeVariable = 'RANGEWAY_BENCH_PLACE';

/** The cores that were chosen for the benchmark; undefined where nothing is pinned. */
export interface Place {
  readonly cores: Cores | undefined;
}

/** Congestion controls that pace packets. On loopback, pacing limits large sends and hides differences. */
const pacing: ReadonlySet<string> = new Set(['bbr']);

/** Command prefix: runs the command behind it in a network namespace with TCP Reno. Every kernel has Reno, and it does not pace. */
const inOwnNetwork = [
  'unshare',
  '--net',
  'sh',
  '-c',
  'ip link set lo up && echo reno > /proc/sys/net/ipv4/tcp_congestion_control && exec "$@"',
  'sh',
];

/** Returns the place of a restarted benchmark; undefined at its first start, which then calls `runInPlace`. */
export function currentPlace(): Place | undefined {
  const place = process.env[placeVariable];
  return place === undefined ? undefined : (JSON.parse(place) as Place);
}

/** Runs this command again in its place. Resolves with the exit code. */
export async function runInPlace(): Promise<number> {
  const cores = chooseCores();
  const network = mayOwnNetwork() ? inOwnNetwork : [];
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const [program = '', ...args] = [...network, ...pinned(cores?.load, again)];
  const place: Place = { cores };
  const child = spawn(program, args, {
    stdio: 'inherit',
    env: { ...process.env, [placeVariable]: JSON.stringify(place) },
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

/** Returns TCP's congestion control; undefined where /proc is missing. */
export function congestionControl(): { readonly name: string; readonly isPacing: boolean } | undefined {
  try {
    const name = readFileSync('/proc/sys/net/ipv4/tcp_congestion_control', 'latin1').trim();
    return { name, isPacing: pacing.has(name) };
  } catch {
    return undefined;
  }
}

/** Checks whether this process may create a network namespace: only on Linux, and usually only as root. */
function mayOwnNetwork(): boolean {
  const [program = '', ...args] = inOwnNetwork;
  if (process.platform !== 'linux' || findProgram(program) === undefined) return false;
  return spawnSync(program, [...args, 'true'], { stdio: 'ignore' }).status === 0;
}
