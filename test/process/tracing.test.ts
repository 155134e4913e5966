/** Traces of the executable, with an SDK that is preloaded, in one process and in workers. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SpanKind } from '@opentelemetry/api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startConfigured } from '../support/processes/rangeway-process.ts';
import type { RecordedSpan } from '../support/proxies/recorded-spans.ts';

const sdk = new URL('../support/processes/spans-to-output.ts', import.meta.url).href;
const traceId = 'a'.repeat(32);
const parentId = 'b'.repeat(16);
let origin: Server;
let asked: (string | undefined)[];
let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-tracing-'));
  asked = [];
  origin = createServer((request, response) => {
    asked.push(request.headers['traceparent'] as string | undefined);
    response.writeHead(200, { 'cache-control': 'max-age=60' }).end('the body');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});
afterAll(async () => {
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

describe.each([1, 2])('with %d workers', (workers) => {
  it('a request is a span of its client’s trace, its exchange is a child span, and its log line names the trace', async () => {
    const config = {
      listen: '127.0.0.1:0',
      workers,
      log: { format: 'json' },
      store: { dir: join(dir, `store-${workers}`) },
      routes: [{ name: 'files', origin: { url: `http://127.0.0.1:${(origin.address() as AddressInfo).port}` } }],
    };
    await using server = await startConfigured(dir, config, { NODE_OPTIONS: `--import=${sdk}` });
    const headers = { traceparent: `00-${traceId}-${parentId}-01` };
    await (await fetch(`${server.url}/file`, { headers })).text();
    await server.waitFor(/span .*\n(?:.*\n)*span .*\n/);
    const spans = server
      .output()
      .split('\n')
      .filter((line) => line.startsWith('span '))
      .map((line): RecordedSpan => JSON.parse(line.slice('span '.length)));
    const received = spans.find(({ kind }) => kind === SpanKind.SERVER);
    const sent = spans.find(({ kind }) => kind === SpanKind.CLIENT);
    expect(received).toMatchObject({ name: 'GET files', traceId, parentId });
    expect(sent).toMatchObject({ name: 'GET', traceId, parentId: received?.spanId });
    expect(asked.at(-1)).toBe(`00-${traceId}-${sent?.spanId}-01`);
    await server.waitFor(new RegExp(`"target":"/file".*"traceId":"${traceId}"`));
  });
});
