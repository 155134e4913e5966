/** Where Rangeway's time goes: its functions by self time, from the profile that Node writes. */

import { copyFile, mkdir, readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Period } from './rounds.ts';
import { formatTable } from './table.ts';

/** How many functions are listed. */
const listed = 25;

/** A profile as V8 writes it. Times are microseconds of the monotonic clock. */
interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly startTime: number;
  /** The node of each sample, and the time since the one before it. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
}

/** Node's arguments that make it write a profile into a folder when it ends. */
export function profileArgs(dir: string): readonly string[] {
  return ['--cpu-prof', `--cpu-prof-dir=${dir}`];
}

/** Copies the profile in a folder to a file, whose path it gives. Browsers' developer tools open it. */
export async function keepProfile(dir: string, file: string): Promise<string> {
  const [name] = await readdir(dir);
  if (name === undefined) throw new Error(`no profile in ${dir}`);
  await mkdir(dirname(file), { recursive: true });
  await copyFile(join(dir, name), file);
  return file;
}

/** The functions with most self time in these periods, waiting left out, as a table. */
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
