/** Faults within a request, or behind a valid one: their bytes must never become a request. */

import { describe, expect, it } from 'vitest';
import { openListener, textResponse } from '../support/proxies/open-listener.ts';
import { expectRefusal } from '../support/values/expect-refusal.ts';

const chunkedPost = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n';

describe('a malformed chunked body', () => {
  it('fails for its reader, and the connection ends', async () => {
    const thrown: unknown[] = [];
    await using listener = await openListener(async (request) => {
      try {
        for await (const _chunk of request.body ?? []);
      } catch (error) {
        thrown.push(error);
      }
      return textResponse('', { status: 400 });
    });
    await using client = await listener.connect();
    client.send(`${chunkedPost}\r\n3\r\nabcd\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
    const response = await client.response();
    expect(await client.rest()).toBe('');
    expect(response?.status).toBe(400);
    expect(thrown).toEqual([expect.objectContaining({ code: 'malformed_request' })]);
    expect(listener.requests.map(({ target }) => target)).toEqual(['/']);
  });
});

describe('a refusal among pipelined requests', () => {
  it('comes after the responses before it, and no request behind it is read', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ target }) => {
      await release.promise;
      return textResponse(target);
    });
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n');
    await expect.poll(() => listener.events.length).toBe(1);
    release.resolve();
    expect((await client.response())?.body.toString()).toBe('/1');
    expectRefusal(await client.response(), 'malformed_request');
    expect(await client.rest()).toBe('');
    expect(listener.requests.map(({ target }) => target)).toEqual(['/1']);
  });

  it('comes after the responses before it where the parser refuses', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ target }) => {
      await release.promise;
      return textResponse(target);
    });
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n');
    await expect.poll(() => listener.events.length).toBe(1);
    release.resolve();
    expect((await client.response())?.body.toString()).toBe('/1');
    expectRefusal(await client.response(), 'malformed_request');
    expect(await client.rest()).toBe('');
  });

  it('does not disturb a response that is being sent', async () => {
    const release = Promise.withResolvers<void>();
    async function* halves(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first ');
      await release.promise;
      yield Buffer.from('second');
    }
    await using listener = await openListener(() => ({
      ...textResponse(''),
      body: { kind: 'stream', sizeBytes: 12, stream: Object.assign(halves(), { close: () => {} }) },
    }));
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.head())?.status).toBe(200);
    expect((await client.take(6)).toString()).toBe('first ');
    client.send('garbage\r\n\r\n');
    await expect.poll(() => listener.events.length).toBe(1);
    release.resolve();
    expect((await client.take(6)).toString()).toBe('second');
    expectRefusal(await client.response(), 'malformed_request');
  });

  it('is not sent for bytes behind the last request', async () => {
    await using listener = await openListener(({ target }) => textResponse(target));
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.response())?.body.toString()).toBe('/1');
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([]);
    expect(listener.requests).toHaveLength(1);
  });
});

describe('a client that keeps sending after its refusal', () => {
  it('can still read it', async () => {
    await using listener = await openListener(() => textResponse('handled'));
    await using client = await listener.connect();
    client.send(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'v'.repeat(60_000)}`);
    await expect.poll(() => listener.events.length).toBe(1);
    for (let count = 0; count < 64; count += 1) client.send('v'.repeat(16_384));
    expectRefusal(await client.response(), 'fields_too_large');
  });
});
