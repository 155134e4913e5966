/** Traces, from the fields of the client to those sent to the origin, with an SDK and without one. */

import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import type { RequestEvent, ServerEvent } from '../../src/telemetry/events.ts';
import { openTracing } from '../../src/telemetry/tracing.ts';
import { type RecordedSpan, recordSpans } from '../support/proxies/recorded-spans.ts';

const traceId = 'a'.repeat(32);
const clientSpan = 'b'.repeat(16);
const traceparent = `00-${traceId}-${clientSpan}-01`;

let origin: Server;
let forwarded: { readonly url: string | undefined; readonly headers: IncomingHttpHeaders }[];
let server: RunningServer;
let events: ServerEvent[];

beforeEach(async () => {
  forwarded = [];
  events = [];
  origin = createServer(({ url, headers }, response) => {
    forwarded.push({ url, headers });
    if (url === '/dead') response.destroy();
    const cacheControl = url === '/swr' ? 'max-age=0, stale-while-revalidate=1000' : 'max-age=60';
    const status = url === '/missing' ? 404 : url === '/ill' ? 500 : 200;
    const own = { traceparent: '00-1-2-3', traceresponse: 'x' };
    response.writeHead(status, { 'cache-control': cacheControl, etag: '"1"', ...own }).end('the body');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});
afterEach(async () => {
  await server.close({ graceMs: 0 });
  origin.closeAllConnections();
  origin.close();
});

const port = () => (origin.address() as AddressInfo).port;

async function serve(): Promise<void> {
  const routes = [{ name: 'files', origin: { url: `http://127.0.0.1:${port()}`, retries: { attempts: 0 } } }];
  const loaded = checkConfig({ listen: '127.0.0.1:0', store: { type: 'memory' }, routes }, '/');
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config, { emit: (event) => void events.push(event) });
}

/** Sends a request, reads its response, and waits for its event. */
async function get(path: string, headers: Record<string, string> = {}): Promise<Response> {
  const before = requests().length;
  const response = await fetch(`${server.url}${path}`, { headers });
  await response.arrayBuffer();
  await expect.poll(() => requests().length).toBe(before + 1);
  return response;
}

const requests = () => events.filter((event): event is RequestEvent => event.kind === 'request');

describe('without an SDK', () => {
  beforeEach(serve);

  it('nothing is traced', async () => {
    expect(openTracing('1')).toBeUndefined();
    await get('/file');
    expect(requests()[0]).not.toHaveProperty('traceId');
  });

  it.each([
    { traceparent, tracestate: 'vendor=1,other=2', baggage: 'user=7' },
    { traceparent: 'no such thing', tracestate: '=' },
    { traceparent: '00-0-0-00' },
    { b3: `${traceId}-${clientSpan}-1`, 'x-b3-sampled': '1' },
  ])('%j goes to the origin as it is', async (fields) => {
    await get('/file', fields as Record<string, string>);
    expect(forwarded[0]?.headers).toMatchObject(fields);
  });

  it('no request has fields that its client did not send', async () => {
    await get('/file');
    expect(Object.keys(forwarded[0]?.headers ?? {}).filter((name) => name.startsWith('trace'))).toEqual([]);
  });

  it('a hit does not have the trace fields of the origin', async () => {
    const fields = ['traceparent', 'traceresponse'];
    const read = ({ headers }: Response) => fields.map((name) => headers.get(name));
    await get('/file');
    const hit = await get('/file');
    expect([hit.headers.get('cache-status')?.includes('hit'), ...read(hit)]).toEqual([true, null, null]);
  });

  it('a background revalidation is in no client’s trace', async () => {
    await get('/swr');
    await get('/swr', { traceparent, baggage: 'user=7' });
    await expect.poll(() => forwarded.length).toBe(2);
    expect(forwarded[1]?.headers).toMatchObject({ 'if-none-match': '"1"' });
    expect(forwarded[1]?.headers).not.toHaveProperty('traceparent');
    expect(forwarded[1]?.headers).not.toHaveProperty('baggage');
  });
});

describe('with an SDK', () => {
  let recorded: ReturnType<typeof recordSpans>;
  let spans: readonly RecordedSpan[];
  beforeEach(async () => {
    recorded = recordSpans();
    ({ spans } = recorded);
    await serve();
  });
  afterEach(() => recorded[Symbol.dispose]());

  it('a miss is a span of the client’s trace, and its exchange is a child of that span', async () => {
    await get('/file?token=secret', { traceparent, tracestate: 'vendor=1', 'user-agent': 'tester' });
    const [received, sent] = spans;
    expect(spans).toHaveLength(2);
    expect(received).toMatchObject({
      name: 'GET files',
      kind: SpanKind.SERVER,
      traceId,
      parentId: clientSpan,
      status: { code: SpanStatusCode.UNSET },
      isEnded: true,
      attributes: {
        'http.request.method': 'GET',
        'http.response.status_code': 200,
        'http.route': 'files',
        'http.response.body.size': 8,
        'url.scheme': 'http',
        'url.path': '/file',
        'url.query': 'token=[redacted]',
        'server.address': server.url.slice('http://'.length),
        'network.protocol.version': '1.1',
        'network.peer.address': '127.0.0.1',
        'client.address': '127.0.0.1',
        'user_agent.original': 'tester',
        'rangeway.cache.outcome': 'miss',
        'rangeway.cache.reason': 'uri-miss',
        'rangeway.cache.collapsed': false,
      },
    });
    expect(sent).toMatchObject({
      name: 'GET',
      kind: SpanKind.CLIENT,
      traceId,
      parentId: received?.spanId,
      isEnded: true,
      links: [],
      attributes: {
        'http.request.method': 'GET',
        'http.response.status_code': 200,
        'http.response.body.size': 8,
        'server.address': '127.0.0.1',
        'server.port': port(),
        'url.full': `http://127.0.0.1:${port()}/file?token=[redacted]`,
      },
    });
    expect(forwarded[0]?.headers).toMatchObject({
      traceparent: `00-${traceId}-${sent?.spanId}-01`,
      tracestate: 'vendor=1',
    });
    expect(requests()[0]).toMatchObject({ traceId });
  });

  it('a hit has no span of an exchange', async () => {
    await get('/file');
    await get('/file', { range: 'bytes=0-1' });
    expect(spans.map(({ kind }) => kind)).toEqual([SpanKind.SERVER, SpanKind.CLIENT, SpanKind.SERVER]);
    expect(spans[2]?.attributes).toMatchObject({ 'rangeway.cache.outcome': 'hit', 'http.response.status_code': 206 });
  });

  it.each([{}, { traceparent: 'no such thing' }])('%j begins a trace', async (fields) => {
    await get('/file', fields as Record<string, string>);
    const [received, sent] = spans;
    expect(received?.parentId).toBeUndefined();
    expect(forwarded[0]?.headers['traceparent']).toBe(`00-${received?.traceId}-${sent?.spanId}-01`);
  });

  it.each([
    ['/dead', 502, 'origin_reset', 'origin_reset'],
    ['/ill', 500, '500', '500'],
    ['/missing', 404, undefined, '404'],
  ])('%s, answered with %d, has errors in the right spans', async (path, status, received, sent) => {
    expect(await get(path)).toMatchObject({ status });
    expect(spans.map(({ attributes }) => attributes['error.type'])).toEqual([received, sent]);
    expect(spans.map(({ status: { code } }) => code === SpanStatusCode.ERROR)).toEqual([received !== undefined, true]);
    expect(spans.every(({ isEnded }) => isEnded)).toBe(true);
  });

  it('a background revalidation is a trace of its own, with a link to the request that caused it', async () => {
    await get('/swr');
    await get('/swr', { traceparent });
    await expect.poll(() => forwarded.length).toBe(2);
    const [, , received, sent] = spans;
    await expect.poll(() => sent?.isEnded).toBe(true);
    expect(sent?.parentId).toBeUndefined();
    expect(sent?.traceId).not.toBe(traceId);
    expect(sent?.links.map(({ context }) => [context.traceId, context.spanId])).toEqual([[traceId, received?.spanId]]);
    expect(forwarded[1]?.headers['traceparent']).toBe(`00-${sent?.traceId}-${sent?.spanId}-01`);
  });

  it('an SDK that fails costs traces, and no request', async () => {
    recorded.fail(new Error('no room for spans'));
    expect(await get('/file', { traceparent })).toMatchObject({ status: 200 });
    expect(forwarded[0]?.headers).toMatchObject({ traceparent });
    expect(spans).toEqual([]);
  });

  it('unknown methods have the span name HTTP', async () => {
    await fetch(`${server.url}/file`, { method: 'PROPFIND' }).catch(() => undefined);
    await expect.poll(() => requests().length).toBe(1);
    expect(spans[0]).toMatchObject({
      name: 'HTTP files',
      attributes: { 'http.request.method': '_OTHER', 'http.request.method_original': 'PROPFIND' },
    });
  });
});
