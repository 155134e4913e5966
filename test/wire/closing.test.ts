/** Closing of a listener, and its timeouts for slow clients. */

import { describe, expect, it } from 'vitest';
import type { Delivery, Handler, ProxyResponse } from '../../src/http/message.ts';
import type { ListenerLimits } from '../../src/listener/listener.ts';
import { type RawClient, rawValues } from '../support/clients/raw-client.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { peersQuiet, watchPeers } from '../support/clocks/peer-quiet.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { openListener, streamResponse, textResponse, usually } from '../support/proxies/open-listener.ts';

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
  watchPeers();
  const limitMs = 800;

  /** Opens a listener, and a clock for its limits. Node's own server reads the system's clock: there `pass` does nothing. */
  async function open(handler: Handler, limits: Partial<ListenerLimits> = {}) {
    const clock = createFakeClock();
    const listener = await openListener(handler, { limits, after: clock.after });
    /** Moves the clock on, once everything that was sent has arrived. */
    const pass = async (ms = 2 * limitMs): Promise<void> => {
      await peersQuiet();
      clock.advance(ms);
    };
    return { ...listener, pass };
  }

  /** Declares a test that needs time to pass without an effect, which Node's own server cannot be made to believe. */
  const itWithOwnTime = usually.carrier === 'node-http' ? () => {} : it;

  it('with its head gets 408', async () => {
    await using listener = await open(() => textResponse('x'), { headersTimeoutMs: limitMs });
    await using client = await listener.connect();
    client.send(get.slice(0, 10));
    await listener.pass();
    const response = await client.response();
    expect(response?.status).toBe(408);
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([
      expect.objectContaining({ kind: 'refusal', status: 408, error: 'request_timeout' }),
    ]);
  });

  it('with its first byte is disconnected without a response', async () => {
    await using listener = await open(() => textResponse('x'), { headersTimeoutMs: limitMs });
    await using client = await listener.connect();
    await listener.pass();
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([]);
  });

  it('with its next request is disconnected without a response', async () => {
    // The listener waits one second longer than its Keep-Alive field says.
    await using listener = await open(() => textResponse('x'), { keepAliveTimeoutMs: 1 });
    await using client = await listener.connect();
    await client.exchange(get);
    await listener.pass();
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([]);
  });

  it('to send its next byte gets 408 in the middle of a head', async () => {
    await using listener = await open(() => textResponse('x'), { idleTimeoutMs: limitMs });
    await using client = await listener.connect();
    client.send(get.slice(0, 10));
    await listener.pass();
    expect((await client.response())?.status).toBe(408);
  });

  it('to send its body makes reading the body fail', async () => {
    await using listener = await open(
      async ({ body }) => {
        try {
          for await (const _chunk of body ?? []);
          return textResponse('whole');
        } catch (error) {
          return textResponse((error as { code: string }).code, { status: 408 });
        }
      },
      { idleTimeoutMs: limitMs },
    );
    await using client = await listener.connect();
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\npart');
    await listener.pass();
    expect((await client.response())?.body.toString()).toBe('request_timeout');
    expect(await client.rest()).toBe('');
  });

  itWithOwnTime('to send its body makes reading it fail, even after the handler took longer', async () => {
    const begun = Promise.withResolvers<void>();
    await using listener = await open(
      async ({ body }) => {
        await begun.promise;
        const chunk = await body?.[Symbol.asyncIterator]()
          .next()
          .catch((error: { code: string }) => error.code);
        return textResponse(String(chunk), { status: 408 });
      },
      { idleTimeoutMs: limitMs },
    );
    await using client = await listener.connect();
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n');
    await listener.pass();
    begun.resolve();
    await listener.pass();
    expect((await client.response())?.body.toString()).toBe('request_timeout');
  });

  it('to read is disconnected', async () => {
    const deliveries: Delivery[] = [];
    const body = Buffer.alloc(256 * mebibyte);
    await using listener = await open(
      () => ({
        ...textResponse(''),
        body: { kind: 'bytes', sizeBytes: body.length, chunks: [body] },
        onDelivered: (delivery) => deliveries.push(delivery),
      }),
      { idleTimeoutMs: limitMs },
    );
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    await untilQuiet(() => client.socket.bytesRead);
    await listener.pass();
    await expect.poll(() => deliveries.length).toBe(1);
    expect(deliveries[0]).toMatchObject({ complete: false, error: { code: 'client_gone' } });
    expect((await client.rest()).length).toBeLessThan(body.length);
  });

  itWithOwnTime('is not one that waits for a slow response', async () => {
    const [head, body] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('slow ');
      await body.promise;
      yield Buffer.from('body');
    }
    await using listener = await open(
      async () => {
        await head.promise;
        return streamResponse(slow(), 9);
      },
      { idleTimeoutMs: limitMs },
    );
    await using client = await listener.connect();
    client.send(get);
    await listener.pass();
    head.resolve();
    await listener.pass();
    body.resolve();
    expect((await client.response())?.body.toString()).toBe('slow body');
  });

  it('to close its side after the listener has closed its own is not waited for', async () => {
    await using listener = await open(() => textResponse('x', { closeConnection: true }));
    const client: RawClient = await listener.connect();
    client.socket.allowHalfOpen = true;
    await client.exchange(get);
    expect(await client.rest()).toBe('');
    const closed = listener.listener.close(graceMs);
    // The listener reads on for two seconds (RFC 9112 §9.6).
    await listener.pass(2_000);
    expect(await closed).toEqual({ cut: 0 });
    client.socket.destroy();
  });
});
