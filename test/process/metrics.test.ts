/** Metrics of the executable, read from its admin listener after known traffic: of one process, and summed over workers. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { until } from '../support/clocks/until.ts';
import { startFleetProcess } from '../support/processes/fleet-process.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';
import { readMetricText, sampleOf, sumOf } from '../support/values/metric-text.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 300_000;
const body = patternBytes(0, size);
let origin: Server;
let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-metrics-'));
  origin = createServer((request, response) => {
    if (request.url === '/short') {
      response.writeHead(200, { 'content-length': size, 'cache-control': 'no-store' });
      response.write(body.subarray(0, 1000), () => response.destroy());
      return;
    }
    if (request.url === '/missing') {
      response.writeHead(404, { 'cache-control': 'no-store' }).end('no');
      return;
    }
    response.writeHead(200, { 'content-length': size, 'cache-control': 'max-age=60', etag: '"v1"' }).end(body);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});
afterAll(async () => {
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

const configured = (workers: number) => ({
  listen: '127.0.0.1:0',
  workers,
  log: { format: 'json', level: 'debug' },
  store: { dir: join(dir, `store-${workers}`) },
  admin: adminConfig,
  routes: [
    {
      name: 'files',
      origin: { url: `http://127.0.0.1:${(origin.address() as AddressInfo).port}`, retries: { attempts: 0 } },
      fill: { resumeAttempts: 0 },
    },
  ],
});

/** Sends a request on a new connection, which any worker may accept. Returns the status; 0 where the body was cut. */
async function ask(url: string, path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<number> {
  const response = await fetch(url + path, { method, headers: { ...headers, connection: 'close' } });
  return await response.arrayBuffer().then(
    () => response.status,
    () => 0,
  );
}

describe.each([1, 2])('with %d workers', (workers) => {
  it('the metrics match the traffic', async () => {
    await using server = await startConfigured(dir, configured(workers), adminEnvironment);
    const admin = await findAdmin(server);
    const scrape = async () => (await admin('GET', '/metrics')).text;
    const { url } = server;

    expect(await ask(url, '/film')).toBe(200);
    await until('it is stored', async () => sampleOf(await scrape(), 'rangeway_fills_total{result="stored"}') === 1);
    const statuses = await Promise.all([
      ask(url, '/film'),
      ask(url, '/film', {}, 'HEAD'),
      ask(url, '/film', { range: 'bytes=0-99' }),
      ask(url, '/film', { range: 'bytes=0-9,1000-1009' }),
      ask(url, '/film', { range: 'bytes=999999-' }),
      // Without Cache-Control fetch would add no-cache to a condition.
      ask(url, '/film', { 'if-none-match': '"v1"', 'cache-control': 'max-age=60' }),
      ask(url, '/missing'),
      ask(url, '/short'),
    ]);
    expect(statuses).toEqual([200, 200, 206, 206, 416, 304, 404, 0]);
    await until('all requests are counted', async () => sumOf(await scrape(), 'rangeway_requests_total') === 9);

    const text = await scrape();
    const sums: Record<string, number> = {
      'rangeway_requests_total outcome="hit"': 6,
      'rangeway_requests_total status="206"': 2,
      'rangeway_requests_total method="HEAD"': 1,
      'rangeway_range_requests_total result="part"': 1,
      'rangeway_range_requests_total result="multipart"': 1,
      'rangeway_range_requests_total result="unsatisfiable"': 1,
      'rangeway_cut_responses_total error="origin_body_short"': 1,
      'rangeway_request_errors_total error="origin_body_short"': 1,
      'rangeway_request_duration_seconds le="+Inf"': 9,
      'rangeway_origin_exchanges_total status="2xx"': 2,
      'rangeway_origin_exchanges_total status="4xx"': 1,
      'rangeway_origin_failures_total error="origin_body_short"': 1,
      rangeway_origin_received_bytes_total: size + 1000 + 2,
      rangeway_fills_total: 1,
      rangeway_fill_received_bytes_total: size,
      rangeway_fills_running: 0,
      rangeway_requests_in_flight: 0,
      rangeway_origin_exchanges_in_flight: 0,
      'rangeway_connections_total scheme="http"': 9,
      rangeway_store_entries: 1,
      rangeway_store_writable: 1,
      'rangeway_origin_healthy route="files"': 1,
      rangeway_workers: workers,
    };
    const read = Object.keys(sums).map((name) => [name, sumOf(text, ...(name.split(' ') as [string]))]);
    expect(Object.fromEntries(read)).toEqual(sums);
    expect(sumOf(text, 'rangeway_sent_bytes_total')).toBeGreaterThan(2 * size);
    expect(sumOf(text, 'rangeway_store_used_bytes')).toBeGreaterThanOrEqual(size);
    expect(sumOf(text, 'rangeway_config_loaded_timestamp_seconds') * 1000).toBeGreaterThan(Date.now() - 60_000);
    await until('the connections are closed', async () => sumOf(await scrape(), 'rangeway_connections_open') === 0);
    const processes = [...(readMetricText(text).get('process_resident_memory_bytes')?.samples.keys() ?? [])];
    expect(processes).toHaveLength(workers === 1 ? 1 : workers + 1);
  });
});

describe('a worker that is killed', () => {
  it('keeps its share of the sums, and its replacement is counted', async () => {
    await using fleet = await startFleetProcess(dir, configured(2), adminEnvironment);
    const admin = await findAdmin(fleet);
    const scrape = async () => (await admin('GET', '/metrics')).text;
    const total = (text: string) => sumOf(text, 'rangeway_requests_total');
    const served = new Set<number | undefined>();
    let asked = 0;
    while (served.size < 2) {
      asked += 1;
      await using client = await RawClient.open(fleet.port);
      const target = `/missing?${asked}`;
      await client.exchange(`GET ${target} HTTP/1.1\r\nHost: files.example\r\n\r\n`);
      await until('the request is logged', async () => fleet.servedBy(target) !== undefined);
      served.add(fleet.servedBy(target));
    }
    await until('all requests are counted', async () => total(await scrape()) === asked);

    const [victim] = fleet.workers();
    process.kill(victim?.pid ?? 0, 'SIGKILL');
    const totals: number[] = [];
    await until('another one serves', async () => {
      const text = await scrape();
      totals.push(total(text));
      return sampleOf(text, 'rangeway_worker_restarts_total') === 1 && sampleOf(text, 'rangeway_workers') === 2;
    });
    expect(new Set(totals)).toEqual(new Set([asked]));
    for (let count = 0; count < 4; count += 1) await ask(fleet.url, `/missing?more-${count}`);
    await until('the new requests are added', async () => total(await scrape()) === asked + 4);
  });
});
