/** The metrics of events and of the server's state, in the text format of Prometheus. */

import { describe, expect, it } from 'vitest';
import type { ProcessRole } from '../../src/telemetry/counters.ts';
import type { PrefetchEvent, ServerEvent } from '../../src/telemetry/events.ts';
import { createMetrics, formatMetrics, type MetricSources } from '../../src/telemetry/metrics.ts';
import { sampleExchange, sampleFill, sampleRequest, sampleTunnel } from '../support/proxies/sample-events.ts';
import { readMetricText, sampleOf } from '../support/values/metric-text.ts';

const now = () => 1_700_000_000_500;

const prefetched: PrefetchEvent = {
  kind: 'prefetch',
  route: 'media',
  key: 'k',
  result: 'fetched',
  bytes: 700,
  detail: undefined,
};

/** Returns the text of the metrics after these events. */
async function textOf(events: readonly ServerEvent[], sources?: MetricSources, role: ProcessRole = { kind: 'alone' }) {
  const metrics = createMetrics({ version: '1.2.3', role, now });
  if (sources !== undefined) metrics.attach(sources);
  for (const event of events) metrics.emit(event);
  return await formatMetrics(await metrics.read());
}

const begun = (what: 'request' | 'tunnel' | 'fill' | 'exchange'): ServerEvent => ({ kind: 'begun', what });
const connection = (stage: 'opened' | 'closed', scheme: 'http' | 'https'): ServerEvent => ({
  kind: 'connection',
  stage,
  scheme,
});
const progress = (what: 'sent' | 'received', bytes: number): ServerEvent => ({
  kind: 'progress',
  what,
  route: 'media',
  bytes,
});
const life = { kind: 'life', addresses: [], message: '' } as const;
const store = { kind: 'store', level: 'info', message: '', detail: undefined } as const;
const refusal = {
  kind: 'refusal',
  peer: '192.0.2.1',
  status: 400,
  error: 'tls_handshake_failed',
  detail: undefined,
} as const;
const missed = { ...sampleRequest, outcome: 'miss', reason: 'uri-miss' } as const;
const reset = { status: undefined, headMs: undefined, receivedBytes: 0, isFailed: true, error: 'origin_reset' };
const left = { ...reset, isFailed: false, error: 'client_gone' };

describe('metrics of events', () => {
  it.each<[events: ServerEvent[], sample: string, value: number]>([
    [
      [sampleRequest, sampleRequest],
      'rangeway_requests_total{route="media",method="GET",status="206",outcome="hit"}',
      2,
    ],
    [
      [{ ...sampleRequest, method: 'BREW' }],
      'rangeway_requests_total{route="media",method="other",status="206",outcome="hit"}',
      1,
    ],
    [
      [{ ...sampleRequest, method: 'POST' }],
      'rangeway_requests_total{route="media",method="POST",status="206",outcome="hit"}',
      1,
    ],
    [
      [{ ...sampleRequest, route: undefined, status: 404, outcome: 'none' }],
      'rangeway_requests_total{route="",method="GET",status="404",outcome="none"}',
      1,
    ],
    [[begun('request'), begun('request'), sampleRequest], 'rangeway_requests_in_flight', 1],
    [[missed, missed], 'rangeway_request_reasons_total{route="media",outcome="miss",reason="uri-miss"}', 2],
    [[{ ...missed, collapsed: true }, missed], 'rangeway_collapsed_requests_total{route="media"}', 1],
    [[sampleRequest], 'rangeway_collapsed_requests_total{route="media"}', 0],
    [[sampleRequest, { ...sampleRequest, bytesSent: 23 }], 'rangeway_sent_bytes_total{route="media"}', 123],
    [
      [progress('sent', 70), progress('sent', 20), { ...sampleRequest, bytesSent: 100, reportedBytes: 90 }],
      'rangeway_sent_bytes_total{route="media"}',
      100,
    ],
    [[progress('sent', 70)], 'rangeway_sent_bytes_total{route="media"}', 70],
    [[sampleRequest], 'rangeway_request_head_seconds_bucket{le="0.001",route="media",outcome="hit"}', 1],
    [[sampleRequest], 'rangeway_request_duration_seconds_bucket{le="0.0025",route="media",outcome="hit"}', 0],
    [[sampleRequest], 'rangeway_request_duration_seconds_bucket{le="0.005",route="media",outcome="hit"}', 1],
    [[sampleRequest], 'rangeway_request_duration_seconds_sum{route="media",outcome="hit"}', 0.004],
    [[sampleRequest], 'rangeway_range_requests_total{route="media",result="part"}', 1],
    [[{ ...sampleRequest, isMultipart: true }], 'rangeway_range_requests_total{route="media",result="multipart"}', 1],
    [[{ ...sampleRequest, status: 200 }], 'rangeway_range_requests_total{route="media",result="whole"}', 1],
    [[{ ...sampleRequest, status: 416 }], 'rangeway_range_requests_total{route="media",result="unsatisfiable"}', 1],
    [[{ ...sampleRequest, status: 304 }], 'rangeway_range_requests_total{route="media",result="other"}', 1],
    [[{ ...sampleRequest, range: undefined }], 'rangeway_range_requests_total{route="media",result="part"}', 0],
    [[{ ...sampleRequest, method: 'HEAD' }], 'rangeway_range_requests_total{route="media",result="part"}', 0],
    [
      [{ ...sampleRequest, complete: false, error: 'bytes_gone' }],
      'rangeway_cut_responses_total{route="media",error="bytes_gone"}',
      1,
    ],
    [
      [{ ...sampleRequest, complete: false, error: 'client_gone' }],
      'rangeway_cut_responses_total{route="media",error="client_gone"}',
      1,
    ],
    [
      [{ ...sampleRequest, error: 'rate_limited', status: 429 }],
      'rangeway_request_errors_total{route="media",error="rate_limited"}',
      1,
    ],
    [[refusal, { ...refusal, count: 990 }], 'rangeway_refusals_total{error="tls_handshake_failed"}', 991],
    [[connection('opened', 'https'), connection('closed', 'https')], 'rangeway_connections_total{scheme="https"}', 1],
    [
      [connection('opened', 'http'), connection('opened', 'http'), connection('closed', 'http')],
      'rangeway_connections_open{scheme="http"}',
      1,
    ],
    [[begun('tunnel'), begun('tunnel'), sampleTunnel], 'rangeway_tunnels_open', 1],
    [[{ ...sampleTunnel, status: 502 }], 'rangeway_tunnels_open', 0],
    [[sampleTunnel, { ...sampleTunnel, status: 502 }], 'rangeway_tunnels_total{status="101"}', 1],
    [[sampleTunnel], 'rangeway_tunnel_bytes_total{direction="from_origin"}', 1000],
    [[sampleTunnel], 'rangeway_tunnel_bytes_total{direction="to_origin"}', 200],

    [
      [sampleExchange, { ...sampleExchange, status: 206 }],
      'rangeway_origin_exchanges_total{route="media",status="2xx"}',
      2,
    ],
    [[{ ...sampleExchange, ...reset }], 'rangeway_origin_exchanges_total{route="media",status="2xx"}', 0],
    [[{ ...sampleExchange, ...reset }], 'rangeway_origin_failures_total{route="media",error="origin_reset"}', 1],
    [[{ ...sampleExchange, ...left }], 'rangeway_origin_failures_total{route="media",error="client_gone"}', 0],
    [[begun('exchange'), begun('exchange'), sampleExchange], 'rangeway_origin_exchanges_in_flight', 1],
    [[{ ...sampleExchange, isResent: true }, sampleExchange], 'rangeway_origin_retries_total{route="media"}', 1],
    [[sampleExchange, sampleExchange], 'rangeway_origin_received_bytes_total{route="media"}', 10_000],
    [[progress('received', 4000)], 'rangeway_origin_received_bytes_total{route="media"}', 4000],
    [
      [progress('received', 4000), { ...sampleExchange, reportedBytes: 4000 }],
      'rangeway_origin_received_bytes_total{route="media"}',
      5000,
    ],
    [[sampleExchange, { ...sampleExchange, ...reset }], 'rangeway_origin_head_seconds_count{route="media"}', 1],
    [[{ kind: 'revalidation', result: 'replaced' }], 'rangeway_revalidations_total{result="replaced"}', 1],

    [[begun('fill'), begun('fill'), sampleFill], 'rangeway_fills_running', 1],
    [[begun('fill'), { kind: 'called_off', what: 'fill' }], 'rangeway_fills_running', 0],
    [[sampleFill, { ...sampleFill, result: 'failed' }], 'rangeway_fills_total{result="failed"}', 1],
    [[{ ...sampleFill, resumptions: 3 }], 'rangeway_fill_resumptions_total', 3],
    [[sampleFill, { ...sampleFill, isPart: true }], 'rangeway_fill_parts_total', 1],
    [[sampleFill], 'rangeway_fill_received_bytes_total', 5000],
    [[sampleFill], 'rangeway_fill_duration_seconds_bucket{le="0.25"}', 1],

    [
      [prefetched, prefetched, { ...prefetched, result: 'used' }],
      'rangeway_prefetches_total{route="media",result="fetched"}',
      2,
    ],
    [
      [prefetched, { ...prefetched, result: 'unused' }],
      'rangeway_prefetched_bytes_total{route="media",result="unused"}',
      700,
    ],

    [[{ ...store, count: { evictedEntries: 7 } }, store], 'rangeway_store_evicted_entries_total', 7],
    [[{ ...store, count: { damagedBlocks: 2 } }], 'rangeway_store_damaged_blocks_total', 2],
    [
      [{ kind: 'admin', level: 'info', action: 'purge', peer: undefined, message: '' }],
      'rangeway_admin_actions_total{action="purge"}',
      1,
    ],
    [
      [
        { ...life, stage: 'reloaded' },
        { ...life, stage: 'reload_failed' },
      ],
      'rangeway_reloads_total{result="done"}',
      1,
    ],
    [[{ ...life, stage: 'reload_failed' }], 'rangeway_reloads_total{result="failed"}', 1],
    [[{ ...life, stage: 'ready' }], 'rangeway_config_loaded_timestamp_seconds', 1_700_000_000.5],
    [[{ ...life, stage: 'reload_failed' }], 'rangeway_config_loaded_timestamp_seconds', 0],
    [
      [{ kind: 'fleet', level: 'info', worker: 1, stage: 'replaced', message: '', detail: undefined }],
      'rangeway_worker_restarts_total',
      1,
    ],
    [[], 'rangeway_workers', 1],
    [[], `rangeway_build_info{version="1.2.3",node_version="${process.version}"}`, 1],
  ])('after %j: %s is %d', async (events, sample, value) => expect(sampleOf(await textOf(events), sample)).toBe(value));

  it('have a limited number of reasons', async () => {
    const events = Array.from({ length: 200 }, (_, at) => ({ ...missed, reason: `reason ${at}` }));
    const reasons = readMetricText(await textOf(events)).get('rangeway_request_reasons_total')?.samples;
    expect(reasons?.size).toBe(101);
    expect(reasons?.get('rangeway_request_reasons_total{route="media",outcome="miss",reason="other"}')).toBe(100);
  });

  it('about the life of the whole server are left to the supervisor', async () => {
    const events: ServerEvent[] = [{ ...life, stage: 'reloaded' }];
    const sample = 'rangeway_reloads_total{result="done"}';
    expect(sampleOf(await textOf(events, undefined, { kind: 'worker', id: 1 }), sample)).toBe(0);
    expect(sampleOf(await textOf(events, undefined, { kind: 'supervisor' }), sample)).toBe(1);
  });

  it('cannot be forged by the name of a route', async () => {
    const route = 'a"} 1\nrangeway_workers 99\\';
    const metrics = readMetricText(await textOf([{ ...sampleRequest, route }]));
    expect(metrics.get('rangeway_workers')?.samples).toEqual(new Map([['rangeway_workers', 1]]));
    expect([...(metrics.get('rangeway_sent_bytes_total')?.samples.keys() ?? [])]).toEqual([
      'rangeway_sent_bytes_total{route="a\\"} 1\\nrangeway_workers 99\\\\"}',
    ]);
  });
});

describe('metrics that are read on demand:', () => {
  const local = { usedBytes: 70, maxSizeBytes: 90, isWritable: false, hits: 5, hitBytes: 600, misses: 2 };
  const full = { entryCount: 3, usedBytes: 1000, maxSizeBytes: 5000, memoryBytes: 200, isWritable: false, local };
  const origins = [
    { route: 'media', url: 'http://one.example/', health: 'well', ranges: 'yes' },
    { route: 'media', url: 'http://two.example/', health: 'resting', ranges: 'unknown' },
    { route: 'old', url: 'http://three.example/', health: 'ill', ranges: 'no' },
  ] as const;
  const sources = { readStore: () => full, listOrigins: () => origins };

  it.each<[sample: string, value: number]>([
    ['rangeway_store_entries', 3],
    ['rangeway_store_used_bytes', 1000],
    ['rangeway_store_max_bytes', 5000],
    ['rangeway_store_memory_bytes', 200],
    ['rangeway_store_writable', 0],
    ['rangeway_store_local_bytes', 70],
    ['rangeway_store_local_max_bytes', 90],
    ['rangeway_store_local_writable', 0],
    ['rangeway_store_local_hits_total', 5],
    ['rangeway_store_local_hit_bytes_total', 600],
    ['rangeway_store_local_misses_total', 2],
    ['rangeway_origin_healthy{route="media",origin="http://one.example/"}', 1],
    ['rangeway_origin_healthy{route="media",origin="http://two.example/"}', 0],
    ['rangeway_origin_healthy{route="old",origin="http://three.example/"}', 0],
    ['rangeway_origin_gives_ranges{route="media",origin="http://one.example/"}', 1],
    ['rangeway_origin_gives_ranges{route="old",origin="http://three.example/"}', 0],
  ])('%s is %d', async (sample, value) => expect(sampleOf(await textOf([], sources), sample)).toBe(value));

  it('no value where none is known', async () => {
    const unknown = { ...full, memoryBytes: undefined, isWritable: undefined, local: undefined };
    const metrics = readMetricText(await textOf([], { ...sources, readStore: () => unknown }));
    expect(metrics.get('rangeway_store_memory_bytes')?.samples.size).toBe(0);
    expect(metrics.get('rangeway_store_writable')?.samples.size).toBe(0);
    expect(metrics.get('rangeway_store_local_hits_total')?.samples.size).toBe(0);
    expect(metrics.get('rangeway_origin_gives_ranges')?.samples.size).toBe(2);
    expect(readMetricText(await textOf([])).get('rangeway_store_used_bytes')?.samples.size).toBe(0);
  });
});
