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

/** Copies the profile in a folder to a file, and returns the file's path. Browsers' developer tools can open it. */
export async function keepProfile(dir: string, file: string): Promise<string> {
  const [name] = await readdir(dir);
  if (name === undefined) throw new Error(`no profile in ${dir}`);
  await mkdir(dirname(file), { recursive: true });
  await copyFile(join(dir, name), file);
  return file;
}

/** Formats a table of the functions with the most self time in these periods. Idle time does not count. */
export async function formatProfile(file: string, periods: readonly Period[]): Promise<string> {
  const profile = JSON.parse(await readFile(file, 'utf8')) as CpuProfile;
  const times = selfTimes(profile, periods);
  times.delete('(idle)');
  const total = times.values().reduce((sum, time) => sum + time, 0);
  const top = [...times].sort(([, a], [, b]) => b - a).slice(0, listed);
  return formatTable([['self time', '%'], ...top.map(([place, time]) => [place, ((time / total) * 100).toFixed(1)])]);
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
