/** The load generator as a process: raw sockets that read every byte into one buffer. */

import { createHistogram, performance } from 'node:perf_hooks';
import { bodyBytesOf, type LoadPlan, type LoadResult } from './load.ts';
import { LoadConnection } from './load-connection.ts';
import { createRequests } from './requests.ts';

const port = Number(process.argv[2]);
const plan = JSON.parse(process.argv[3] ?? '') as LoadPlan;

const durations = createHistogram();
const requests = createRequests(port, plan.request);
const status = plan.request.kind === 'ranges' ? 206 : 200;
const startedAt = performance.now();
const endAt = startedAt + plan.seconds * 1000;

const connections = Array.from({ length: plan.connections }, () => {
  return new LoadConnection(port, {
    nextRequest: requests,
    status,
    bodyBytes: bodyBytesOf(plan.request),
    // A duration of zero is none that a histogram takes.
    onAnswer: (durationMs) => durations.record(Math.max(1, Math.round(durationMs * 1000))),
  });
});

setTimeout(() => {
  const seconds = (performance.now() - startedAt) / 1000;
  const result: LoadResult = {
    requests: connections.reduce((sum, { answers }) => sum + answers, 0),
    bytes: connections.reduce((sum, { bytes }) => sum + bytes, 0),
    seconds,
    p50Us: durations.percentile(50),
    p99Us: durations.percentile(99),
    failures: connections.reduce((sum, { failures }) => sum + failures, 0),
  };
  process.stdout.write(JSON.stringify(result), () => process.exit());
}, endAt - startedAt);
