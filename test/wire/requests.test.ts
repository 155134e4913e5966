/** Requests as handlers get them, and the order of their responses. */

import { describe, expect, it } from 'vitest';
import type { ProxyRequest } from '../../src/http/message.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import {
  describeOwnServer,
  openListener,
  testLimits,
  testNow,
  textResponse,
  usually,
} from '../support/proxies/open-listener.ts';

interface Seen {
  readonly method?: string;
  readonly authority: string;
  readonly target: string;
  readonly version?: string;
  /** The value of Host among the fields. */
  readonly host?: string;
}

type Row = readonly [request: string, seen: Seen];

const rows: readonly Row[] = [
  ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', { authority: 'a', target: '/' }],
  [
    'HEAD /a?b=c%20d&e HTTP/1.1\r\nHost: a:8080\r\n\r\n',
    { method: 'HEAD', authority: 'a:8080', target: '/a?b=c%20d&e' },
  ],
  [
    'GET //a/../b/./%2e%2E\\|{}"<>^` HTTP/1.1\r\nHost: a\r\n\r\n',
    { authority: 'a', target: '//a/../b/./%2e%2E\\|{}"<>^`' },
  ],
  ['GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n', { authority: '[::1]:80', target: '/' }],
  // IPvFuture, RFC 3986 §3.2.2
  ['GET / HTTP/1.1\r\nHost: [v1.abc]\r\n\r\n', { authority: '[v1.abc]', target: '/' }],
  ['GET / HTTP/1.1\r\nHost: a_b.Example:\r\n\r\n', { authority: 'a_b.Example:', target: '/' }],
  ['GET / HTTP/1.1\r\nHost:\t a \t\r\n\r\n', { authority: 'a', target: '/' }],
  ['GET http://b:81/c?d HTTP/1.1\r\nHost: a\r\n\r\n', { authority: 'b:81', target: '/c?d', host: 'b:81' }],
  ['GET HTTP://B HTTP/1.1\r\nHost: a\r\n\r\n', { authority: 'B', target: '/', host: 'B' }],
  ['GET http://b?c HTTP/1.1\r\nHost: a\r\n\r\n', { authority: 'b', target: '/?c', host: 'b' }],
  ['GET http://b/ HTTP/1.0\r\n\r\n', { authority: 'b', target: '/', host: 'b', version: '1.0' }],
  ['OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', { method: 'OPTIONS', authority: 'a', target: '*' }],
  ['OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n', { method: 'OPTIONS', authority: 'b', target: '*', host: 'b' }],
  ['OPTIONS http://b/ HTTP/1.1\r\nHost: a\r\n\r\n', { method: 'OPTIONS', authority: 'b', target: '/', host: 'b' }],
  ['GET / HTTP/1.0\r\n\r\n', { authority: '', target: '/', version: '1.0' }],
  ['GET / HTTP/1.0\r\nHost: a\r\n\r\n', { authority: 'a', target: '/', version: '1.0' }],
  ['\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n', { authority: 'a', target: '/' }],
  ['PURGE / HTTP/1.1\r\nHost: a\r\n\r\n', { method: 'PURGE', authority: 'a', target: '/' }],
];

describe('a request', () => {
  it.each(rows)('%j', async (bytes, { method = 'GET', authority, target, version = '1.1', host = authority }) => {
    await using listener = await openListener(() => textResponse(''));
    await using client = await listener.connect();
    client.send(usually.spoken(bytes));
    expect((await client.response(method))?.status).toBe(200);
    const [request] = listener.requests;
    const { scheme } = usually;
    expect(request).toMatchObject({ method, scheme, authority, target, version, receivedAt: testNow });
    expect(request?.peer).toEqual(usually.peer(client));
    expect(hostsOf(request)).toEqual(host === '' ? [] : [host]);
    expect(listener.events).toEqual([]);
  });

  it('may have thousands of field lines, if the limits allow it', async () => {
    const limits = { fieldsBytes: 100_000, maxFieldCount: 3_000 };
    await using listener = await openListener(() => textResponse(''), { limits });
    await using client = await listener.connect();
    await client.exchange(`GET / HTTP/1.1\r\nHost: a\r\n${'X: a\r\n'.repeat(2_999)}\r\n`);
    expect(listener.requests[0]?.fields).toHaveLength(3_000);
    expect((await client.exchange(`GET / HTTP/1.1\r\nHost: a\r\n${'X: a\r\n'.repeat(3_000)}\r\n`)).status).toBe(431);
  });

  it('keeps its field lines: order, repetitions, empty values and bytes over 0x7f; names in lower case', async () => {
    await using listener = await openListener(() => textResponse(''));
    await using client = await listener.connect();
    client.send(
      'GET / HTTP/1.1\r\nHost: a\r\nX-A:1\r\nx-B:  \t\r\nX-a: \t2  3 \t\r\nCookie: \xe4\r\nConnection: x-a\r\n\r\n',
    );
    await client.response();
    expect(listener.requests[0]?.fields).toEqual([
      ['host', 'a'],
      ['x-a', '1'],
      ['x-b', ''],
      ['x-a', '2  3'],
      ['cookie', '\xe4'],
      ['connection', 'x-a'],
    ]);
  });

  it('may be as large as the limits', async () => {
    const target = `/${'t'.repeat(testLimits.targetBytes - 1)}`;
    const value = 'v'.repeat(testLimits.fieldsBytes - 'hosta'.length - 'x'.length - 8);
    await using listener = await openListener(() => textResponse(''));
    await using client = await listener.connect();
    expect((await client.exchange(`GET ${target} HTTP/1.1\r\nHost: a\r\nX: ${value}\r\n\r\n`)).status).toBe(200);
    expect((await client.exchange(`GET / HTTP/1.1\r\nHost: a\r\n${'X: a\r\n'.repeat(49)}\r\n`)).status).toBe(200);
    expect(listener.requests[1]?.fields).toHaveLength(testLimits.maxFieldCount);
    const tooLarge = await client.exchange(`GET / HTTP/1.1\r\nHost: a\r\nX: ${value}v\r\n\r\n`);
    expect(tooLarge.status).toBe(431);
  });

  it('has the scheme https over TLS', async () => {
    await using listener = await openListener(() => textResponse(''), { carrier: 'tls' });
    await using client = await listener.connect();
    await client.exchange('GET https://b/ HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(listener.requests[0]).toMatchObject({ scheme: 'https', authority: 'b' });
    expect(listener.listener.address.url).toBe(`https://127.0.0.1:${listener.port}`);
    expect((await client.exchange('GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n')).status).toBe(400);
  });

  it('may arrive byte by byte', async () => {
    await using listener = await openListener(() => textResponse('whole'));
    await using client = await listener.connect();
    for (const byte of 'GET /slow HTTP/1.1\r\nHost: a\r\n\r\n') client.send(byte);
    expect((await client.response())?.body.toString()).toBe('whole');
  });

  it('is answered with 500 when the handler throws or rejects, and the next one is served as usual', async () => {
    await using listener = await openListener(({ target }) => {
      if (target === '/throw') throw new Error('secret');
      if (target === '/reject') return Promise.reject(new Error('secret'));
      return textResponse('well');
    });
    await using client = await listener.connect();
    for (const target of ['/throw', '/reject']) {
      const response = await client.exchange(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`);
      expect(response.status).toBe(500);
      expect(response.body.toString()).not.toContain('secret');
    }
    expect((await client.exchange('GET / HTTP/1.1\r\nHost: a\r\n\r\n')).body.toString()).toBe('well');
  });
});

describe('pipelined requests', () => {
  it('are answered in their order, whichever is ready first', async () => {
    const releases = new Map<string, () => void>();
    await using listener = await openListener(async ({ target }) => {
      await new Promise<void>((resolve) => releases.set(target, resolve));
      return textResponse(target);
    });
    await using client = await listener.connect();
    const targets = ['/1', '/2', '/3', '/4'];
    client.send(targets.map((target) => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''));
    await expect.poll(() => releases.size).toBe(4);
    for (const target of ['/4', '/2', '/1', '/3']) releases.get(target)?.();
    for (const target of targets) expect((await client.response())?.body.toString()).toBe(target);
  });

  it('are answered in the same tick where the handler is synchronous', async () => {
    await using listener = await openListener(({ target }) => textResponse(target));
    await using client = await listener.connect();
    client.send(
      'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n',
    );
    expect((await client.response())?.body.toString()).toBe('/1');
    expect(rawValues((await client.response('HEAD')) ?? { lines: [] }, 'content-length')).toEqual(['2']);
    expect((await client.response())?.body.toString()).toBe('/3');
  });

  it('are taken up to a hundred, and the connection ends after those', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ target }) => {
      await release.promise;
      return textResponse(target);
    });
    await using client = await listener.connect();
    const requests = Array.from({ length: 5_000 }, (_, at) => `GET /${at} HTTP/1.1\r\nHost: a\r\n\r\n`);
    void client.pour(Buffer.from(requests.join('')), 500);
    await untilQuiet(() => client.pouredBytes);
    expect(client.pouredBytes).toBeLessThan(32 * 1024 * 1024);
    expect(listener.requests).toHaveLength(100);
    release.resolve();
    for (let at = 0; at < 100; at += 1) expect((await client.response())?.body.toString()).toBe(`/${at}`);
    expect(await client.response()).toBeUndefined();
    expect(listener.requests).toHaveLength(100);
  });

  it('end with the response that ends the connection', async () => {
    await using listener = await openListener(({ target }) =>
      textResponse(target, { closeConnection: target === '/2' }),
    );
    await using client = await listener.connect();
    client.send(['/1', '/2', '/3'].map((target) => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''));
    expect((await client.response())?.body.toString()).toBe('/1');
    expect(rawValues((await client.response()) ?? { lines: [] }, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
    expect(listener.requests.map(({ target }) => target)).toEqual(['/1', '/2']);
  });
});

describe('an upgrade that is not tunnelled', () => {
  const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n';

  it('is an ordinary request, but the last one: bytes behind it may be of the other protocol', async () => {
    await using listener = await openListener(() => textResponse('plain'));
    await using client = await listener.connect();
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n${h2c}\r\nGET /lost HTTP/1.1\r\nX: `);
    const response = await client.response();
    client.send('GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(response?.status).toBe(200);
    expect(response?.body.toString()).toBe('plain');
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
    expect(listener.requests.map(({ target }) => target)).toEqual(['/']);
  });

  it('keeps its body', async () => {
    await using listener = await openListener(async ({ body }) => {
      let text = '';
      for await (const chunk of body ?? []) text += Buffer.from(chunk).toString();
      return textResponse(text);
    });
    await using client = await listener.connect();
    const response = await client.exchange(`POST / HTTP/1.1\r\nHost: a\r\n${h2c}Content-Length: 4\r\n\r\nbody`);
    expect(response.body.toString()).toBe('body');
  });

  it('keeps its place among pipelined requests', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ target }) => {
      await release.promise;
      return textResponse(target);
    });
    await using client = await listener.connect();
    client.send(`GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n${h2c}\r\n`);
    await expect.poll(() => listener.requests.length).toBe(2);
    release.resolve();
    expect((await client.response())?.body.toString()).toBe('/1');
    expect((await client.response())?.body.toString()).toBe('/2');
    expect(await client.rest()).toBe('');
  });
});

function hostsOf(request: ProxyRequest | undefined): string[] {
  return (request?.fields ?? []).filter(([name]) => name === 'host').map(([, value]) => value);
}

describeOwnServer('a request', () => {
  it('of HTTP/1.2 counts as one of HTTP/1.1', async () => {
    await using listener = await openListener(() => textResponse(''));
    await using client = await listener.connect();
    client.send(usually.spoken('GET / HTTP/1.2\r\nHost: a\r\n\r\n'));
    expect((await client.response())?.status).toBe(200);
    expect(listener.requests[0]).toMatchObject({ authority: 'a', target: '/', version: '1.1' });
  });

  it('with a method that nobody has registered is served where the operator names it', async () => {
    await using listener = await openListener(() => textResponse('x'), { limits: { methods: new Set(['PURGEALL']) } });
    for (const [method, status] of [
      ['PURGEALL', 200],
      ['purgeall', 501],
      ['OTHER', 501],
      ['CONNECT', 405],
    ] as const) {
      await using client = await listener.connect();
      client.send(`${method} / HTTP/1.1\r\nHost: a\r\n\r\n`);
      expect([method, (await client.response())?.status]).toEqual([method, status]);
    }
  });
});
