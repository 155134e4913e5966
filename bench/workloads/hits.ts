/** Workloads on one stored file: everything comes from the cache, and the origin's counter proves it. */

import { setTimeout as wait } from 'node:timers/promises';
import type { Span } from '../../src/bytes/span.ts';
import { checkedGet } from '../checked-get.ts';
import { BenchFault } from '../fault.ts';
import { sampleFile } from '../sample-file.ts';
import { requestMetrics, runSteadyLoad, type SteadyLoad, volumeMetrics } from './steady-load.ts';
import type { Target, Workload } from './workload.ts';

/** How many answers are compared byte by byte before a workload is measured. */
const checkedAnswers = 32;

/** A cache may finish storing a little after the last byte has been read; it is given so many tries, and this pause. */
const hitTries = 500;
const pauseMs = 10;

/** A workload on one file. */
export interface HitWorkload {
  readonly name: string;
  readonly title: string;
  readonly fileBytes: number;
  /** The size of the ranges; undefined where the whole is asked for. */
  readonly rangeBytes: number | undefined;
  readonly connections: number;
  readonly unit: SteadyLoad['unit'];
}

/** Makes the workload. */
export function createHitWorkload(of: HitWorkload): Workload {
  const { name, title, fileBytes, rangeBytes, connections, unit } = of;
  const file = sampleFile(name, fileBytes);
  const load: SteadyLoad = {
    request: rangeBytes === undefined ? { kind: 'whole', file } : { kind: 'ranges', file, sizeBytes: rangeBytes },
    connections,
    unit,
  };
  const checkOne = ({ peer }: Target) => checkedGet(peer.port, file, randomSpan(fileBytes, rangeBytes));
  const run = async (target: Target) => {
    const { originRequests, measurement } = await runSteadyLoad(target, load);
    if (originRequests > 0) throw new BenchFault(`${target.name}: ${originRequests} misses where all should be hits`);
    return measurement;
  };
  return {
    name,
    title,
    kind: 'speed',
    origin: { kind: 'windows', patternBytes: fileBytes, bytesPerSecond: undefined },
    bodyBytes: rangeBytes ?? fileBytes,
    metrics: unit === 'requests' ? requestMetrics : volumeMetrics,
    async prepare(target) {
      await checkedGet(target.peer.port, file);
      await untilHit(target, checkOne);
      const checks = rangeBytes === undefined && unit === 'gigabytes' ? 1 : checkedAnswers;
      for (let count = 0; count < checks; count += 1) await checkOne(target);
      await run(target);
    },
    measure: run,
  };
}

/** Asks until the origin is not asked any more. Throws `BenchFault`. */
export async function untilHit(target: Target, ask: (target: Target) => Promise<void>): Promise<void> {
  for (let tries = 0; tries < hitTries; tries += 1) {
    const before = await target.origin.counters();
    await ask(target);
    const after = await target.origin.counters();
    if (after.requests === before.requests) return;
    await wait(pauseMs);
  }
  throw new BenchFault(`${target.name}: asks the origin again and again for what it should have stored`);
}

function randomSpan(fileBytes: number, rangeBytes: number | undefined): Span | undefined {
  if (rangeBytes === undefined) return undefined;
  const start = Math.floor(Math.random() * (fileBytes - rangeBytes + 1));
  return { start, end: start + rangeBytes };
}
