/** Request bodies with Expect: 100-continue (RFC 9110 §10.1.1). */

import { describe, expect, it } from 'vitest';
import type { ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { describeOwnServer, openListener, textResponse } from '../support/proxies/open-listener.ts';
import { expectRefusal } from '../support/values/expect-refusal.ts';

const next = 'GET /next HTTP/1.1\r\nHost: a\r\n\r\n';

function post(fields: string, body = '', version = '1.1'): string {
  return `POST / HTTP/${version}\r\nHost: a\r\n${fields}\r\n${body}`;
}

async function echo({ body }: ProxyRequest): Promise<ProxyResponse> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  return textResponse(Buffer.concat(chunks).toString('latin1'));
}

describe('Expect', () => {
  const expecting = post('Content-Length: 4\r\nExpect: 100-continue\r\n');

  it('is answered with 100 when the body is first read', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async (request) => {
      await release.promise;
      return echo(request);
    });
    await using client = await listener.connect();
    client.send(expecting);
    await expect.poll(() => listener.requests.length).toBe(1);
    expect(client.socket.bytesRead).toBe(0);
    release.resolve();
    expect((await client.response())?.status).toBe(100);
    client.send(`body${next}`);
    expect((await client.response())?.body.toString()).toBe('body');
    expect((await client.response())?.status).toBe(200);
  });

  describeOwnServer('of an unsafe request', () => {
    it('is answered with 100 once the pipelined requests before it are answered', async () => {
      const release = Promise.withResolvers<void>();
      await using listener = await openListener(async (request) => {
        if (request.target === '/next') await release.promise;
        return echo(request);
      });
      await using client = await listener.connect();
      client.send(next + expecting);
      // The unsafe request waits for the answer before it (RFC 9112 §9.3.2).
      await expect.poll(() => listener.requests.length).toBe(1);
      release.resolve();
      expect((await client.response())?.status).toBe(200);
      expect((await client.response())?.status).toBe(100);
      client.send('body');
      expect((await client.response())?.body.toString()).toBe('body');
    });
  });

  it.each([
    ['a final response before the body', expecting, 200],
    ['a refusal', expecting.replace('Host: a', 'Host: a b'), 400],
  ])('gets no 100 with %s, and the connection ends', async (_name, request, status) => {
    await using listener = await openListener(() => textResponse('no body wanted'));
    await using client = await listener.connect();
    const response = await client.exchange(request);
    expect(response.status).toBe(status);
    expect(rawValues(response, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
  });

  it('is ignored from a client of HTTP/1.0 (RFC 9110 §10.1.1)', async () => {
    await using listener = await openListener(echo);
    await using client = await listener.connect();
    client.send(post('Content-Length: 4\r\nExpect: 100-continue\r\n', 'body', '1.0'));
    expect((await client.response())?.status).toBe(200);
  });

  it('gets no 100 where no body follows, and the connection ends', async () => {
    await using listener = await openListener(echo);
    await using client = await listener.connect();
    client.send(`GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n${next}`);
    const response = await client.response();
    expect(response?.status).toBe(200);
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
    expect(listener.requests).toHaveLength(1);
  });

  it('is refused with 417 where it has an unknown expectation, and gets no 100', async () => {
    await using listener = await openListener(echo);
    await using client = await listener.connect();
    client.send(post('Content-Length: 4\r\nExpect: 100-continue, patience\r\n', 'body') + next);
    expectRefusal(await client.response(), 'expectation_failed');
    expect(await client.rest()).toBe('');
    expect(listener.requests).toEqual([]);
  });
});
