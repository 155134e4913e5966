/** What clients do and what goes wrong meanwhile, from the random numbers of a seed. Pure. */

import { type Kind, kindNames, kinds, pathOf, type SoakFile, soakFiles } from './content.ts';

/** Random numbers from 0 (inclusive) to 1 (exclusive). */
export type Random = () => number;

/** How a client connects: over a connection that is kept or closed, over TLS, or as a stream of HTTP/2. */
export type Transport = 'keep' | 'close' | 'tls' | 'http2';

/** What a client does. */
export type Action =
  | 'whole'
  | 'range'
  | 'ranges'
  | 'suffix'
  | 'beyond'
  | 'conditional'
  | 'resume'
  | 'abort'
  | 'slow reader'
  | 'head'
  | 'crowd'
  | 'post'
  | 'playlist'
  | 'idle'
  | 'hostile';

/** Weights: how often clients do what. */
const actions: Readonly<Record<Action, number>> = {
  whole: 22,
  range: 26,
  ranges: 6,
  suffix: 4,
  beyond: 2,
  conditional: 8,
  resume: 6,
  abort: 8,
  'slow reader': 2,
  head: 3,
  crowd: 2,
  post: 2,
  playlist: 4,
  idle: 2,
  hostile: 3,
};

/** The names of everything that clients do. */
export const actionNames = Object.keys(actions) as readonly Action[];

const transports: Readonly<Record<Transport, number>> = { keep: 40, close: 20, tls: 15, http2: 25 };

/** The plan of one client. */
export interface Visit {
  readonly action: Action;
  readonly transport: Transport;
  readonly file: SoakFile;
  /** Whether the client accepts gzip. */
  readonly takesGzip: boolean;
  /** Numbers from 0 to 1, from which offsets and pauses follow. */
  readonly chances: readonly number[];
}

/** Returns the plan of the next client. */
export function planVisit(random: Random): Visit {
  const action = weighted(actions, random);
  const transport = weighted(transports, random);
  const ofAction = soakFiles.filter(({ kind }) => isFor(kind, action));
  // A few files are asked for often, and most seldom.
  const file = ofAction[Math.floor(random() ** 3 * ofAction.length)] ?? ofAction[0];
  if (file === undefined) throw new Error(`no file is for "${action}"`);
  const takesGzip = random() < 0.5;
  return { action, transport, file: shuffled(file, ofAction), takesGzip, chances: Array.from({ length: 8 }, random) };
}

/** The order of the list follows the kinds, so that the often requested files would all be of the first kind. */
function shuffled(file: SoakFile, files: readonly SoakFile[]): SoakFile {
  return files[(files.indexOf(file) * 53 + 7) % files.length] ?? file;
}

function isFor(kind: Kind, action: Action): boolean {
  if (action === 'playlist') return kind === 'playlist';
  // Files without validators can neither be asked for by them nor resumed; other files have the time for what takes long.
  if (action === 'conditional' || action === 'resume') return kinds[kind].validator === 'tag' && kind !== 'playlist';
  return kind !== 'playlist';
}

/** Returns a range inside a body, as Range has it. */
export function rangeIn(sizeBytes: number, [at = 0, width = 0]: readonly number[]): string {
  const start = Math.floor(at * sizeBytes);
  const length = 1 + Math.floor(width ** 3 * (sizeBytes - start - 1));
  return width < 0.15 ? `${start}-` : `${start}-${start + length - 1}`;
}

/** Returns two to four ranges that do not touch each other. */
export function rangesIn(sizeBytes: number, chances: readonly number[]): string {
  const count = 2 + Math.floor((chances[0] ?? 0) * 3);
  const part = Math.floor(sizeBytes / count);
  return Array.from({ length: count }, (_, index) => {
    const start = index * part + Math.floor((chances[index + 1] ?? 0) * part * 0.2);
    return `${start}-${start + Math.floor(part * 0.4)}`;
  }).join(', ');
}

/** What goes wrong, or is done by an operator. */
export type DisturbanceKind =
  | 'origin cut'
  | 'origin reset'
  | 'origin 5xx'
  | 'origin hang'
  | 'reload by signal'
  | 'reload by API'
  | 'full disk'
  | 'kill'
  | 'purge URL'
  | 'purge URL softly'
  | 'purge prefix'
  | 'purge tag';

/** One of them. */
export interface Disturbance {
  /** Seconds after the start of the load. */
  readonly atSeconds: number;
  readonly kind: DisturbanceKind;
  readonly file: SoakFile;
}

/** In turns, so that each third of the run gets its share of each. */
const heavy: readonly DisturbanceKind[] = [
  'origin cut',
  'reload by signal',
  'kill',
  'origin 5xx',
  'full disk',
  'origin reset',
  'reload by API',
  'origin hang',
];
const light: readonly DisturbanceKind[] = ['purge URL', 'purge tag', 'purge URL softly', 'purge prefix'];

/** Seconds between two heavy disturbances, which last for less than that, and between two light ones. */
const heavyEverySeconds = 8;
const lightEverySeconds = 3;
/** The last seconds, in which nothing is disturbed. */
const quietSeconds = 12;

/** Returns all disturbances of a run, by time. */
export function planDisturbances(random: Random, seconds: number): readonly Disturbance[] {
  // A long run has longer pauses, so that most clients meet no fault and every cut has to have a cause.
  const pause = Math.min(15, Math.max(heavyEverySeconds, seconds / 60));
  const times = (every: number) => Math.max(0, Math.floor((seconds - quietSeconds) / every));
  const planned = (list: readonly DisturbanceKind[], every: number): Disturbance[] =>
    Array.from({ length: times(every) }, (_, index) => {
      const kind = list[index % list.length] ?? 'purge URL';
      const candidates = soakFiles.filter((file) => kind !== 'origin cut' || kinds[file.kind].hasLength);
      const file = candidates[Math.floor(random() * candidates.length)] ?? soakFiles[0];
      if (file === undefined) throw new Error('the origins have no files');
      return { atSeconds: (index + 0.5 + random() * 0.4) * every, kind, file };
    });
  return [...planned(heavy, pause), ...planned(light, lightEverySeconds)].sort((a, b) => a.atSeconds - b.atSeconds);
}

/** Returns the kinds of origins that an origin fault may affect: not those whose stale responses have no time limit. */
export const faultyKinds: readonly Kind[] = kindNames.filter((kind) => kind !== 'bare');

/** The text that names a disturbance in a report. */
export function describeDisturbance({ kind, file }: Disturbance): string {
  if (kind.startsWith('origin')) return `${kind}: ${file.kind}`;
  return kind.startsWith('purge') ? `${kind}: ${pathOf(file)}` : kind;
}

function weighted<Name extends string>(weights: Readonly<Record<Name, number>>, random: Random): Name {
  const entries = Object.entries(weights) as [Name, number][];
  let left = random() * entries.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [name, weight] of entries) {
    left -= weight;
    if (left < 0) return name;
  }
  return (entries.at(-1) as [Name, number])[0];
}
