/** Closing of a listener, and its timeouts for slow clients. */

import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Delivery, ProxyResponse } from '../../src/http/message.ts';
import { type RawClient, rawValues } from '../support/clients/raw-client.ts';
import { openListener, streamResponse, textResponse } from '../support/proxies/open-listener.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const graceMs = 10_000;
const mebibyte = 1024 * 1024;

async function* halves(release: Promise<void>): AsyncGenerator<Uint8Array> {
  yield Buffer.from('first ');
  await release;
  yield Buffer.from('second');
}

describe('closing', () => {
  it('ends idle connections at once, used and unused, and accepts no new ones', async () => {
    await using listener = await openListener(() => textResponse('x'));
    await using used = await listener.connect();
    await using unused = await listener.connect();
    await used.exchange(get);
    const closed = listener.listener.close(graceMs);
    expect(await used.rest()).toBe('');
    expect(await unused.rest()).toBe('');
    expect(await closed).toEqual({ cut: 0 });
    await expect(listener.connect()).rejects.toMatchObject({ code: expect.stringMatching(/^(ECONNREFUSED|ENOENT)$/) });
    expect(listener.events).toEqual([]);
  });

  it('waits for a response that is not ready yet, and sends it as the last one', async () => {
    const release = Promise.withResolvers<ProxyResponse>();
    await using listener = await openListener(() => release.promise);
    await using client = await listener.connect();
    client.send(get);
    await expect.poll(() => listener.requests.length).toBe(1);
    const closed = listener.listener.close(graceMs);
    client.send(get);
    release.resolve(textResponse('late'));
    const response = await client.response();
    expect(response?.body.toString()).toBe('late');
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
    expect(await closed).toEqual({ cut: 0 });
    expect(listener.requests).toHaveLength(1);
  });

  it('lets a response finish whose head has been sent', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(() => streamResponse(halves(release.promise), 12));
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    const closed = listener.listener.close(graceMs);
    release.resolve();
    expect(await client.rest()).toBe('first second');
    expect(await closed).toEqual({ cut: 0 });
  });

  it('sends a slow client all of a response that is wholly in memory', async () => {
    const body = Buffer.alloc(64 * mebibyte, 'b');
    await using listener = await openListener(() => ({
      status: 200,
      fields: [],
      body: { kind: 'bytes', sizeBytes: body.length, chunks: [body] },
    }));
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    const closed = listener.listener.close(graceMs);
    expect((await client.rest()).length).toBe(body.length);
    expect(await closed).toEqual({ cut: 0 });
  });

  it('answers all requests that have reached the handler, in order', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ target }) => {
      await release.promise;
      return textResponse(target);
    });
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
    await expect.poll(() => listener.requests.length).toBe(2);
    const closed = listener.listener.close(graceMs);
    release.resolve();
    const first = await client.response();
    expect(first?.body.toString()).toBe('/1');
    expect(rawValues(first ?? { lines: [] }, 'connection')).toEqual(['keep-alive']);
    expect((await client.response())?.body.toString()).toBe('/2');
    expect(await client.rest()).toBe('');
    expect(await closed).toEqual({ cut: 0 });
  });

  it('answers a request that has arrived but was not read yet', async () => {
    await using listener = await openListener(() => textResponse('in time'));
    await using client = await listener.connect();
    await client.exchange(get);
    client.send(get);
    const closed = listener.listener.close(graceMs);
    const response = await client.response();
    expect(response?.body.toString()).toBe('in time');
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['close']);
    expect(await closed).toEqual({ cut: 0 });
  });

  it('answers a request of which a part has arrived', async () => {
    await using listener = await openListener(() => textResponse('in time'));
    await using client = await listener.connect();
    await client.exchange(get);
    client.send(get.slice(0, 10));
    // Once an exchange on a second connection is over, the listener has read what arrived on the first one.
    await using other = await listener.connect();
    await other.exchange(get);
    const closed = listener.listener.close(graceMs);
    expect(await other.rest()).toBe('');
    client.send(get.slice(10));
    expect((await client.response())?.body.toString()).toBe('in time');
    expect(await client.rest()).toBe('');
    expect(await closed).toEqual({ cut: 0 });
  });

  it('cuts the connections that are left after the grace period, and returns their number', async () => {
    const deliveries: Delivery[] = [];
    await using listener = await openListener(({ target }) =>
      target === '/never'
        ? new Promise(() => {})
        : streamResponse(halves(new Promise(() => {})), 12, { onDelivered: (delivery) => deliveries.push(delivery) }),
    );
    await using idle = await listener.connect();
    await using waiting = await listener.connect();
    await using reading = await listener.connect();
    waiting.send('GET /never HTTP/1.1\r\nHost: a\r\n\r\n');
    reading.send(get);
    await reading.head();
    await expect.poll(() => listener.requests.length).toBe(2);
    const { signal } = listener.requests.find(({ target }) => target === '/never') ?? {};
    expect(await listener.listener.close(50)).toEqual({ cut: 2 });
    expect(await idle.rest()).toBe('');
    expect(await waiting.rest()).toBe('');
    expect(await reading.rest()).toBe('first ');
    expect(signal?.aborted).toBe(true);
    expect(deliveries).toEqual([
      { bytesSent: 6, complete: false, error: expect.objectContaining({ code: 'client_gone' }) },
    ]);
  });

  it('can be requested again, with a shorter grace period', async () => {
    await using listener = await openListener(() => new Promise(() => {}));
    await using client = await listener.connect();
    client.send(get);
    await expect.poll(() => listener.requests.length).toBe(1);
    const first = listener.listener.close(600_000);
    const second = listener.listener.close(0);
    expect(await first).toEqual({ cut: 1 });
    expect(await second).toEqual({ cut: 1 });
    expect(await listener.listener.close(0)).toEqual({ cut: 1 });
  });
});

describe('a client that takes too long', () => {
  it('with its head gets 408', async () => {
    await using listener = await openListener(() => textResponse('x'), { limits: { headersTimeoutMs: 800 } });
    await using client = await listener.connect();
    client.send(get.slice(0, 10));
    const response = await client.response();
    expect(response?.status).toBe(408);
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([
      expect.objectContaining({ kind: 'refusal', status: 408, error: 'request_timeout' }),
    ]);
  });

  it('with its first byte is disconnected without a response', async () => {
    await using listener = await openListener(() => textResponse('x'), { limits: { headersTimeoutMs: 800 } });
    await using client = await listener.connect();
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([]);
  });

  it('with its next request is disconnected without a response', async () => {
    // The listener waits one second longer than its Keep-Alive field says.
    await using listener = await openListener(() => textResponse('x'), { limits: { keepAliveTimeoutMs: 1 } });
    await using client = await listener.connect();
    await client.exchange(get);
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([]);
  });

  it('to send its next byte gets 408 in the middle of a head', async () => {
    await using listener = await openListener(() => textResponse('x'), { limits: { idleTimeoutMs: 800 } });
    await using client = await listener.connect();
    client.send(get.slice(0, 10));
    expect((await client.response())?.status).toBe(408);
  });

  it('to send its body makes reading the body fail', async () => {
    await using listener = await openListener(
      async ({ body }) => {
        try {
          for await (const _chunk of body ?? []);
          return textResponse('whole');
        } catch (error) {
          return textResponse((error as { code: string }).code, { status: 408 });
        }
      },
      { limits: { idleTimeoutMs: 800 } },
    );
    await using client = await listener.connect();
    const response = await client.exchange('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\npart');
    expect(response.body.toString()).toBe('request_timeout');
    expect(await client.rest()).toBe('');
  });

  it('to send its body makes reading it fail, even after the handler took longer', async () => {
    const idleTimeoutMs = 400;
    await using listener = await openListener(
      async ({ body }) => {
        await delay(2 * idleTimeoutMs);
        const chunk = await body?.[Symbol.asyncIterator]()
          .next()
          .catch((error: { code: string }) => error.code);
        return textResponse(String(chunk), { status: 408 });
      },
      { limits: { idleTimeoutMs } },
    );
    await using client = await listener.connect();
    const response = await client.exchange('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n');
    expect(response.body.toString()).toBe('request_timeout');
  });

  it('to read is disconnected', async () => {
    const deliveries: Delivery[] = [];
    const body = Buffer.alloc(256 * mebibyte);
    await using listener = await openListener(
      () => ({
        ...textResponse(''),
        body: { kind: 'bytes', sizeBytes: body.length, chunks: [body] },
        onDelivered: (delivery) => deliveries.push(delivery),
      }),
      { limits: { idleTimeoutMs: 800 } },
    );
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    await expect.poll(() => deliveries.length).toBe(1);
    expect(deliveries[0]).toMatchObject({ complete: false, error: { code: 'client_gone' } });
    expect((await client.rest()).length).toBeLessThan(body.length);
  });

  it('is not one that waits for a slow response', async () => {
    const idleTimeoutMs = 400;
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('slow ');
      await delay(2 * idleTimeoutMs);
      yield Buffer.from('body');
    }
    await using listener = await openListener(
      async () => {
        await delay(2 * idleTimeoutMs);
        return streamResponse(slow(), 9);
      },
      { limits: { idleTimeoutMs } },
    );
    await using client = await listener.connect();
    expect((await client.exchange(get)).body.toString()).toBe('slow body');
  });

  it('to close its side after the listener has closed its own is not waited for', async () => {
    await using listener = await openListener(() => textResponse('x', { closeConnection: true }));
    const client: RawClient = await listener.connect();
    client.socket.allowHalfOpen = true;
    await client.exchange(get);
    expect(await client.rest()).toBe('');
    expect(await listener.listener.close(graceMs)).toEqual({ cut: 0 });
    client.socket.destroy();
  });
});
