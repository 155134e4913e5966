/** How a listener leaves its socket to another listener: no request and no connection is lost. */

import { connect as connectHttp2 } from 'node:http2';
import { describe, expect, it } from 'vitest';
import { type ListenSocket, openSocket } from '../../src/listener/accept/bind.ts';
import { openListener as open } from '../../src/listener/accept/open-listener.ts';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import { openListener, testLimits, testNow, textResponse } from '../support/proxies/open-listener.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const connectionOf = (response: Parameters<typeof rawValues>[0]) => rawValues(response, 'connection');
const anyPlace = { kind: 'tcp', host: '127.0.0.1', port: 0 } as const;

/** Opens a listener whose responses contain its name. */
const openOn = (socket: ListenSocket, name: string, http2 = false) =>
  open({ socket, http2, handler: () => textResponse(name), emit: () => {}, now: () => testNow, limits: testLimits });

describe('a retired listener', () => {
  it('takes one more request on an idle connection, however late, and then ends the connection', async () => {
    await using listener = await openListener(() => textResponse('x'));
    await using client = await listener.connect();
    expect(connectionOf(await client.exchange(get))).toEqual(['keep-alive']);
    const retired = listener.listener.retire();
    expect(connectionOf(await client.exchange(get))).toEqual(['close']);
    expect(await client.rest()).toBe('');
    await retired;
  });

  it('takes one request on an unused connection', async () => {
    await using listener = await openListener(() => textResponse('x'));
    await using client = await listener.connect();
    await using used = await listener.connect();
    // By the time a later connection is answered, this one has been accepted.
    await used.exchange(get);
    void listener.listener.retire();
    expect(connectionOf(await client.exchange(get))).toEqual(['close']);
  });

  it('takes one more request after a response whose head said keep-alive', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    async function* halves(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first ');
      await promise;
      yield Buffer.from('second');
    }
    const stream = { [Symbol.asyncIterator]: halves, close: () => {} };
    await using listener = await openListener(({ target }) =>
      target === '/' ? textResponse('x') : { status: 200, fields: [], body: { kind: 'stream', sizeBytes: 12, stream } },
    );
    await using client = await listener.connect();
    client.send('GET /halves HTTP/1.1\r\nHost: a\r\n\r\n');
    const head = await client.head();
    expect(connectionOf(head ?? { lines: [] })).toEqual(['keep-alive']);
    void listener.listener.retire();
    resolve();
    expect((await client.take(12)).toString()).toBe('first second');
    expect(connectionOf(await client.exchange(get))).toEqual(['close']);
  });

  it('ends its idle connections at once when it is then closed', async () => {
    await using listener = await openListener(() => textResponse('x'));
    await using client = await listener.connect();
    await client.exchange(get);
    const retired = listener.listener.retire();
    expect(await listener.listener.close(10_000)).toEqual({ cut: 0 });
    expect(await client.rest()).toBe('');
    await retired;
  });

  it('ends idle connections when their keep-alive time is over', async () => {
    await using listener = await openListener(() => textResponse('x'), { limits: { keepAliveTimeoutMs: 30 } });
    await using client = await listener.connect();
    await client.exchange(get);
    await listener.listener.retire();
    expect(await client.rest()).toBe('');
  });

  it('sends GOAWAY to HTTP/2 clients, with the last stream that it has taken', async () => {
    await using listener = await openListener(() => textResponse('x'), { carrier: 'looked' });
    const session = connectHttp2(`http://127.0.0.1:${listener.port}`);
    const goaway = new Promise<number>((resolve) => session.once('goaway', (_code, lastStream) => resolve(lastStream)));
    const stream = session.request({ ':path': '/' }).resume();
    await new Promise((resolve) => stream.once('end', resolve));
    const retired = listener.listener.retire();
    expect(await goaway).toBe(1);
    await retired;
  });
});

describe('a socket', () => {
  it('gives its connections to the listener that took it last, and stays open', async () => {
    const socket = await openSocket(anyPlace, '');
    const first = await openOn(socket, 'first');
    await using old = await RawClient.open(socket.address.port);
    await old.exchange(get);
    const second = await openOn(socket, 'second', true);
    void first.retire();
    await using client = await RawClient.open(socket.address.port);
    expect((await client.exchange(get)).body.toString()).toBe('second');
    expect((await old.exchange(get)).body.toString()).toBe('first');
    await second.close(0);
    await expect(RawClient.open(socket.address.port)).rejects.toThrow('ECONNREFUSED');
  });

  it('holds connections for the first listener that takes it', async () => {
    const socket = await openSocket(anyPlace, '');
    await using early = await RawClient.open(socket.address.port);
    early.send(get);
    await using gone = await RawClient.open(socket.address.port);
    gone.reset();
    await gone.closed;
    const listener = await openOn(socket, 'first');
    expect((await early.response())?.body.toString()).toBe('first');
    await listener.close(0);
  });

  it('that no listener takes ends its waiting connections when it is closed', async () => {
    const socket = await openSocket(anyPlace, '');
    await using client = await RawClient.open(socket.address.port);
    await socket.close();
    await socket.close();
    expect(await client.rest()).toBe('');
  });
});
