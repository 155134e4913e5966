/** The place where the benchmark runs: a network of its own whose TCP does not pace, and the core of the load. */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type Cores, chooseCores, pinned } from './cores.ts';
import { findProgram } from './programs.ts';

/** Tells the second start of the benchmark that it is in its place, and which cores were chosen. */
const placeVariable = 'RANGEWAY_BENCH_PLACE';

/** Where this process runs. */
export interface Place {
  readonly cores: Cores | undefined;
}

/** Congestion controls that space packets out in time. On loopback that caps large sends and hides differences. */
const pacing: ReadonlySet<string> = new Set(['bbr']);

/**
 * Enters a network namespace whose TCP is Reno; then runs what follows. Reno is in every kernel, and it does not pace.
 */
const inOwnNetwork = [
  'unshare',
  '--net',
  'sh',
  '-c',
  'ip link set lo up && echo reno > /proc/sys/net/ipv4/tcp_congestion_control && exec "$@"',
  'sh',
];

/** The place, once the benchmark is in it; undefined in its first start, which only calls `runInPlace`. */
export function currentPlace(): Place | undefined {
  const told = process.env[placeVariable];
  return told === undefined ? undefined : (JSON.parse(told) as Place);
}

/** Runs this same command again, in its place; resolves with its exit code. */
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

/** The congestion control of TCP here; undefined where the system does not tell. */
export function congestionControl(): { readonly name: string; readonly isPacing: boolean } | undefined {
  try {
    const name = readFileSync('/proc/sys/net/ipv4/tcp_congestion_control', 'latin1').trim();
    return { name, isPacing: pacing.has(name) };
  } catch {
    return undefined;
  }
}

/** Only Linux has it, and mostly only for root. */
function mayOwnNetwork(): boolean {
  const [program = '', ...args] = inOwnNetwork;
  if (process.platform !== 'linux' || findProgram(program) === undefined) return false;
  return spawnSync(program, [...args, 'true'], { stdio: 'ignore' }).status === 0;
}
