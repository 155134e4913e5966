/** Streamed responses: backpressure, clients that leave, bodies that break off or have another length than promised. */

import { describe, expect, it } from 'vitest';
import type { Delivery, ProxyResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { itHalfClosed, openListener, streamResponse, textResponse, usually } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const chunkBytes = 256 * 1024;
const mebibyte = 1024 * 1024;
/** More than the kernel buffers at both ends of a connection, and far less than the bodies here. */
const boundBytes = 32 * mebibyte;

/** Makes bodies, and records the bytes that were pulled, the closings and the deliveries. */
class Producer {
  pulledBytes = 0;
  closings = 0;
  readonly deliveries: Delivery[] = [];

  response(chunks: AsyncIterable<Uint8Array>, sizeBytes: number | undefined): ProxyResponse {
    return streamResponse(chunks, sizeBytes, {
      onClose: () => {
        this.closings += 1;
      },
      onDelivered: (delivery) => this.deliveries.push(delivery),
    });
  }

  async *pattern(sizeBytes: number): AsyncGenerator<Uint8Array> {
    const chunk = patternBytes(0, chunkBytes);
    while (this.pulledBytes < sizeBytes) {
      this.pulledBytes += chunk.length;
      yield chunk;
    }
  }

  /** Waits until the listener stops pulling. */
  untilHeldBack(): Promise<void> {
    return untilQuiet(() => this.pulledBytes);
  }
}

async function* chunksOf(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function* thenFail(...texts: string[]): AsyncGenerator<Uint8Array> {
  yield* chunksOf(...texts);
  throw new ProxyError('origin_reset');
}

/** Yields nothing, and never ends. */
const stalled: AsyncIterable<Uint8Array> = {
  [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }),
};

describe('a slow reader', () => {
  it.each([['known', 1024 * mebibyte] as const, ['unknown', undefined] as const])(
    'holds back a stream of %s length, and lets it go on by reading',
    async (_name, sizeBytes) => {
      const producer = new Producer();
      await using listener = await openListener(() => producer.response(producer.pattern(1024 * mebibyte), sizeBytes));
      await using client = await listener.connect();
      client.send(get);
      await client.head();
      await producer.untilHeldBack();
      const heldBytes = producer.pulledBytes;
      expect(heldBytes).toBeLessThan(boundBytes);
      await client.take(2 * boundBytes);
      expect(producer.pulledBytes).toBeGreaterThan(heldBytes);
      expect(producer.pulledBytes).toBeLessThan(3 * boundBytes);
    },
  );

  it('gets every byte in the end', async () => {
    const producer = new Producer();
    const sizeBytes = 24 * chunkBytes;
    await using listener = await openListener(() => producer.response(producer.pattern(sizeBytes), sizeBytes));
    await using client = await listener.connect();
    const response = await client.exchange(get);
    expect(response.isWhole).toBe(true);
    const expected = Buffer.concat(Array.from({ length: 24 }, () => patternBytes(0, chunkBytes)));
    expect(response.body.equals(expected)).toBe(true);
    await expect.poll(() => producer.deliveries).toEqual([{ bytesSent: sizeBytes, complete: true }]);
  });

  it('holds back the stream that is queued behind its first response', async () => {
    const release = Promise.withResolvers<ProxyResponse>();
    const producer = new Producer();
    await using listener = await openListener(({ target }) =>
      target === '/1' ? release.promise : producer.response(producer.pattern(1024 * mebibyte), 1024 * mebibyte),
    );
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
    await expect.poll(() => producer.pulledBytes).toBeGreaterThan(0);
    await producer.untilHeldBack();
    expect(producer.pulledBytes).toBeLessThan(boundBytes);
    release.resolve(textResponse('first'));
    expect((await client.response())?.body.toString()).toBe('first');
    expect((await client.head())?.status).toBe(200);
    const body = await client.take(boundBytes);
    expect(body.subarray(0, chunkBytes).equals(patternBytes(0, chunkBytes))).toBe(true);
  });
});

describe('the head of a streamed response', () => {
  it('does not wait for the first byte', async () => {
    const release = Promise.withResolvers<void>();
    async function* late(): AsyncGenerator<Uint8Array> {
      await release.promise;
      yield Buffer.from('late');
    }
    await using listener = await openListener(() => streamResponse(late(), 4));
    await using client = await listener.connect();
    client.send(get);
    expect((await client.head())?.status).toBe(200);
    release.resolve();
    expect((await client.take(4)).toString()).toBe('late');
  });
});

describe('a client that leaves', () => {
  const gone = { complete: false, error: expect.objectContaining({ code: 'client_gone' }) };

  it.each(['reset', 'end'] as const)('in the middle of a stream, by %s: the stream is closed', async (how) => {
    const producer = new Producer();
    await using listener = await openListener(() =>
      producer.response(producer.pattern(1024 * mebibyte), 1024 * mebibyte),
    );
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    const { signal } = listener.requests[0] ?? {};
    expect(signal?.aborted).toBe(false);
    client[how]();
    if (how === 'end') client.socket.destroy();
    await expect.poll(() => producer.deliveries).toEqual([expect.objectContaining(gone)]);
    expect(producer.closings).toBeGreaterThan(0);
    expect(signal?.aborted).toBe(true);
    const pulledBytes = producer.pulledBytes;
    await producer.untilHeldBack();
    expect(producer.pulledBytes).toBe(pulledBytes);
  });

  it('while the stream stalls: the stream is closed all the same', async () => {
    const producer = new Producer();
    await using listener = await openListener(() => producer.response(stalled, undefined));
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    client.reset();
    await expect.poll(() => producer.deliveries).toEqual([{ bytesSent: 0, ...gone }]);
    expect(producer.closings).toBeGreaterThan(0);
  });

  it('before its response is ready: the signal fires, and the response is closed unread when it is ready', async () => {
    const producer = new Producer();
    const release = Promise.withResolvers<ProxyResponse>();
    await using listener = await openListener(() => release.promise);
    await using client = await listener.connect();
    client.send(get);
    await expect.poll(() => listener.requests.length).toBe(1);
    const { signal } = listener.requests[0] ?? {};
    client.reset();
    await expect.poll(() => signal?.aborted).toBe(true);
    expect(signal?.reason).toMatchObject({ code: 'client_gone' });
    release.resolve(producer.response(producer.pattern(mebibyte), mebibyte));
    await expect.poll(() => producer.deliveries).toEqual([{ bytesSent: 0, ...gone }]);
    expect(producer.pulledBytes).toBe(0);
    expect(producer.closings).toBeGreaterThan(0);
  });

  it('aborts even a signal that is first read afterwards', async () => {
    await using listener = await openListener(() => new Promise(() => {}));
    const client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
    await expect.poll(() => listener.requests.length).toBe(2);
    const [first, second] = listener.requests;
    const { signal } = first ?? {};
    client.reset();
    await expect.poll(() => signal?.aborted).toBe(true);
    await expect.poll(() => second?.signal.aborted).toBe(true);
  });

  it('after its response is complete does not abort the signal', async () => {
    const signals: AbortSignal[] = [];
    await using listener = await openListener(({ signal }) => {
      signals.push(signal);
      return textResponse('whole');
    });
    await using client = await listener.connect();
    await client.exchange(get);
    client.reset();
    await using next = await listener.connect();
    await next.exchange(get);
    expect(signals[0]?.aborted).toBe(false);
  });

  itHalfClosed('that ends its side only gets the response that is ready later', async () => {
    const ready = Promise.withResolvers<ProxyResponse>();
    await using listener = await openListener(() => ready.promise);
    await using client = await listener.connect();
    client.send(get);
    client.end();
    await expect.poll(() => listener.requests.length).toBe(1);
    expect(listener.requests[0]?.signal.aborted).toBe(false);
    ready.resolve(textResponse('late'));
    expect((await client.response())?.body.toString()).toBe('late');
    expect(await client.rest()).toBe('');
  });

  itHalfClosed('that ends its side only, and gets nothing for a while, counts as gone', async () => {
    await using listener = await openListener(() => new Promise(() => {}), { limits: { idleTimeoutMs: 100 } });
    await using client = await listener.connect();
    client.send(get);
    await expect.poll(() => listener.requests.length).toBe(1);
    const { signal } = listener.requests[0] ?? {};
    client.end();
    await expect.poll(() => signal?.aborted).toBe(true);
  });

  it('that closes the connection counts as gone at the next bytes', async () => {
    const producer = new Producer();
    const release = Promise.withResolvers<void>();
    async function* endless(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first');
      await release.promise;
      for (; ; await new Promise(setImmediate)) yield Buffer.from('more');
    }
    await using listener = await openListener(() => producer.response(endless(), undefined));
    const client = await listener.connect();
    client.send(get);
    await client.head();
    await client[Symbol.asyncDispose]();
    release.resolve();
    await expect.poll(() => producer.deliveries).toMatchObject([gone]);
  });

  itHalfClosed('that ends its side only, during a body that ends with the connection, gets all of it', async () => {
    const producer = new Producer();
    const release = Promise.withResolvers<void>();
    async function* halves(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first');
      await release.promise;
      yield Buffer.from('second');
    }
    await using listener = await openListener(() => producer.response(halves(), undefined));
    await using client = await listener.connect();
    client.send('GET / HTTP/1.0\r\n\r\n');
    await client.head();
    await client.take(5);
    client.end();
    release.resolve();
    expect(await client.rest()).toBe('second');
    await expect.poll(() => producer.deliveries).toEqual([{ bytesSent: 11, complete: true }]);
  });
});

describe('a broken body', () => {
  const http10 = 'GET / HTTP/1.0\r\n\r\n';
  const whole = /whole/;
  const rows: readonly (readonly [string, string, () => AsyncIterable<Uint8Array>, number | undefined, string])[] = [
    ['an error, length known', get, () => thenFail('whole'), 10, 'origin_reset'],
    ['an error after the promised length', get, () => thenFail('whole'), 5, 'origin_reset'],
    ['an error, chunked', get, () => thenFail('whole'), undefined, 'origin_reset'],
    ['an error, until the connection ends', http10, () => thenFail('whole'), undefined, 'origin_reset'],
    ['an error before the first byte', get, () => thenFail(), 10, 'origin_reset'],
    ['fewer bytes than promised', get, () => chunksOf('who', 'le'), 6, 'internal'],
    ['no bytes where some were promised', get, () => chunksOf(), 6, 'internal'],
    ['more bytes than promised', get, () => chunksOf('who', 'le'), 4, 'internal'],
    ['more bytes than promised, at once', get, () => chunksOf('whole'), 4, 'internal'],
    ['more bytes than none', get, () => chunksOf('whole'), 0, 'internal'],
  ];

  const applicable = rows.filter(([name]) => usually.hasResets || name !== 'an error, until the connection ends');

  it.each(applicable)('%s: the connection is cut', async (_name, request, chunks, sizeBytes, code) => {
    const producer = new Producer();
    await using listener = await openListener(() => producer.response(chunks(), sizeBytes));
    await using client = await listener.connect();
    client.send(request + request);
    const response = await client.response();
    const receivedBytes = response?.body.length ?? 0;
    if (sizeBytes === undefined) expect(response?.isWhole).toBe(false);
    else expect(receivedBytes).toBeLessThanOrEqual(sizeBytes);
    if (sizeBytes === 10 || sizeBytes === 6) expect(response?.isWhole).toBe(false);
    expect('whole').toMatch(response?.body.toString() ?? whole);
    expect(await client.rest()).toBe('');
    await client.closed;
    expect(producer.deliveries[0]).toMatchObject({ complete: false, error: { code } });
    expect(producer.closings).toBeGreaterThan(0);
    expect(producer.deliveries.length).toBe(listener.requests.length);
  });

  it('is cut only after the response before it', async () => {
    const release = Promise.withResolvers<ProxyResponse>();
    const producer = new Producer();
    await using listener = await openListener(({ target }) =>
      target === '/1' ? release.promise : producer.response(thenFail('part'), 10),
    );
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
    await expect.poll(() => producer.closings).toBeGreaterThan(0);
    release.resolve(textResponse('first'));
    expect((await client.response())?.body.toString()).toBe('first');
    const second = await client.response();
    expect(second?.isWhole ?? false).toBe(false);
    await client.closed;
    expect(producer.deliveries).toEqual([
      { bytesSent: 4, complete: false, error: expect.objectContaining({ code: 'origin_reset' }) },
    ]);
  });

  it('does not affect other connections', async () => {
    await using listener = await openListener(({ target }) =>
      target === '/broken' ? streamResponse(thenFail('part'), 10) : textResponse('well'),
    );
    await using other = await listener.connect();
    for (let count = 0; count < 20; count += 1) {
      await using client = await listener.connect();
      client.send('GET /broken HTTP/1.1\r\nHost: a\r\n\r\n');
      await client.rest();
      expect((await other.exchange(get)).body.toString()).toBe('well');
    }
  });
});
