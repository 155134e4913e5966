/** Workloads on many stored objects that many clients ask for, as users do. */

import { type Asking, checkedAnswer, checkedGet } from '../checked-get.ts';
import { checkedGetSecurely } from '../checked-get-h2.ts';
import { BenchFault } from '../fault.ts';
import type { ObjectsPlan, Over } from '../load/load.ts';
import { acceptEncoding } from '../load/requests.ts';
import type { PeerSettings } from '../peers/peer.ts';
import { distinctFile, distinctPatternBytes } from '../sample-file.ts';
import { requestMetrics, runSteadyLoad, type SteadyLoad } from './steady-load.ts';
import { type Goal, startTarget, type Target, type Workload } from './workload.ts';

/** How often each object is asked for before anything is measured: a peer may keep in memory what was asked for again. */
const warmRounds = 3;
/** How many objects are asked for at a time then. */
const warmedAtOnce = 32;

/** How many answers to a question, or over HTTP/2, are compared byte by byte. */
const checkedAnswers = 32;

/** What is asked for, of how many files. */
export interface AskedFiles {
  readonly series: string;
  readonly count: number;
  readonly sizeBytes: number;
}

/** A workload on many objects. */
export interface ObjectsWorkload extends Omit<ObjectsPlan, 'kind' | 'series' | 'fields'> {
  readonly name: string;
  readonly number: string;
  readonly title: string;
  readonly goals: readonly Goal[];
  /** How the peers run, where it is not as usual. */
  readonly settings?: PeerSettings;
  readonly over?: Over;
  /** Further fields of each request. */
  readonly fields?: Readonly<Record<string, string>>;
  /** The value of Vary that the origin sends. */
  readonly vary?: string;
}

/** Makes the workload. */
export function createObjectsWorkload(of: ObjectsWorkload): Workload {
  const { name, number, title, goals, count, sizeBytes, popularity, head, question, over, vary, fields = {} } = of;
  const settings: PeerSettings = { ...of.settings, isSecure: over !== undefined };
  const lines = Object.entries(fields).map(([field, value]) => `${field}: ${value}\r\n`);
  const request: ObjectsPlan = {
    ...{ kind: 'objects', series: name, count, sizeBytes, popularity, head, fields: lines.join('') },
    ...(question !== undefined && { question }),
  };
  const load: SteadyLoad = { request, connections: over === 'http2' ? 16 : 64, unit: 'requests', over };
  const files = { series: name, count, sizeBytes };
  // The variant that Accept-Encoding selects is to be stored.
  const encoding = head === 'browser' ? { 'Accept-Encoding': acceptEncoding } : {};
  const asking = { isSecure: over !== undefined, fields: { ...encoding, ...fields } };
  const run = async (target: Target) => {
    const { originRequests, measurement } = await runSteadyLoad(target, load);
    if (originRequests > 0) throw new BenchFault(`${target.name}: ${originRequests} misses where all should be hits`);
    return measurement;
  };
  return {
    name,
    number,
    title,
    kind: 'speed',
    origin: {
      kind: 'windows',
      patternBytes: distinctPatternBytes,
      bytesPerSecond: undefined,
      ...(vary !== undefined && { vary }),
    },
    bodyBytes: question?.bodyBytes ?? sizeBytes,
    metrics: requestMetrics,
    goals,
    over,
    hasFloor: true,
    ...(question?.method === 'HEAD' && { isOurs: true }),
    async prepare(contestant) {
      const target = await startTarget(contestant, settings);
      await askForAll(target, files, asking);
      for (let index = 0; index < checkedAnswers; index += 1) {
        const file = distinctFile(name, index % count, sizeBytes);
        if (over === 'http2') await checkedGetSecurely(target.peer.port, file);
        if (question !== undefined) await checkedAnswer(target.peer.port, file, question);
      }
      await target.warmUp(() => run(target));
      return () => run(target);
    },
  };
}

/** Asks for each file three times, and compares its bytes. */
export async function askForAll({ peer }: Target, files: AskedFiles, asking: Asking): Promise<void> {
  const { series, count, sizeBytes } = files;
  let asked = 0;
  const askOneByOne = async (): Promise<void> => {
    while (asked < warmRounds * count) {
      await checkedGet(peer.port, distinctFile(series, asked++ % count, sizeBytes), undefined, asking);
    }
  };
  await Promise.all(Array.from({ length: warmedAtOnce }, askOneByOne));
}
