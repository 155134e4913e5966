/** The list of all workloads; README.md has the table of their goals. */

import type { Over, Question } from '../load/load.ts';
import { bearerToken, pageOrigin } from '../peers/peer.ts';
import { sampleFile } from '../sample-file.ts';
import { createAmplifications } from './amplifications.ts';
import { createColdFile } from './cold-file.ts';
import { createColdTail } from './cold-tail.ts';
import { createFleetEngine } from './fleet-engine.ts';
import { createFleetMemory } from './fleet-memory.ts';
import { createFleetSlow } from './fleet-slow.ts';
import { createHitWorkload, type HitWorkload } from './hits.ts';
import { createLatencyWorkload } from './latency.ts';
import { createMediaWorkload, type MediaWorkload } from './media.ts';
import { createMemoryWorkload } from './memory.ts';
import { createMissWorkload } from './misses.ts';
import { createObjectsWorkload, type ObjectsWorkload } from './objects.ts';
import { createRangePosition, type RangePosition } from './range-position.ts';
import { createScalingWorkload } from './scaling.ts';
import { createStartWorkload } from './start.ts';
import { createValidations } from './validations.ts';
import type { Goal, Workload } from './workload.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

/** Sizes of files and memory, in bytes; numbers of entries, objects, files and connections. */
interface Sizes {
  readonly file: number;
  readonly bigFile: number;
  readonly download: number;
  readonly coldFile: number;
  readonly tailFile: number;
  readonly hugeFile: number;
  readonly smallFile: number;
  /** The file of which ranges are read from an engine. */
  readonly engineFile: number;
  /** Memory of the peer where the entry must be larger than it. */
  readonly littleMemory: number;
  /** Memory of the peer in the workload that measures memory. */
  readonly configuredMemory: number;
  readonly entries: number;
  readonly objects: number;
  readonly conditionObjects: number;
  readonly mediaFiles: number;
  readonly connections: number;
}

const fullSizes: Sizes = {
  file: 64 * MiB,
  bigFile: 1024 * MiB,
  download: 256 * MiB,
  coldFile: 100 * MiB,
  tailFile: 200 * MiB,
  hugeFile: 1024 * MiB,
  smallFile: 16 * MiB,
  engineFile: 256 * MiB,
  littleMemory: 64 * MiB,
  configuredMemory: 512 * MiB,
  entries: 1_000_000,
  objects: 20_000,
  conditionObjects: 2000,
  mediaFiles: 200,
  connections: 4000,
};
/** Large enough for several blocks. */
const shortSizes: Sizes = {
  file: 4 * MiB,
  bigFile: 8 * MiB,
  download: 8 * MiB,
  coldFile: 8 * MiB,
  tailFile: 16 * MiB,
  hugeFile: 64 * MiB,
  smallFile: 4 * MiB,
  engineFile: 16 * MiB,
  littleMemory: 4 * MiB,
  configuredMemory: 4 * MiB,
  entries: 2000,
  objects: 200,
  conditionObjects: 100,
  mediaFiles: 8,
  connections: 80,
};

/** Workloads that are also run with two workers. */
const scaled: ReadonlySet<string> = new Set(['object-1k', 'ranges-1k', 'ranges-64k']);

/** The goal of at least nginx's rate, in requests or bytes per second. */
const level: Goal = { key: 'rate', of: 'ratio', atLeast: 1 };

/** Creates the workloads in the order in which they run. Short ones have small sizes, for checks only. */
export function createWorkloads({ isShort }: { readonly isShort: boolean }): readonly Workload[] {
  const sizes = isShort ? shortSizes : fullSizes;
  const { bigFile, coldFile, tailFile, entries, connections, configuredMemory } = sizes;
  const all = [
    ...hits(sizes).map(createHitWorkload),
    ...objects(sizes).map(createObjectsWorkload),
    ...conditions(sizes).map(createObjectsWorkload),
    ...media(sizes).map(createMediaWorkload),
    createMissWorkload({
      name: 'misses',
      title: 'distinct files of 64 KiB, each asked for once, 64 connections',
      goals: [level],
      fileBytes: 64 * KiB,
      connections: 64,
    }),
    createColdFile({
      name: 'cold-file',
      title: `50 clients at random 64 KiB ranges of a cold ${coldFile / MiB} MiB file, legacy origin at 50 MB/s`,
      fileBytes: coldFile,
      rangeBytes: 64 * KiB,
      clients: 50,
      bytesPerSecond: 50e6,
    }),
    ...[false, true].map((hasRanges) => createColdTail({ hasRanges, fileBytes: tailFile })),
    createStartWorkload({ entries }),
    createMemoryWorkload({
      hotBytes: bigFile,
      memoryBytes: configuredMemory,
      firstConnections: connections / 8,
      furtherConnections: connections,
      settleMs: isShort ? 10 : 2000,
    }),
    ...[false, true].map((isDefault) =>
      createLatencyWorkload({ fileBytes: bigFile, rangeBytes: 64 * KiB, connections: 64, isDefault }),
    ),
    ...hits(sizes)
      .filter(({ name }) => (isShort ? name === 'object-1k' : scaled.has(name)))
      .map(createScalingWorkload),
    createValidations({ fileBytes: 2000, connections: isShort ? 50 : 500 }),
    ...fleet(sizes, isShort).filter(({ name }) => !isShort || name !== 'fleet-memory-64k'),
  ].sort(byNumber);
  return [...all, createRangePosition(rangePosition(sizes)), ...createAmplifications({ isShort })];
}

/** Compares workloads by their order in the table of goals. */
function byNumber(a: Workload, b: Workload): number {
  return (a.number ?? '').localeCompare(b.number ?? '', 'en', { numeric: true });
}

function rangePosition({ hugeFile, smallFile }: Sizes): RangePosition {
  return {
    name: 'range-position',
    title: `64 KiB ranges at the start, middle and end of ${hugeFile / MiB} and ${smallFile / MiB} MiB entries on the disk, one client`,
    largeBytes: hugeFile,
    smallBytes: smallFile,
    rangeBytes: 64 * KiB,
    memoryBytes: 4 * MiB,
  };
}

/** Workloads on many objects. */
function objects({ objects: many }: Sizes): readonly ObjectsWorkload[] {
  const cpu: Goal = { key: 'cpu', of: 'ratio', atMost: 1.1 };
  const plan = { sizeBytes: KiB, goals: [cpu], settings: { isDefault: true } };
  const browsers = 'heads of a browser: 500 user agents, 3 languages, 1000 referrers';
  return [
    {
      ...plan,
      name: 'agents',
      number: 'W15',
      title: `20 objects of 1 KiB, ${browsers}`,
      count: 20,
      popularity: 'even',
      head: 'browser',
    },
    {
      ...plan,
      name: 'many',
      number: 'W16',
      title: `${many} objects of 1 KiB, two fields`,
      count: many,
      popularity: 'even',
      head: 'plain',
    },
    {
      ...plan,
      name: 'varied',
      number: 'W17',
      title: `${many} objects of 1 KiB, few of them often, ${browsers}`,
      count: many,
      popularity: 'skewed',
      head: 'browser',
    },
    {
      ...plan,
      goals: [{ key: 'cpu', of: 'ratio', atMost: 1.25 }],
      settings: { isDefault: true, isLogged: true },
      name: 'varied-logged',
      number: 'W18',
      title: `${many} objects of 1 KiB, few of them often, ${browsers}; a line for each in the log`,
      count: many,
      popularity: 'skewed',
      head: 'browser',
    },
    ...(['tls', 'http2'] as const).map(
      (over): ObjectsWorkload => ({
        ...plan,
        goals: [{ key: 'cpu', of: 'ratio', atMost: 1.25 }],
        name: `varied-${over}`,
        number: 'W22',
        title: `W17 ${overTls[over]}`,
        count: many,
        popularity: 'skewed',
        head: 'browser',
        over,
      }),
    ),
    {
      ...plan,
      goals: [{ key: 'cpu', of: 'ratio', atMost: 1.25 }],
      settings: { isDefault: true, isGuarded: true },
      name: 'varied-guarded',
      number: 'W23',
      title: 'W17 with a bearer token, CORS, a rate limit, and Vary: Accept-Encoding of the origin',
      count: many,
      popularity: 'skewed',
      head: 'browser',
      fields: { Authorization: `Bearer ${bearerToken}`, Origin: pageOrigin },
      vary: 'Accept-Encoding',
    },
  ];
}

const overTls: Readonly<Record<Over, string>> = {
  tls: 'over TLS and HTTP/1.1',
  http2: 'over TLS and HTTP/2, 4 streams on each connection',
};

/** Workloads of conditional, HEAD and multi-range requests for many objects. */
function conditions({ conditionObjects: count }: Sizes): readonly ObjectsWorkload[] {
  const sizeBytes = 16 * KiB;
  const range = `Range: bytes=4096-${4096 + KiB - 1}\r\n`;
  const threeRanges = [0, 4096, 8192].map((start) => `${start}-${start + KiB - 1}`).join(',');
  const questions: Readonly<Record<string, readonly [title: string, question: Question]>> = {
    'none-match': ['304 by If-None-Match', { fields: 'If-None-Match: {etag}\r\n', status: 304, bodyBytes: 0 }],
    'modified-since': [
      '304 by If-Modified-Since',
      { fields: `If-Modified-Since: Wed, 01 Jan 2020 00:00:00 GMT\r\n`, status: 304, bodyBytes: 0 },
    ],
    'if-range': ['206 by If-Range', { fields: `${range}If-Range: {etag}\r\n`, status: 206, bodyBytes: KiB }],
    'if-range-other': [
      '200 by If-Range',
      { fields: `${range}If-Range: "other"\r\n`, status: 200, bodyBytes: sizeBytes },
    ],
    head: ['HEAD', { method: 'HEAD', fields: '', status: 200, bodyBytes: 0 }],
    multipart: [
      'three ranges of 1 KiB',
      { fields: `Range: bytes=${threeRanges}\r\n`, status: 206, bodyBytes: 3 * KiB },
    ],
  };
  return Object.entries(questions).map(([name, [title, question]]) => ({
    name: `conditions-${name}`,
    number: 'W20',
    title: `${title}, of ${count} objects of 16 KiB, few of them often, heads of a browser`,
    goals: [{ key: 'cpu', of: 'ratio', atMost: 1.11 }],
    settings: { isDefault: true },
    count,
    sizeBytes,
    popularity: 'skewed',
    head: 'browser',
    question,
  }));
}

/** Workloads of nodes with a store in an engine. */
function fleet({ conditionObjects: count, file: fileBytes, engineFile }: Sizes, isShort: boolean): readonly Workload[] {
  return [
    createFleetMemory({
      name: 'fleet-memory-1k',
      title: `${count} objects of 1 KiB in memory, few of them often, heads of a browser, default options`,
      request: {
        ...{ kind: 'objects', series: 'fleet-memory', count, sizeBytes: KiB, popularity: 'skewed', head: 'browser' },
      },
    }),
    createFleetMemory({
      name: 'fleet-memory-64k',
      title: `random 64 KiB ranges of a ${fileBytes / MiB} MiB entry in memory, default options, without sendfile`,
      request: { kind: 'ranges', file: sampleFile('fleet-memory', fileBytes), sizeBytes: 64 * KiB },
    }),
    createFleetEngine({ fileBytes: engineFile, rangeBytes: 64 * KiB, mostNodes: isShort ? 2 : 3 }),
    createFleetSlow({ objects: count, fileBytes }),
  ];
}

/** Workloads of ranges of files that are in total four times Rangeway's default memory. */
function media({ mediaFiles: count }: Sizes): readonly MediaWorkload[] {
  const files = { count, fileBytes: 2_560_000, rangeBytes: MiB, newShare: 0.05 };
  const title = `random 1 MiB ranges of ${count} files of 2.56 MB, 5 % of them of files that were never asked for`;
  const overs = ['tls', 'http2'] as const;
  return [
    { ...files, name: 'media', number: 'W21', title, goals: [] },
    ...overs.map((over): MediaWorkload => {
      const goals: readonly Goal[] = [{ key: 'cpu', of: 'ratio', atMost: 1.25 }];
      return { ...files, name: `media-${over}`, number: 'W22', title: `W21 ${overTls[over]}`, goals, over };
    }),
  ];
}

function hits({ file, bigFile, download, littleMemory }: Sizes): readonly HitWorkload[] {
  const ranges = (number: string, name: string, rangeBytes: number, fileBytes: number): HitWorkload => {
    const connections = rangeBytes < MiB ? 64 : 32;
    const size = rangeBytes < MiB ? `${rangeBytes / KiB} KiB` : `${rangeBytes / MiB} MiB`;
    const title = `random ${size} ranges of a ${fileBytes / MiB} MiB entry, ${connections} connections`;
    return { name, number, title, goals: [level], fileBytes, rangeBytes, connections, unit: 'requests' };
  };
  return [
    {
      name: 'object-1k',
      number: 'W1',
      title: 'a whole object of 1 KiB, 64 connections',
      goals: [level],
      fileBytes: KiB,
      rangeBytes: undefined,
      connections: 64,
      unit: 'requests',
      hasFloor: true,
    },
    { ...ranges('W2', 'ranges-1k', KiB, file), hasFloor: true },
    ranges('W3', 'ranges-64k', 64 * KiB, bigFile),
    ranges('W4', 'ranges-1m', MiB, bigFile),
    {
      name: 'downloads',
      number: 'W5',
      title: `whole downloads of ${download / MiB} MiB, 16 at a time`,
      goals: [level],
      fileBytes: download,
      rangeBytes: undefined,
      connections: 16,
      unit: 'gigabytes',
    },
    {
      ...ranges('W12', 'tls-h2', 64 * KiB, file),
      title: `one 64 KiB range of a ${file / MiB} MiB entry over TLS and HTTP/2, another one in each round; 16 connections, 4 streams each`,
      connections: 16,
      settings: { isSecure: true },
      hasFloor: true,
    },
    {
      ...ranges('W13', 'ranges-64k-page-cache', 64 * KiB, bigFile),
      title: `random 64 KiB ranges of a ${bigFile / MiB} MiB entry that the system has in memory, the peer only ${littleMemory / MiB} MiB; 64 connections`,
      goals: [{ key: 'rate', of: 'ratio', atLeast: 0.8 }],
      settings: { memoryBytes: littleMemory },
    },
    ...[64 * KiB, MiB].map((rangeBytes): HitWorkload => {
      const of = ranges('W19', rangeBytes < MiB ? 'large-64k' : 'large-1m', rangeBytes, bigFile);
      const goals: readonly Goal[] = [{ key: 'cpu', of: 'ratio', atMost: 1.11 }];
      return { ...of, title: `${of.title}, default options`, goals, settings: { isDefault: true }, hasFloor: true };
    }),
  ];
}
