/** The metrics of several processes as one: which are added up, and that no total decreases. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { MetricReading } from '../../src/telemetry/counters.ts';
import { createFleetMetrics, createMetrics, createProcessMark, type Metrics } from '../../src/telemetry/metrics.ts';
import { sampleRequest } from '../support/proxies/sample-events.ts';
import { readMetricText, sampleOf, sumOf } from '../support/values/metric-text.ts';

const now = () => 0;
const worker = (id: number): Metrics => createMetrics({ version: '1', role: { kind: 'worker', id }, now });
const supervisor = (): Metrics => createMetrics({ version: '1', role: { kind: 'supervisor' }, now });

/** Returns a reading as if it came from another process. */
async function readAs(metrics: Metrics, place: string, name: string): Promise<readonly MetricReading[]> {
  const reading = structuredClone(await metrics.read());
  return [createProcessMark(place, name), ...reading.filter((metric) => metric.name !== 'rangeway_process')];
}

const usage = (usedBytes: number, memoryBytes: number, isWritable: boolean) => ({
  readStore: () => ({ entryCount: 1, usedBytes, maxSizeBytes: 100, memoryBytes, isWritable }),
  listOrigins: () => [
    {
      route: 'r',
      url: 'http://o.example/',
      health: isWritable ? ('well' as const) : ('ill' as const),
      ranges: 'yes' as const,
    },
  ],
});

describe('metrics of several processes', () => {
  it('are added up where a sum has a meaning, and not otherwise', async () => {
    const [one, two, above] = [worker(1), worker(2), supervisor()];
    one.attach(usage(50, 10, true));
    two.attach(usage(51, 20, false));
    for (let count = 0; count < 5; count += 1) (count < 3 ? one : two).emit(sampleRequest);
    one.emit({ kind: 'begun', what: 'request' });
    above.emit({ kind: 'life', stage: 'reloaded', addresses: [], message: '' });
    const text = await createFleetMetrics().format([
      await above.read(),
      await readAs(one, '1', 'a'),
      await readAs(two, '2', 'b'),
    ]);
    const samples = [
      'rangeway_requests_total{route="media",method="GET",status="206",outcome="hit"}',
      'rangeway_request_duration_seconds_count{route="media",outcome="hit"}',
      'rangeway_request_duration_seconds_bucket{le="0.005",route="media",outcome="hit"}',
      'rangeway_workers',
      'rangeway_reloads_total{result="done"}',
      'rangeway_store_used_bytes',
      'rangeway_store_memory_bytes',
      'rangeway_store_writable',
      'rangeway_origin_healthy{route="r",origin="http://o.example/"}',
      `rangeway_build_info{version="1",node_version="${process.version}"}`,
    ];
    expect(samples.map((sample) => sampleOf(text, sample))).toEqual([5, 5, 5, 2, 1, 51, 30, 0, 0, 1]);
    expect(sampleOf(text, 'rangeway_requests_in_flight')).toBe(1 - 5);
  });

  it('about the processes themselves are separate', async () => {
    const text = await createFleetMetrics().format([await supervisor().read(), await readAs(worker(7), '7', 'a')]);
    for (const name of [
      'process_resident_memory_bytes',
      'nodejs_eventloop_lag_p99_seconds',
      'process_start_time_seconds',
    ]) {
      expect([...(readMetricText(text).get(name)?.samples.keys() ?? [])]).toEqual([
        `${name}{worker="supervisor"}`,
        `${name}{worker="7"}`,
      ]);
    }
    expect(text).not.toContain('rangeway_process{');
  });
});

describe('a worker that dies or is late', () => {
  const total = (text: string) => sumOf(text, 'rangeway_requests_total');

  it('leaves its counts in the totals', async () => {
    const { format } = createFleetMetrics();
    const [one, two] = [worker(1), worker(2)];
    for (let count = 0; count < 10; count += 1) one.emit(sampleRequest);
    two.emit(sampleRequest);
    const own = await supervisor().read();
    const second = await readAs(two, '2', 'b');
    const totals = [
      total(await format([own, await readAs(one, '1', 'a'), second])),
      // The worker is away, and is replaced later.
      total(await format([own, second])),
      total(await format([own, second])),
      total(await format([own, await readAs(worker(1), '1', 'c'), second])),
      total(await format([own, second])),
      total(await format([own, await readAs(worker(1), '1', 'd'), second])),
    ];
    expect(totals).toEqual([11, 11, 11, 11, 11, 11]);
  });

  it('no longer counts in gauges', async () => {
    const { format } = createFleetMetrics();
    const one = worker(1);
    one.emit({ kind: 'begun', what: 'fill' });
    const own = await supervisor().read();
    expect(sampleOf(await format([own, await readAs(one, '1', 'a')]), 'rangeway_fills_running')).toBe(1);
    expect(sampleOf(await format([own]), 'rangeway_fills_running')).toBe(0);
  });

  it('is counted once when it was only late', async () => {
    const { format } = createFleetMetrics();
    const one = worker(1);
    const own = await supervisor().read();
    one.emit(sampleRequest);
    await format([own, await readAs(one, '1', 'a')]);
    await format([own]);
    one.emit(sampleRequest);
    expect(total(await format([own, await readAs(one, '1', 'a')]))).toBe(2);
  });

  it('never makes a total decrease, whichever workers are read', async () => {
    const step = fc.record({
      place: fc.integer({ min: 1, max: 3 }),
      what: fc.constantFrom('count', 'die', 'hide', 'read'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { format } = createFleetMetrics();
        const lives = new Map([1, 2, 3].map((place) => [place, { metrics: worker(place), life: 0 }]));
        let before = 0;
        for (const { place, what } of steps) {
          const one = lives.get(place) as { metrics: Metrics; life: number };
          if (what === 'count') one.metrics.emit(sampleRequest);
          if (what === 'die') lives.set(place, { metrics: worker(place), life: one.life + 1 });
          if (what === 'count' || what === 'die') continue;
          const shown = [...lives].filter(([id]) => what === 'read' || id !== place);
          const readings = await Promise.all(
            shown.map(([id, { metrics, life }]) => readAs(metrics, String(id), `${life}`)),
          );
          const after = total(await format(readings));
          expect(after).toBeGreaterThanOrEqual(before);
          before = after;
        }
      }),
      { numRuns: 30 },
    );
  });
});
