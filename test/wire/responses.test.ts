/** How responses are written: heads, framing, and whether the connection is kept. */

import { describe, expect, it } from 'vitest';
import type { Body, Delivery, ProxyResponse } from '../../src/http/message.ts';
import { type RawResponse, rawValues } from '../support/clients/raw-client.ts';
import { openListener, streamResponse, testNow, textResponse } from '../support/proxies/open-listener.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

async function* chunksOf(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

function connectionOf(response: RawResponse): string | undefined {
  return rawValues(response, 'connection')[0];
}

describe('the head of a response', () => {
  it('keeps the order and the repetitions of its fields, and writes their names in conventional case', async () => {
    await using listener = await openListener(() => ({
      ...textResponse('x'),
      fields: [
        ['etag', '"a"'],
        ['set-cookie', 'a=1'],
        ['x-xss-protection', '0'],
        ['set-cookie', 'b=2'],
        ['www-authenticate', 'Basic'],
        ['date', 'Thu, 01 Jan 1970 00:00:00 GMT'],
        ['x-latin', '\xe4'],
      ],
    }));
    await using client = await listener.connect();
    const response = await client.exchange(get);
    expect(response.reason).toBe('OK');
    expect(response.lines.slice(0, 8)).toEqual([
      ['ETag', '"a"'],
      ['Set-Cookie', 'a=1'],
      ['X-XSS-Protection', '0'],
      ['Set-Cookie', 'b=2'],
      ['WWW-Authenticate', 'Basic'],
      ['Date', 'Thu, 01 Jan 1970 00:00:00 GMT'],
      ['X-Latin', '\xe4'],
      ['Content-Length', '1'],
    ]);
    expect(rawValues(response, 'date')).toHaveLength(1);
  });

  it('has a Date where the fields have none (RFC 9110 §6.6.1)', async () => {
    await using listener = await openListener(() => textResponse('x'));
    await using client = await listener.connect();
    expect(rawValues(await client.exchange(get), 'date')).toEqual([new Date(testNow).toUTCString()]);
  });

  it('is framed by the listener alone, whatever the fields say', async () => {
    await using listener = await openListener(() => ({
      ...textResponse('body'),
      fields: [
        ['content-length', '2'],
        ['transfer-encoding', 'chunked'],
        ['connection', 'close'],
        ['keep-alive', 'timeout=1'],
        ['trailer', 'x'],
        ['upgrade', 'h2c'],
      ],
    }));
    await using client = await listener.connect();
    const response = await client.exchange(get);
    expect(response.body.toString()).toBe('body');
    expect(rawValues(response, 'content-length')).toEqual(['4']);
    for (const name of ['transfer-encoding', 'trailer', 'upgrade']) expect(rawValues(response, name)).toEqual([]);
    expect(connectionOf(response)).toBe('keep-alive');
  });

  it('has Upgrade where its status is 426 (RFC 9110 §7.8, §15.5.22)', async () => {
    await using listener = await openListener(() => ({
      ...textResponse('body'),
      status: 426,
      fields: [
        ['upgrade', 'TLS/1.3, HTTP/2.0'],
        ['x', 'y'],
      ],
    }));
    await using client = await listener.connect();
    for (const last of [false, true]) {
      const response = await client.exchange(last ? get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n') : get);
      expect(rawValues(response, 'upgrade')).toEqual(['TLS/1.3, HTTP/2.0']);
      expect(connectionOf(response)).toMatch(last ? /^upgrade, close$/ : /^upgrade(?:, keep-alive)?$/);
    }
    expect(await client.rest()).toBe('');
  });

  it.each([
    ['a line break in a value', { fields: [['x', 'a\r\nSet-Cookie: b=1']] }],
    ['a name that is no token', { fields: [['x y', 'a']] }],
    ['an interim status', { status: 103 }],
    ['an invalid status', { status: 1000 }],
    ['a status with a fraction', { status: 200.5 }],
    ['more bytes than promised', { body: { kind: 'bytes', sizeBytes: 1, chunks: [Buffer.from('ab')] } }],
    ['fewer bytes than promised', { body: { kind: 'bytes', sizeBytes: 3, chunks: [Buffer.from('ab')] } }],
  ] satisfies [string, Partial<ProxyResponse>][])('with %s becomes a 500', async (_name, wrong) => {
    const deliveries: Delivery[] = [];
    await using listener = await openListener(() => ({
      ...textResponse('ab', wrong),
      onDelivered: (delivery) => deliveries.push(delivery),
    }));
    await using client = await listener.connect();
    const response = await client.exchange(get);
    expect(response.status).toBe(500);
    expect(response.reason).toBe('Internal Server Error');
    expect(JSON.parse(response.body.toString())).toMatchObject({ status: 500 });
    expect(await client.rest()).toBe('');
    const error = expect.objectContaining({ code: 'internal' });
    expect(deliveries).toEqual([{ bytesSent: 0, complete: false, error }]);
  });
});

describe('the framing of a response', () => {
  const none: Body = { kind: 'none' };
  const bytes: Body = { kind: 'bytes', sizeBytes: 4, chunks: [Buffer.from('bo'), Buffer.from('dy')] };
  const empty: Body = { kind: 'bytes', sizeBytes: 0, chunks: [] };
  const known = (): Body => streamResponse(chunksOf('bo', '', 'dy'), 4).body;
  const unknown = (): Body => streamResponse(chunksOf('bo', '', 'dy'), undefined).body;
  const nothing = (): Body => streamResponse(chunksOf(), 0).body;

  interface Framed {
    readonly body: string;
    readonly length?: string;
    readonly isChunked?: boolean;
    readonly connection?: string;
  }

  const keepAlive = 'GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n';
  const rows: readonly (readonly [string, string, number, () => Body, Framed])[] = [
    ['GET, bytes', get, 200, () => bytes, { body: 'body', length: '4' }],
    ['GET, no bytes', get, 200, () => empty, { body: '', length: '0' }],
    ['GET, none', get, 404, () => none, { body: '', length: '0' }],
    ['GET, a stream of known length', get, 206, known, { body: 'body', length: '4' }],
    ['GET, a stream of unknown length', get, 200, unknown, { body: 'body', isChunked: true }],
    ['GET, an empty stream', get, 200, nothing, { body: '', length: '0' }],
    ['HEAD, bytes', 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', 200, () => bytes, { body: '', length: '4' }],
    ['HEAD, none', 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', 200, () => none, { body: '' }],
    ['HEAD, a stream of known length', 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', 200, known, { body: '', length: '4' }],
    ['HEAD, a stream of unknown length', 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', 200, unknown, { body: '' }],
    ['204, none', get, 204, () => none, { body: '' }],
    ['204, bytes', get, 204, () => bytes, { body: '' }],
    ['205, bytes', get, 205, () => bytes, { body: '', length: '0' }],
    ['304, none', get, 304, () => none, { body: '' }],
    ['304, a stream', get, 304, known, { body: '' }],
    ['HTTP/1.0, bytes', 'GET / HTTP/1.0\r\n\r\n', 200, () => bytes, { body: 'body', length: '4', connection: 'close' }],
    ['HTTP/1.0, a stream', 'GET / HTTP/1.0\r\n\r\n', 200, unknown, { body: 'body', connection: 'close' }],
    [
      'HTTP/1.0 with TE, a stream',
      'GET / HTTP/1.0\r\nTE: chunked\r\n\r\n',
      200,
      unknown,
      { body: 'body', connection: 'close' },
    ],
    ['HTTP/1.0 kept alive, bytes', keepAlive, 200, () => bytes, { body: 'body', length: '4' }],
    ['HTTP/1.0 kept alive, known', keepAlive, 200, known, { body: 'body', length: '4' }],
    ['HTTP/1.0 kept alive, unknown', keepAlive, 200, unknown, { body: 'body', connection: 'close' }],
    [
      'close, bytes',
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
      200,
      () => bytes,
      { body: 'body', length: '4', connection: 'close' },
    ],
    [
      'close, unknown',
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
      200,
      unknown,
      { body: 'body', isChunked: true, connection: 'close' },
    ],
  ];

  it.each(rows)('%s', async (_name, request, status, body, framed) => {
    const deliveries: Delivery[] = [];
    await using listener = await openListener(({ target }) =>
      target === '/next'
        ? textResponse('next')
        : { status, fields: [], body: body(), onDelivered: (delivery) => deliveries.push(delivery) },
    );
    await using client = await listener.connect();
    const response = await client.exchange(request);
    expect(response.status).toBe(status);
    expect(response.isWhole).toBe(true);
    expect(response.body.toString()).toBe(framed.body);
    expect(rawValues(response, 'content-length')).toEqual(framed.length === undefined ? [] : [framed.length]);
    expect(rawValues(response, 'transfer-encoding')).toEqual(framed.isChunked === true ? ['chunked'] : []);
    expect(connectionOf(response)).toBe(framed.connection ?? 'keep-alive');
    if (framed.connection === 'close') expect(await client.rest()).toBe('');
    else expect((await client.exchange('GET /next HTTP/1.1\r\nHost: a\r\n\r\n')).body.toString()).toBe('next');
    await expect.poll(() => deliveries).toEqual([{ bytesSent: framed.body.length, complete: true }]);
  });

  it.each(['HEAD / HTTP/1.1\r\nHost: a\r\n\r\n', get])(
    'closes a stream that is not sent, without reading it: %j',
    async (request) => {
      let pulled = 0;
      let closed = 0;
      async function* counted(): AsyncGenerator<Uint8Array> {
        pulled += 1;
        yield Buffer.from('body');
      }
      await using listener = await openListener(() =>
        streamResponse(counted(), 4, { status: request === get ? 304 : 200, onClose: () => (closed += 1) }),
      );
      await using client = await listener.connect();
      expect((await client.exchange(request)).body.toString()).toBe('');
      await client.exchange(request);
      expect(closed).toBeGreaterThan(0);
      expect(pulled).toBe(0);
    },
  );
});

describe('a connection', () => {
  it('is reused after every kind of response', async () => {
    const kinds: Readonly<Record<string, () => ProxyResponse>> = {
      '/none': () => ({ status: 200, fields: [], body: { kind: 'none' } }),
      '/bytes': () => textResponse('bytes'),
      '/known': () => streamResponse(chunksOf('kn', 'own'), 5),
      '/unknown': () => streamResponse(chunksOf('un', 'known'), undefined),
      '/204': () => ({ status: 204, fields: [], body: { kind: 'none' } }),
      '/304': () => textResponse('', { status: 304 }),
    };
    await using listener = await openListener(({ target }) => kinds[target]?.() ?? textResponse('?'));
    await using client = await listener.connect();
    for (let round = 0; round < 3; round += 1) {
      for (const target of Object.keys(kinds)) {
        const response = await client.exchange(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`);
        expect(response.isWhole, target).toBe(true);
      }
    }
    expect(new Set(listener.requests.map(({ peer }) => peer.port)).size).toBe(1);
  });

  it('ends after a response with `closeConnection`', async () => {
    await using listener = await openListener(() => textResponse('last', { closeConnection: true }));
    await using client = await listener.connect();
    const response = await client.exchange(get);
    expect(connectionOf(response)).toBe('close');
    expect(await client.rest()).toBe('');
  });

  it('says how long it is kept', async () => {
    await using listener = await openListener(() => textResponse('x'), { limits: { keepAliveTimeoutMs: 5_000 } });
    await using client = await listener.connect();
    expect(rawValues(await client.exchange(get), 'keep-alive')).toEqual(['timeout=5']);
  });
});

describe('a listener', () => {
  it('rejects with the error code if it cannot be opened', async () => {
    await using first = await openListener(() => textResponse(''), { carrier: 'tcp' });
    const place = { kind: 'tcp', host: '127.0.0.1', port: first.port } as const;
    await expect(openListener(() => textResponse(''), { place })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  it('reports its address', async () => {
    await using listener = await openListener(() => textResponse(''), { carrier: 'tcp' });
    const { address } = listener.listener;
    expect(address).toEqual({ host: '127.0.0.1', port: listener.port, url: `http://127.0.0.1:${listener.port}` });
  });

  it('reports the IPv4 address of an IPv4 client on an IPv6 socket', async () => {
    await using listener = await openListener(({ peer }) => textResponse(peer.address), {
      carrier: 'tcp',
      place: { kind: 'tcp', host: '::ffff:127.0.0.1', port: 0 },
    });
    await using client = await listener.connect();
    expect((await client.exchange(get)).body.toString()).toBe('127.0.0.1');
    expect(listener.listener.address.url).toBe(`http://[::ffff:127.0.0.1]:${listener.port}`);
  });
});
