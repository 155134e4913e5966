/** The Node load generator as a process: sockets whose bytes are all read. Prints the result as JSON. */

import { createHistogram, performance } from 'node:perf_hooks';
import { Http2LoadConnection } from './http2-connection.ts';
import { bodyBytesOf, type LoadPlan, type LoadResult, statusOf } from './load.ts';
import { type ConnectionPlan, LoadConnection } from './load-connection.ts';
import { createPacer } from './pacer.ts';
import { createRequests } from './requests.ts';

const port = Number(process.argv[2]);
const plan = JSON.parse(process.argv[3] ?? '') as LoadPlan;

const durations = createHistogram();
// A histogram does not accept a duration of zero.
const record = (durationMs: number) => durations.record(Math.max(1, Math.round(durationMs * 1000)));
const requests = createRequests(port, plan.request, plan.host);
const pacer = plan.ratePerSecond === undefined ? undefined : createPacer(plan.ratePerSecond, plan.connections);
const usageBefore = process.cpuUsage();
const startedAt = performance.now();
const endAt = startedAt + plan.seconds * 1000;

const connections = Array.from({ length: plan.connections }, () => {
  const own: ConnectionPlan<LoadConnection | Http2LoadConnection> = {
    nextRequest: requests,
    status: statusOf(plan.request),
    bodyBytes: bodyBytesOf(plan.request),
    isHead: plan.request.kind === 'objects' && plan.request.question?.method === 'HEAD',
    isSecure: plan.over !== undefined,
    onReady: (connection) => (pacer === undefined ? connection.ask() : pacer.offer(connection)),
    onAnswer: record,
  };
  return plan.over === 'http2' ? new Http2LoadConnection(port, own) : new LoadConnection(port, own);
});

setTimeout(() => {
  const seconds = (performance.now() - startedAt) / 1000;
  pacer?.overdue().forEach(record);
  const { user, system } = process.cpuUsage(usageBefore);
  const result: LoadResult = {
    requests: connections.reduce((sum, { answers }) => sum + answers, 0),
    bytes: connections.reduce((sum, { bytes }) => sum + bytes, 0),
    seconds,
    p50Us: durations.percentile(50),
    p99Us: durations.percentile(99),
    p999Us: durations.percentile(99.9),
    failures: connections.reduce((sum, { failures }) => sum + failures, 0),
    cpuSeconds: (user + system) / 1e6,
  };
  process.stdout.write(JSON.stringify(result), () => process.exit());
}, endAt - startedAt);
