/** Rangeway within a program: servers of Node, connect-style middleware, and Fetch. */

import { once } from 'node:events';
import { createServer, get, request } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import express from 'express';
import { describe, expect, it } from 'vitest';
import { createRangeway, EmbeddedConfigFault, type Rangeway, type ServerEvent } from '../../src/index.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { accept, echoOrigin, handshake } from '../support/clients/tunnels.ts';
import { atEnd, listening, open, openOrigin, serve, size, whole } from '../support/proxies/embedded-ground.ts';

describe('the handler of node:http', () => {
  it('answers single and several ranges of an origin without ranges, and a HEAD and a 304 without content', async () => {
    const origin = await openOrigin();
    const url = await serve((await open(origin.url)).handler);
    const single = await fetch(`${url}/file`, { headers: { range: 'bytes=10-19' } });
    expect(single.status).toBe(206);
    expect(single.headers.get('content-range')).toBe(`bytes 10-19/${size}`);
    expect(Buffer.from(await single.arrayBuffer())).toEqual(whole.subarray(10, 20));
    const several = await fetch(`${url}/file`, { headers: { range: 'bytes=0-9,200000-200009' } });
    const multipart = Buffer.from(await several.arrayBuffer());
    expect(several.headers.get('content-type')).toMatch(/^multipart\/byteranges/);
    expect(several.headers.get('content-length')).toBe(String(multipart.length));
    expect(multipart.includes(whole.subarray(200_000, 200_010))).toBe(true);
    const head = await fetch(`${url}/file`, { method: 'HEAD' });
    expect([head.headers.get('content-length'), await head.text()]).toEqual([String(size), '']);
    const notModified = await fetch(`${url}/file`, { headers: { 'if-none-match': '"v1"' } });
    expect([notModified.status, await notModified.text()]).toEqual([304, '']);
    // Node's fetch adds `Cache-Control: no-cache` to a request with a precondition.
    expect(origin.asked).toEqual(['GET /file', 'GET /file']);
  });

  it.each([
    ['two Hosts', 'GET /file HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 400],
    ['a target with a fragment', 'GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n', 400],
    ['TRACE', 'TRACE / HTTP/1.1\r\nHost: a\r\n\r\n', 405],
    ['a target that is too long', `GET /${'a'.repeat(9000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 414],
  ])('refuses %s as our listeners do', async (_name, sent, status) => {
    const origin = await openOrigin();
    const url = await serve((await open(origin.url)).handler);
    await using client = await RawClient.open(Number(new URL(url).port));
    client.send(sent);
    expect((await client.response())?.status).toBe(status);
    expect(origin.asked).toEqual([]);
  });

  it('passes on early hints, and sends the body of a request', async () => {
    const origin = await openOrigin();
    const url = await serve((await open(origin.url)).handler);
    const hinted = get(`${url}/hints`);
    const answered = once(hinted, 'response');
    const [information] = await once(hinted, 'information');
    expect([information.statusCode, information.headers.link]).toEqual([103, '</a.css>; rel=preload']);
    const [response] = await answered;
    response.resume();
    const posted = await fetch(`${url}/echo`, { method: 'POST', body: whole });
    expect(Buffer.from(await posted.arrayBuffer())).toEqual(whole);
  });

  it('ends the exchange with the origin when the client leaves', async () => {
    const origin = await openOrigin();
    const url = await serve((await open(origin.url)).handler);
    const leaving = request(`${url}/endless`, { method: 'GET' }).end();
    const [response] = await once(leaving, 'response');
    await once(response, 'data');
    response.destroy();
    await origin.left;
  });

  it('replaces fields of a representation that another middleware has set, and keeps others', async () => {
    const origin = await openOrigin();
    const { handler } = await open(origin.url);
    const url = await serve((incoming, response) => {
      response.setHeader('Content-Length', '1').setHeader('ETag', '"other"').setHeader('X-Frame-Options', 'DENY');
      handler(incoming, response);
    });
    const response = await fetch(`${url}/file`);
    expect(response.headers.get('etag')).toBe('"v1"');
    expect(response.headers.get('x-frame-options')).toBe('DENY');
    expect((await response.arrayBuffer()).byteLength).toBe(size);
  });
});

describe('the handler of node:http2', () => {
  it('answers ranges, and takes the authority of the pseudo-field', async () => {
    const origin = await openOrigin();
    const url = await listening(createHttp2Server((await open(origin.url)).handler));
    const session = connectHttp2(url);
    const stream = session.request({ ':path': '/file', range: 'bytes=-5' });
    const [headers] = await once(stream, 'response');
    expect([headers[':status'], headers['content-length']]).toEqual([206, '5']);
    const [chunk] = await once(stream, 'data');
    expect(chunk).toEqual(whole.subarray(-5));
    session.destroy();
  });
});

describe('the middleware', () => {
  it('serves what a route matches, by the URL that the client sent, and leaves the rest to the program', async () => {
    const origin = await openOrigin();
    const { middleware } = await open({
      routes: [{ match: { pathPrefix: '/media' }, stripPathPrefix: true, origin: origin.url }],
    });
    const app = express().use('/media', middleware).use(middleware);
    app.get('/own', (_request, response) => void response.send('own'));
    const url = await serve(app);
    expect((await fetch(`${url}/media/file`, { headers: { range: 'bytes=0-4' } })).status).toBe(206);
    expect(origin.asked).toEqual(['GET /file']);
    expect(await (await fetch(`${url}/own`)).text()).toBe('own');
    expect((await fetch(`${url}/mediaeval`)).status).toBe(404);
  });

  it('gives next an error where another middleware has read the body', async () => {
    const origin = await openOrigin();
    const { middleware } = await open(origin.url);
    const failures: string[] = [];
    const app = express().use(express.json()).use(middleware);
    app.use(((error, _request, response, _next) => {
      failures.push((error as Error).message);
      response.status(500).end();
    }) satisfies express.ErrorRequestHandler);
    const url = await serve(app);
    const headers = { 'content-type': 'application/json' };
    expect((await fetch(`${url}/echo?token=secret`, { method: 'POST', headers, body: '{}' })).status).toBe(500);
    expect(failures).toEqual([expect.stringMatching(/^Rangeway cannot forward POST \/echo: its body was read before/)]);
    expect(origin.asked).toEqual([]);
  });
});

describe('upgrade', () => {
  it('opens a tunnel where a route matches, and leaves other sockets alone', async () => {
    const echo = await echoOrigin();
    const rangeway = await open({ routes: [{ match: { pathPrefix: '/chat' }, origin: echo.url }] });
    const server = createServer(rangeway.handler);
    const left: (string | undefined)[] = [];
    server.on('upgrade', (incoming, socket, head) => {
      if (rangeway.upgrade(incoming, socket, head)) return;
      left.push(incoming.url);
      socket.end('HTTP/1.1 404 Not Found\r\n\r\n');
    });
    const url = await listening(server);
    await using client = await RawClient.open(Number(new URL(url).port));
    client.send(handshake);
    const response = await client.response();
    expect(response?.status).toBe(101);
    expect(response?.lines.join('\n')).toContain(accept);
    await using other = await RawClient.open(Number(new URL(url).port));
    other.send(handshake.replace('/chat', '/other'));
    expect((await other.response())?.status).toBe(404);
    expect(left).toEqual([expect.stringMatching(/^\/other/)]);
  });
});

describe('fetch', () => {
  it('answers ranges, HEAD and redirects, and sends a body', async () => {
    const origin = await openOrigin();
    const rangeway = await open(origin.url);
    const part = await rangeway.fetch(new Request('http://a.example/file', { headers: { range: 'bytes=5-9' } }));
    expect(part.status).toBe(206);
    expect(Buffer.from(await part.arrayBuffer())).toEqual(whole.subarray(5, 10));
    const all = await rangeway.fetch(new Request('http://a.example/file'));
    expect(Buffer.from(await all.arrayBuffer())).toEqual(whole);
    const head = await rangeway.fetch(new Request('http://a.example/file', { method: 'HEAD' }));
    expect([head.headers.get('content-length'), head.body]).toEqual([String(size), null]);
    const moved = await rangeway.fetch(new Request('http://a.example/redirect'));
    expect([moved.status, moved.headers.get('location')]).toEqual([302, '/file']);
    const posted = await rangeway.fetch(new Request('http://a.example/echo', { method: 'POST', body: 'said' }));
    expect(await posted.text()).toBe('said');
  });

  it('ends with the signal of the request, or when the body is cancelled', async () => {
    for (const leave of ['abort', 'cancel']) {
      const origin = await openOrigin();
      const rangeway = await open(origin.url);
      const controller = new AbortController();
      const response = await rangeway.fetch(new Request(`http://a.example/endless`, { signal: controller.signal }));
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      if (leave === 'cancel') await reader.cancel();
      else controller.abort(new Error('enough'));
      if (leave === 'abort') {
        const readOn = async () => {
          while (!(await reader.read()).done);
        };
        await expect(readOn()).rejects.toThrow('enough');
      }
      await origin.left;
    }
  });
});

describe('several in one process', () => {
  it('share nothing: one is closed while the others serve', async () => {
    const origins = await Promise.all([openOrigin(), openOrigin(), openOrigin()]);
    const events: ServerEvent[] = [];
    const emit = (event: ServerEvent) => void events.push(event);
    const [first, second, third] = (await Promise.all(
      origins.map(({ url }) => createRangeway({ routes: [{ origin: url }] }, { emit })),
    )) as [Rangeway, Rangeway, Rangeway];
    atEnd(() => Promise.all([second.close(), third.close()]).then(() => undefined));
    const url = await serve(first.handler);
    const file = () => new Request('http://a.example/file');
    for (const each of [first, second, third]) await (await each.fetch(file())).arrayBuffer();
    await first.close();
    expect((await fetch(`${url}/file`)).status).toBe(503);
    await expect(first.fetch(file())).rejects.toThrow('closed');
    for (const each of [second, third]) expect((await each.fetch(file())).headers.get('cache-status')).toContain('hit');
    expect((await second.operations.listEntries({ kind: 'all' }, 10, undefined)).entries).toHaveLength(1);
    expect((await second.operations.readReadiness()).isReady).toBe(true);
    expect((await first.operations.readReadiness()).isReady).toBe(false);
    expect(origins.map(({ asked }) => asked.length)).toEqual([1, 1, 1]);
    expect(events.filter(({ kind }) => kind === 'request')).toHaveLength(5);
  });

  it('close cuts requests that outlast the grace', async () => {
    const origin = await openOrigin();
    const rangeway = await open(origin.url);
    const url = await serve(rangeway.handler);
    const response = await fetch(`${url}/endless`);
    const body = response.arrayBuffer();
    body.catch(() => {});
    await rangeway.close({ graceMs: 0 });
    await expect(body).rejects.toThrow();
  });
});

describe('the options', () => {
  it.each([
    [{ listen: '8080', routes: [{ origin: 'http://a.example' }] }, /^listen: does not apply/],
    [{ limits: { connections: 5 }, routes: [{ origin: 'http://a.example' }] }, /^limits\.connections: does not apply/],
    [{ routes: [] }, /^routes/],
    ['not a url', /origin/],
  ])('%j are refused with a reason', async (config, message) => {
    const refused = createRangeway(config as string);
    await expect(refused).rejects.toThrow(EmbeddedConfigFault);
    await expect(refused).rejects.toThrow(message);
  });
});
