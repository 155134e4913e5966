/** Workloads on many stored objects, with requests as many users send them. */

import { type Asking, checkedAnswer, checkedGet } from '../checked-get.ts';
import { checkedGetSecurely } from '../checked-get-h2.ts';
import { BenchFault } from '../fault.ts';
import type { ObjectsPlan, Over } from '../load/load.ts';
import { acceptEncoding } from '../load/requests.ts';
import type { PeerSettings } from '../peers/peer.ts';
import { distinctFile, distinctPatternBytes } from '../sample-file.ts';
import { requestMetrics, runSteadyLoad, type SteadyLoad } from './steady-load.ts';
import { type Goal, startTarget, type Target, type Workload } from './workload.ts';

/** Requests for each object before the measurement: a peer may keep in memory only what was requested again. */
const warmRounds = 3;
/** Concurrent requests before the measurement. */
const warmedAtOnce = 32;

/** Number of responses to a question, or over HTTP/2, that are compared byte by byte. */
const checkedAnswers = 32;

/** A series of files. */
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
  /** Settings of the peers that differ from the usual ones. */
  readonly settings?: PeerSettings;
  readonly over?: Over;
  /** Further fields of each request. */
  readonly fields?: Readonly<Record<string, string>>;
  /** Value of Vary in the origin's responses. */
  readonly vary?: string;
}

/** Creates a workload on many objects. */
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
  // The browsers' Accept-Encoding: the variant that it selects must be stored before the measurement.
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

/** Requests each file three times, and compares its bytes. Throws `BenchFault`. */
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
