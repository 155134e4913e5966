/** Pipelined requests of all kinds on one connection (RFC 9112 §9.3.2). */

import { describe, expect, it } from 'vitest';
import { errorResponse } from '../../src/delivery/problem.ts';
import type { Handler, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { describeOwnServer, openListener, streamResponse, textResponse } from '../support/proxies/open-listener.ts';

interface Step {
  readonly request: string;
  readonly status: number;
  readonly body: string;
}

const step = (start: string, status: number, body: string, rest = ''): Step => ({
  request: `${start} HTTP/1.1\r\nHost: a\r\n${rest === '' ? '\r\n' : rest}`,
  status,
  body,
});

const steps: readonly Step[] = [
  step('GET /slow', 200, 'slow'),
  step('HEAD /text', 200, ''),
  step('GET /text', 200, 'text'),
  step('GET /missing', 404, expect.stringContaining('"status":404')),
  step('POST /echo', 200, 'abc', 'Content-Length: 3\r\n\r\nabc'),
  step('POST /echo', 200, 'defg', 'Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n2\r\nfg\r\n0\r\n\r\n'),
  step('GET /throw', 500, expect.stringContaining('"status":500')),
  step('POST /text', 200, 'text', 'Content-Length: 3\r\n\r\nabc'),
  step('GET /stream', 200, 'streamed'),
  step('HEAD /stream', 200, ''),
  step('DELETE /empty', 204, ''),
  step('GET /unchanged', 304, ''),
  step('HEAD /missing', 404, ''),
  step('OPTIONS *', 200, 'text'),
  step('GET /last', 200, 'text'),
];

async function* streamed(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('stre');
  yield Buffer.from('amed');
}

async function echo({ body }: ProxyRequest) {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  return textResponse(Buffer.concat(chunks).toString());
}

function answers(slow: Promise<void>): Handler {
  return (request) => {
    switch (request.target) {
      case '/slow':
        return slow.then(() => textResponse('slow'));
      case '/missing':
        return errorResponse(new ProxyError('no_route'));
      case '/echo':
        return echo(request);
      case '/throw':
        throw new Error('broken');
      case '/stream':
        return streamResponse(streamed(), undefined);
      case '/empty':
        return { status: 204, fields: [], body: { kind: 'none' } };
      case '/unchanged':
        return { status: 304, fields: [], body: { kind: 'none' } };
      default:
        return textResponse('text');
    }
  };
}

describeOwnServer('pipelined requests of all kinds', () => {
  it.each<[string, (bytes: string) => string[]]>([
    ['in one piece', (bytes) => [bytes]],
    ['in two pieces', (bytes) => [bytes.slice(0, bytes.length / 2), bytes.slice(bytes.length / 2)]],
    ['byte by byte', (bytes) => [...bytes]],
  ])('%s are answered in their order, errors included, however long the first one takes', async (_name, split) => {
    const slow = Promise.withResolvers<void>();
    await using listener = await openListener(answers(slow.promise));
    await using client = await listener.connect();
    for (const piece of split(steps.map(({ request }) => request).join(''))) client.send(piece);
    // Only safe requests run beside others.
    await expect
      .poll(() => listener.requests.length)
      .toBe(steps.findIndex(({ request }) => request.startsWith('POST')));
    expect(client.socket.bytesRead).toBe(0);
    slow.resolve();
    for (const { request, status, body } of steps) {
      const response = await client.response(request.slice(0, request.indexOf(' ')));
      expect({ request, status: response?.status, body: response?.body.toString() }).toEqual({ request, status, body });
      expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['keep-alive']);
    }
  });
});

describeOwnServer('requests with unsafe methods', () => {
  const post = (target: string) => `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy`;
  const get = (target: string) => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`;

  it.each<[string, (bytes: string) => string[]]>([
    ['in one piece', (bytes) => [bytes]],
    ['byte by byte', (bytes) => [...bytes]],
  ])('%s run one after another, and safe ones between them together (RFC 9112 §9.3.2)', async (_name, split) => {
    const waiting = new Map<string, () => void>();
    await using listener = await openListener(async ({ target, body }) => {
      for await (const _chunk of body ?? []);
      await new Promise<void>((resolve) => waiting.set(target, resolve));
      return textResponse(target);
    });
    await using client = await listener.connect();
    const bytes = post('/1') + post('/2') + get('/3') + get('/4') + post('/5') + get('/6');
    for (const piece of split(bytes)) client.send(piece);
    for (const group of [['/1'], ['/2'], ['/3', '/4'], ['/5'], ['/6']]) {
      await expect.poll(() => [...waiting.keys()]).toEqual(group);
      for (const target of group.toReversed()) waiting.get(target)?.();
      waiting.clear();
      for (const target of group) expect((await client.response())?.body.toString()).toBe(target);
    }
    expect(listener.requests.map(({ target }) => target)).toEqual(['/1', '/2', '/3', '/4', '/5', '/6']);
  });

  it('after a connection that drains are still taken', async () => {
    await using listener = await openListener(() => textResponse('well'));
    await using client = await listener.connect();
    client.send(get('/1'));
    expect((await client.response())?.status).toBe(200);
    const retired = listener.listener.retire();
    client.send(post('/2'));
    expect((await client.response())?.status).toBe(200);
    await retired;
  });
});

describe('a response that is the last one on its connection', () => {
  const next = 'GET /next HTTP/1.1\r\nHost: a\r\n\r\n';

  it.each<[string, string, ProxyResponse]>([
    [
      'because it ends with the connection',
      'GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n',
      streamResponse(streamed(), undefined),
    ],
    [
      'because the handler ends the connection',
      next.replace('/next', '/'),
      textResponse('streamed', { closeConnection: true }),
    ],
  ])('%s is the last even if the next request has reached the handler', async (_name, request, response) => {
    const release = Promise.withResolvers<ProxyResponse>();
    await using listener = await openListener(({ target }) => {
      return target === '/next' ? textResponse('next') : release.promise;
    });
    await using client = await listener.connect();
    client.send(request + next);
    await expect.poll(() => listener.requests.length).toBe(2);
    release.resolve(response);
    const last = await client.response();
    expect(rawValues(last ?? { lines: [] }, 'connection')).toEqual(['close']);
    expect(last?.body.toString()).toBe('streamed');
    expect(await client.rest()).toBe('');
  });
});
