/** What depends on the server around Rangeway, the connection and its client: TLS, trailers, HTTP/1.0, proxies, slow readers. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { createServer as createHttpsServer, request as requestHttps } from 'node:https';
import { buffer, text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { RawClient } from '../support/clients/raw-client.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { listening, open, openOrigin, serve, whole } from '../support/proxies/embedded-ground.ts';
import { testAuthority, testCertificate } from '../support/values/tls-certificate.ts';

const endless = () => new Request('http://a.example/endless');

/** An origin that answers with the fields that it got, one in a line. */
async function openFieldOrigin(): Promise<string> {
  return await serve(({ headers }, response) => {
    response.writeHead(200, { 'cache-control': 'no-store' });
    response.end(JSON.stringify(headers));
  });
}

/** An origin that sends without an end while its connection takes bytes. `sentBytes` returns how many it has written. */
async function openTorrent(): Promise<{ readonly url: string; sentBytes(): number; readonly left: Promise<void> }> {
  const { promise: left, resolve } = Promise.withResolvers<void>();
  let sentBytes = 0;
  const url = await serve((_incoming, response) => {
    const pour = () => {
      sentBytes += whole.length;
      if (!response.destroyed && response.write(whole)) pour();
    };
    response.on('drain', pour).once('close', resolve);
    response.writeHead(200, { 'cache-control': 'no-store' });
    pour();
  });
  return { url, sentBytes: () => sentBytes, left };
}

describe('node:https', () => {
  it('answers ranges, and the origin gets the scheme of the client', async () => {
    const [origin, fieldOrigin] = [await openOrigin(), await openFieldOrigin()];
    const { handler } = await open({
      routes: [{ match: { pathPrefix: '/fields' }, origin: fieldOrigin }, { origin: origin.url }],
    });
    const url = (await listening(createHttpsServer(testCertificate, handler))).replace('http:', 'https:');
    const ask = async (path: string, headers = {}): Promise<IncomingMessage> => {
      const [response] = await once(requestHttps(`${url}${path}`, { ca: testAuthority, headers }).end(), 'response');
      return response;
    };
    const part = await ask('/file', { range: 'bytes=100-109' });
    expect(part.statusCode).toBe(206);
    expect(await buffer(part)).toEqual(whole.subarray(100, 110));
    expect(JSON.parse(await text(await ask('/fields')))).toMatchObject({ 'x-forwarded-proto': 'https' });
  });
});

describe('trailers', () => {
  const sent =
    'HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n' +
    '4\r\nbody\r\n0\r\nX-Sum: 7\r\nSet-Cookie: a=b\r\n\r\n';

  it('reach a client of HTTP/1.1 that accepts them, and no other', async () => {
    await using origin = await openScriptedOrigin(sent);
    const url = await serve((await open(origin.url)).handler);
    for (const [te, trailers] of [
      ['trailers', { 'x-sum': '7' }],
      ['gzip', {}],
    ] as const) {
      const asked = request(url, { headers: { te, connection: 'te' } }).end();
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      expect([await text(response), { ...response.trailers }]).toEqual(['body', trailers]);
    }
  });

  it('reach a client of HTTP/2', async () => {
    await using origin = await openScriptedOrigin(sent);
    const session = connectHttp2(await listening(createHttp2Server((await open(origin.url)).handler)));
    const stream = session.request({ ':path': '/', te: 'trailers' });
    const trailing = once(stream, 'trailers');
    expect(await text(stream)).toBe('body');
    expect(Object.entries((await trailing)[0])).toEqual([['x-sum', '7']]);
    session.destroy();
  });
});

describe('a client of HTTP/1.0', () => {
  const head = 'HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n';

  it.each([
    ['whole', 'the end of the connection', undefined],
    ['broken off', 'a reset, which is no end of the body', 'ECONNRESET'],
  ])('sees a body that is %s by %s', async (_name, _sign, code) => {
    const isRead = Promise.withResolvers<void>();
    await using origin = await openScriptedOrigin(async ({ send, cut }) => {
      await send(head);
      await isRead.promise;
      if (code === undefined) await send('0\r\n\r\n');
      else cut();
    });
    const url = await serve((await open(origin.url)).handler);
    await using client = await RawClient.open(Number(new URL(url).port));
    client.send('GET /file HTTP/1.0\r\nHost: a\r\n\r\n');
    const { lines = [] } = (await client.head()) ?? {};
    expect(lines.map(([name]) => name.toLowerCase())).not.toContain('transfer-encoding');
    expect((await client.take(4)).toString()).toBe('body');
    isRead.resolve();
    expect(await client.rest()).toBe('');
    expect(await client.closed).toBe(code);
  });
});

describe('trustedProxies', () => {
  const forwarded = { 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'https' };

  it.each([
    ['trusted', ['127.0.0.1'], { 'x-forwarded-for': '192.0.2.7, 127.0.0.1', 'x-forwarded-proto': 'https' }],
    ['not trusted', ['192.0.2.1'], { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'http' }],
  ])('decides by the address of the socket, which is %s', async (_name, trustedProxies, expected) => {
    const { handler } = await open({ trustedProxies, routes: [{ origin: await openFieldOrigin() }] });
    const url = await serve(handler);
    expect(await (await fetch(url, { headers: forwarded })).json()).toMatchObject(expected);
  });

  it.each([
    ['192.0.2.1', { 'x-forwarded-for': '192.0.2.7, 192.0.2.1' }],
    ['192.0.2.2', { 'x-forwarded-for': '192.0.2.2' }],
  ])('decides by the address that fetch is given: %s', async (clientAddress, expected) => {
    const rangeway = await open({ trustedProxies: ['192.0.2.1'], routes: [{ origin: await openFieldOrigin() }] });
    const asked = new Request('http://a.example/', { headers: { 'x-forwarded-for': '192.0.2.7' } });
    expect(await (await rangeway.fetch(asked, { clientAddress })).json()).toMatchObject(expected);
  });
});

describe('a client that does not read', () => {
  it.each(['http', 'http2', 'fetch'])('holds back the origin: %s', async (kind) => {
    const origin = await openTorrent();
    const rangeway = await open(origin.url);
    let leave = (): void => {};
    if (kind === 'http') {
      const [response] = await once(request(await serve(rangeway.handler)).end(), 'response');
      leave = () => response.destroy();
    } else if (kind === 'http2') {
      const session = connectHttp2(await listening(createHttp2Server(rangeway.handler)));
      await once(session.request({ ':path': '/' }), 'response');
      leave = () => session.destroy();
    } else {
      const response = await rangeway.fetch(endless());
      leave = () => void response.body?.cancel();
    }
    await untilQuiet(origin.sentBytes);
    expect(origin.sentBytes()).toBeGreaterThan(0);
    // The buffers of the kernel take a few megabytes on each of two connections.
    expect(origin.sentBytes()).toBeLessThan(64 * 1024 * 1024);
    leave();
    await origin.left;
  });

  it('gets the rest, byte for byte, when it reads on', async () => {
    const copies = 100;
    let isHeld = false;
    const url = await serve(async (_incoming, response) => {
      response.writeHead(200, { 'cache-control': 'no-store' });
      for (let sent = 0; sent < copies; sent += 1) {
        if (response.write(whole)) continue;
        isHeld = true;
        await once(response, 'drain');
      }
      response.end();
    });
    const asked = request(await serve((await open(url)).handler)).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    await expect.poll(() => isHeld).toBe(true);
    let readBytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      for (let at = 0; at < chunk.length; ) {
        const from = (readBytes + at) % whole.length;
        const count = Math.min(chunk.length - at, whole.length - from);
        if (whole.compare(chunk, at, at + count, from, from + count) !== 0)
          throw new Error(`differs near ${readBytes}`);
        at += count;
      }
      readBytes += chunk.length;
    }
    expect(readBytes).toBe(copies * whole.length);
  });
});

describe('an aborted fetch', () => {
  it('ends the exchange in the middle of a body that is sent, and cancels its source', async () => {
    const arrived = Promise.withResolvers<void>();
    const cut = Promise.withResolvers<boolean>();
    const server = createServer((incoming) => {
      incoming.once('data', () => arrived.resolve());
      incoming.once('close', () => cut.resolve(incoming.complete));
      incoming.on('error', () => {});
    });
    const rangeway = await open(await listening(server));
    const controller = new AbortController();
    const cancelled = Promise.withResolvers<void>();
    const body = new ReadableStream<Uint8Array>({
      start: (source) => source.enqueue(new TextEncoder().encode('half')),
      cancel: () => cancelled.resolve(),
    });
    const { signal } = controller;
    const asked = new Request('http://a.example/upload', { method: 'POST', body, duplex: 'half', signal });
    const answered = rangeway.fetch(asked);
    answered.catch(() => {});
    await arrived.promise;
    controller.abort(new Error('enough'));
    await expect(answered).rejects.toThrow('enough');
    expect(await cut.promise).toBe(false);
    await cancelled.promise;
  });

  it('of a client ends the exchange in the middle of a body that is received', async () => {
    const origin = await openOrigin();
    const url = await serve((await open(origin.url)).handler);
    const controller = new AbortController();
    const response = await fetch(`${url}/endless`, { signal: controller.signal });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    controller.abort();
    await origin.left;
  });

  it('of one client leaves the bytes of a shared file to another one', async () => {
    const isRead = Promise.withResolvers<void>();
    const url = await serve(async (_incoming, response) => {
      response.writeHead(200, { 'cache-control': 'max-age=60', etag: '"v1"', 'content-length': whole.length });
      response.write(whole.subarray(0, 100_000));
      await isRead.promise;
      response.end(whole.subarray(100_000));
    });
    const rangeway = await open(url);
    const controller = new AbortController();
    const { signal } = controller;
    const leaving = await rangeway.fetch(new Request('http://a.example/file', { signal }));
    const staying = await rangeway.fetch(new Request('http://a.example/file'));
    const reader = (leaving.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    controller.abort(new Error('enough'));
    await expect(reader.closed).rejects.toThrow('enough');
    isRead.resolve();
    expect(Buffer.from(await staying.arrayBuffer())).toEqual(whole);
  });
});
