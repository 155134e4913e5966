/** Workloads on one stored file: all responses are hits, which the origin's counter proves. */

import { setTimeout as wait } from 'node:timers/promises';
import type { Span } from '../../src/bytes/span.ts';
import { type Asking, checkedGet } from '../checked-get.ts';
import { checkedGetSecurely } from '../checked-get-h2.ts';
import { BenchFault } from '../fault.ts';
import type { PeerSettings } from '../peers/peer.ts';
import { type SampleFile, sampleFile } from '../sample-file.ts';
import { countedRequestMetrics, requestMetrics, runSteadyLoad, type SteadyLoad, volumeMetrics } from './steady-load.ts';
import { type Goal, startTarget, type Target, type Workload } from './workload.ts';

/** Number of responses that are compared byte by byte before the measurement. */
const checkedAnswers = 32;

/** A cache may finish storing after the client has read the last byte: number of tries until a hit, and the pause between them. */
const hitTries = 100;
const pauseMs = 100;

/** A workload on one file. */
export interface HitWorkload {
  readonly name: string;
  readonly number: string;
  readonly title: string;
  readonly fileBytes: number;
  /** Size of the ranges; undefined: the whole file is requested. */
  readonly rangeBytes: number | undefined;
  readonly connections: number;
  readonly unit: SteadyLoad['unit'];
  readonly goals: readonly Goal[];
  /** Settings of the peers that differ from the usual ones. */
  readonly settings?: PeerSettings;
  /** Whether the floor takes part. */
  readonly hasFloor?: true;
}

/** Creates a workload of hits on one file. */
export function createHitWorkload(of: HitWorkload): Workload {
  const { name, number, title, goals, fileBytes, rangeBytes, connections, unit, settings } = of;
  const file = sampleFile(name, fileBytes);
  const load: SteadyLoad = {
    request: rangeBytes === undefined ? { kind: 'whole', file } : { kind: 'ranges', file, sizeBytes: rangeBytes },
    connections,
    unit,
  };
  const isLarge = rangeBytes === undefined && unit === 'gigabytes';
  const isSecure = settings?.isSecure === true;
  const get = isSecure ? checkedGetSecurely : checkedGet;
  const checkOne = ({ peer }: Target) => get(peer.port, file, randomSpan(fileBytes, rangeBytes));
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
    origin: { kind: 'windows', patternBytes: fileBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes ?? fileBytes,
    goals,
    ...(isSecure ? { isSecure } : {}),
    ...(of.hasFloor && { hasFloor: of.hasFloor }),
    metrics: unit === 'gigabytes' ? volumeMetrics : isSecure ? countedRequestMetrics : requestMetrics,
    async prepare(contestant) {
      const target = await startTarget(contestant, settings);
      // Traffic Server drops a file if a range of it is requested while it is still being stored.
      await untilHit(target, ({ peer }) => get(peer.port, file));
      // A peer may keep in memory only what was requested again: two further requests.
      if (settings?.isDefault === true) for (let count = 1; count < 3; count += 1) await get(target.peer.port, file);
      await untilHit(target, checkOne);
      if (!isLarge) for (let count = 0; count < checkedAnswers; count += 1) await checkOne(target);
      await target.warmUp(() => run(target));
      return () => run(target);
    },
  };
}

/** Compares a sample of ranges byte by byte. Throws `BenchFault` where one differs. */
export async function checkSample(
  port: number,
  file: SampleFile,
  rangeBytes: number,
  asking: Asking = {},
): Promise<void> {
  const fileBytes = file.window.end - file.window.start;
  for (let count = 0; count < checkedAnswers; count += 1) {
    await checkedGet(port, file, randomSpan(fileBytes, rangeBytes), asking);
  }
}

/** Repeats a request until the origin gets none for it. Throws `BenchFault` after `hitTries` tries. */
export async function untilHit(target: Target, ask: (target: Target) => Promise<void>): Promise<void> {
  for (let tries = 0; tries < hitTries; tries += 1) {
    const before = await target.origin.counters();
    await ask(target);
    const after = await target.origin.counters();
    if (after.requests === before.requests) return;
    await wait(pauseMs);
  }
  throw new BenchFault(`${target.name}: still asks the origin for a file that it should have stored`);
}

function randomSpan(fileBytes: number, rangeBytes: number | undefined): Span | undefined {
  if (rangeBytes === undefined) return undefined;
  const start = Math.floor(Math.random() * (fileBytes - rangeBytes + 1));
  return { start, end: start + rangeBytes };
}
