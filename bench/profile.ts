/** Lists Rangeway's functions by self time, from the CPU profile that Node writes. */

import { copyFile, mkdir, readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Period } from './rounds.ts';
import { formatTable } from './table.ts';

/** Number of functions in the list. */
const listed = 25;

/** A profile as V8 writes it. Times are microseconds of the monotonic clock. */
interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly startTime: number;
  /** Node id of each sample, and the time since the previous sample. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
}

/** Returns the arguments with which Node writes a profile into a folder when it exits. */
export function profileArgs(dir: string): readonly string[] {
  return ['--cpu-prof', `--cpu-prof-dir=${dir}`];
}

/**
 * Copies the profile in a folder to a file, and returns the file's path. Browsers' developer tools can open it. Where several
 * processes have written one, it is the one of the process that was busiest in these periods.
 */
export async function keepProfile(dir: string, file: string, periods: readonly Period[]): Promise<string> {
  const found = await Promise.all(
    (await readdir(dir)).map(async (name) => ({ name, busyUs: busyTime(await readProfile(join(dir, name)), periods) })),
  );
  const [busiest] = found.sort((one, other) => other.busyUs - one.busyUs);
  if (busiest === undefined) throw new Error(`no profile in ${dir}`);
  await mkdir(dirname(file), { recursive: true });
  await copyFile(join(dir, busiest.name), file);
  return file;
}

/** Formats a table of the functions with the most self time in these periods. Idle time does not count. */
export async function formatProfile(file: string, periods: readonly Period[]): Promise<string> {
  const profile = await readProfile(file);
  const times = busyTimes(profile, periods);
  const total = busyTime(profile, periods);
  const top = [...times].sort(([, a], [, b]) => b - a).slice(0, listed);
  return formatTable([['self time', '%'], ...top.map(([place, time]) => [place, ((time / total) * 100).toFixed(1)])]);
}

async function readProfile(file: string): Promise<CpuProfile> {
  return JSON.parse(await readFile(file, 'utf8')) as CpuProfile;
}

function busyTime(profile: CpuProfile, periods: readonly Period[]): number {
  return busyTimes(profile, periods)
    .values()
    .reduce((sum, time) => sum + time, 0);
}

function busyTimes(profile: CpuProfile, periods: readonly Period[]): Map<string, number> {
  const times = selfTimes(profile, periods);
  times.delete('(idle)');
  return times;
}

function selfTimes({ nodes, samples, timeDeltas, startTime }: CpuProfile, periods: readonly Period[]) {
  const places = new Map(nodes.map((node) => [node.id, placeOf(node)]));
  const times = new Map<string, number>();
  let at = startTime;
  for (const [index, id] of samples.entries()) {
    const delta = timeDeltas[index] ?? 0;
    at += delta;
    const place = places.get(id) ?? '';
    if (periods.some(({ startUs, endUs }) => at >= startUs && at <= endUs)) {
      times.set(place, (times.get(place) ?? 0) + delta);
    }
  }
  return times;
}

function placeOf({ callFrame }: ProfileNode): string {
  const { functionName, url, lineNumber } = callFrame;
  const file = url.replace(/^.*\/(?=(?:src|node_modules)\/)/, '');
  return `${functionName === '' ? '(anonymous)' : functionName}${file === '' ? '' : ` ${file}:${lineNumber + 1}`}`;
}
