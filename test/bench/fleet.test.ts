/** The parts of the benchmark's fleet workloads: the engine, the relay that slows it down, the load, and what redis-benchmark prints. */

import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startEngine } from '../../bench/engine/engine.ts';
import { benchmarkGets, parseCsv } from '../../bench/engine/redis-benchmark.ts';
import { openSlowRelay } from '../../bench/engine/slow-relay.ts';
import type { LoadResult } from '../../bench/load/load.ts';
import { createRequests } from '../../bench/load/requests.ts';
import { subject } from '../../bench/rounds.ts';
import { sampleFile } from '../../bench/sample-file.ts';
import { fleetHost, runFleetLoad } from '../../bench/workloads/fleet-load.ts';
import { createWorkloads } from '../../bench/workloads/workloads.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { describeWithEngine } from '../support/engines/redis-server.ts';

const csvHead = '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms"';

describe('the output of redis-benchmark', () => {
  it('has the rate and the latencies, by the names of the columns', () => {
    const output = `${csvHead}\n"GET","14796.00","1.8","0.2","1.743","5.0","10.567"\n`;
    expect(parseCsv(output)).toEqual({ rate: 14_796, p50Us: 1743, p99Us: 10_567 });
  });

  it.each(['', csvHead, `${csvHead}\n"GET","inf","0","0","0","0","0"\n`])('without a rate is a fault: %j', (output) => {
    expect(() => parseCsv(output)).toThrow('no rate');
  });
});

describeWithEngine('an engine of the benchmark', () => {
  it('counts what it sends, and sends a value for each GET of redis-benchmark', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-bench-'));
    onTestFinished(() => rm(dir, { recursive: true, force: true }));
    await using engine = await startEngine(dir, 64 * 1024 ** 2, undefined);
    const before = await engine.counters();
    const idle = await engine.counters();
    expect(idle.sentBytes - before.sentBytes).toBe(0);
    const sizeBytes = 1000;
    const load = { socket: engine.socket, sizeBytes, connections: 4, seconds: 0.01, cores: undefined };
    const { gets, runs, seconds } = await benchmarkGets(load);
    const after = await engine.counters();
    expect(seconds).toBeGreaterThan(0);
    expect(gets).toBeLessThan(runs);
    expect(after.gets - idle.gets).toBe(runs);
    expect((after.sentBytes - idle.sentBytes) / (runs * sizeBytes)).toBeCloseTo(1, 1);
  });

  it('answers through the relay in order, before and after it becomes slow', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-bench-'));
    onTestFinished(() => rm(dir, { recursive: true, force: true }));
    await using engine = await startEngine(dir, 64 * 1024 ** 2, undefined);
    const clock = createFakeClock();
    await using relay = await openSlowRelay(engine.port, clock.after);
    const client = createClient({ RESP: 2, socket: { host: '127.0.0.1', port: relay.port, reconnectStrategy: false } });
    client.on('error', () => {});
    await client.connect();
    const delays = [0, 30, 5, 0];
    const replies = [];
    for (const [index, delayMs] of delays.entries()) {
      relay.delayMs = delayMs;
      replies.push(client.sendCommand(['ECHO', String(index)]));
    }
    const replied: unknown[] = [];
    for (const reply of replies) void reply.then((each) => replied.push(each));
    await expect
      .poll(() => {
        clock.advance(30);
        return replied;
      })
      .toEqual(['0', '1', '2', '3']);
    relay.delayMs = 50;
    const pong = client.sendCommand(['PING']).then((reply) => replied.push(reply));
    await clock.whenPending(1);
    clock.advance(49);
    expect(replied).toHaveLength(4);
    clock.advance(1);
    await pong;
    client.destroy();
  });
});

/** The result of a generator that got so many responses in a second. */
function resultOf(requests: number, more: Partial<LoadResult> = {}): LoadResult {
  const times = { p50Us: 1000, p99Us: 1000 * requests, p999Us: undefined };
  return { requests, bytes: requests * 100, seconds: 1, ...times, failures: 0, cpuSeconds: 0.5, ...more };
}

/** A load on nodes whose generators return these results, in front of an origin that counts these requests. */
function loadOf(results: readonly LoadResult[], originRequests: readonly number[] = [0]) {
  const runs: { readonly port: number; readonly connections: number; readonly host: string | undefined }[] = [];
  const asked = [...originRequests];
  const load: Parameters<typeof runFleetLoad>[0] = {
    nodes: results.map((_, port) => ({ port, dir: '', pid: process.pid, [Symbol.asyncDispose]: async () => {} })),
    engine: undefined,
    origin: {
      port: 0,
      counters: async () => ({
        requests: asked.length > 1 ? (asked.shift() ?? 0) : (asked[0] ?? 0),
        bodyBytes: 0,
        running: 0,
      }),
      [Symbol.dispose]: () => {},
    },
    generator: {
      name: 'told',
      run: async (port, { connections, host }) => {
        runs.push({ port, connections, host });
        return results[port] ?? resultOf(0);
      },
    },
    cores: undefined,
    plan: { request: { kind: 'ranges', file: sampleFile('a', 1000), sizeBytes: 100 }, connections: 64, seconds: 16 },
  };
  return { load, runs };
}

describe('a load on several nodes', () => {
  it('adds up their rates, shares the connections, and asks all under one name', async () => {
    const { load, runs } = loadOf([resultOf(10), resultOf(20), resultOf(30)]);
    expect(await runFleetLoad(load)).toMatchObject({ rate: 60, p50Ms: 1, p99Ms: 30, engineCpu: undefined });
    expect(runs).toEqual([0, 1, 2].map((port) => ({ port, connections: 21, host: fleetHost })));
  });

  it.each<[what: string, results: readonly LoadResult[], origin: readonly number[], message: string]>([
    ['an unexpected answer', [resultOf(10), resultOf(9, { failures: 1 })], [0], '1 answers were not as wanted'],
    ['a miss', [resultOf(10)], [5, 7], '2 misses where all should be hits'],
    ['no answer at all', [resultOf(0)], [0], 'no answer within 16 s'],
  ])('fails for %s', async (_, results, origin, message) => {
    await expect(runFleetLoad(loadOf(results, origin).load)).rejects.toThrow(message);
  });
});

describe('ranges at multiples of a step', () => {
  it('begin nowhere else, and reach the last one; all have the given Host', () => {
    const next = createRequests(
      80,
      { kind: 'ranges', file: sampleFile('a', 350), sizeBytes: 100, stepBytes: 100 },
      fleetHost,
    );
    const requests = Array.from({ length: 200 }, next);
    const ranges = new Set(requests.map((request) => /Range: bytes=(\S+)/.exec(request)?.[1]));
    expect([...ranges].sort()).toEqual(['0-99', '100-199', '200-299']);
    expect(requests.every((request) => request.includes(`\r\nHost: ${fleetHost}\r\n`))).toBe(true);
  });
});

describe('the workloads', () => {
  const workloads = createWorkloads({ isShort: false });
  const table = readFileSync(new URL('../../bench/README.md', import.meta.url), 'utf8');

  it.each(workloads.filter(({ number }) => number !== undefined))(
    '$number $name is in the table of goals',
    (workload) => {
      const line = table.split('\n').find((each) => each.startsWith(`| ${workload.number} |`)) ?? '';
      // A name may stand for all that begin with it.
      const names = [...line.matchAll(/`([a-z0-9-]+)(…?)`/g)];
      expect(
        names.some(([, name = '', more]) => (more === '' ? workload.name === name : workload.name.startsWith(name))),
      ).toBe(true);
    },
  );

  it.each(workloads.flatMap((each) => (each.rows === undefined ? [] : [{ ...each, rows: each.rows }])))(
    '$name has a row of Rangeway, one to compare it with, and a generator that can name the host',
    ({ rows, isOurs }) => {
      expect(rows.names).toContain(subject);
      expect(rows.names).toContain(rows.yardstick);
      expect(isOurs).toBe(true);
    },
  );
});
