/** The totals of a live view: they are sums of the metrics. */

import { expect, it } from 'vitest';
import { createCounting, secondsBounds } from '../../src/telemetry/counters.ts';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import { createFleetMetrics } from '../../src/telemetry/metrics.ts';
import { sumTotals } from '../../src/telemetry/totals.ts';

function requestWith(changes: Partial<RequestEvent>): RequestEvent {
  return {
    kind: 'request',
    method: 'GET',
    route: 'r',
    status: 200,
    outcome: 'hit',
    bytesSent: 10,
    headMs: 0,
    durationMs: 0,
    complete: true,
    isAtOnce: true,
    ...changes,
  } as RequestEvent;
}

function countSome() {
  const { emit, tallies } = createCounting({ kind: 'alone' }, () => 0);
  emit({ kind: 'connection', stage: 'opened', scheme: 'http' });
  emit({ kind: 'begun', what: 'request' });
  emit(requestWith({}));
  emit(requestWith({ route: 'other', headMs: 2 }));
  emit(requestWith({ outcome: 'miss', headMs: 700_000, isAtOnce: false }));
  emit(requestWith({ outcome: 'miss', status: 502 }));
  emit({ kind: 'begun', what: 'request' });
  emit({ kind: 'begun', what: 'exchange' });
  emit({
    kind: 'exchange',
    route: 'r',
    origin: 'http://o.test',
    method: 'GET',
    status: 200,
    isResent: false,
    receivedBytes: 7,
    headMs: 1,
    durationMs: 1,
    isFailed: false,
    error: undefined,
    errorDetail: undefined,
  });
  return tallies.map((tally) => tally.read());
}

const counts = (factor: number) =>
  [...secondsBounds, Infinity].map((bound) => factor * ({ 0.001: 2, 0.0025: 1, Infinity: 1 }[bound] ?? 0));
const none = { hit: 0, stale: 0, revalidated: 0, miss: 0, uncacheable: 0, none: 0, failed: 0, inFlight: 0 };

it('are zero at the start', () => {
  const { tallies } = createCounting({ kind: 'alone' }, () => 0);
  expect(sumTotals(tallies.map((tally) => tally.read()))).toEqual({
    requests: none,
    bytes: { sent: 0, fromOrigin: 0 },
    latency: { boundsMs: secondsBounds.map((bound) => bound * 1000), counts: counts(0) },
    connectionsOpen: 0,
  });
});

it.each(['one process', 'two processes'])('are the sums of %s', async (processes) => {
  const factor = processes === 'one process' ? 1 : 2;
  const metrics = factor === 1 ? countSome() : await createFleetMetrics().combine([countSome(), countSome()]);
  expect(sumTotals(metrics)).toMatchObject({
    requests: { ...none, hit: 2 * factor, miss: factor, failed: factor, inFlight: factor },
    bytes: { sent: 40 * factor, fromOrigin: 7 * factor },
    latency: { counts: counts(factor) },
    connectionsOpen: factor,
  });
});
