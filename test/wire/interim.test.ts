/** Interim responses (RFC 9110 §15.2): which clients get them, when, and with which fields. */

import { describe, expect, it } from 'vitest';
import type { InterimResponse } from '../../src/http/message.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { openListener, textResponse } from '../support/proxies/open-listener.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const hints: InterimResponse = {
  status: 103,
  fields: [
    ['link', '</a.css>; rel=preload; as=style'],
    ['link', '</b.js>; rel=preload; as=script'],
    ['x-trace', '1'],
    ['connection', 'close'],
    ['content-length', '3'],
  ],
};

describe('an interim response', () => {
  it('precedes the final one, with its fields except the connection-specific ones', async () => {
    await using listener = await openListener((request) => {
      request.sendInterim(hints);
      request.sendInterim({ status: 102, fields: [] });
      return textResponse('final');
    });
    await using client = await listener.connect();
    const early = await client.exchange(get);
    expect(early.status).toBe(103);
    expect(early.lines).toEqual([
      ['Link', '</a.css>; rel=preload; as=style'],
      ['Link', '</b.js>; rel=preload; as=script'],
      ['X-Trace', '1'],
    ]);
    expect((await client.response())?.status).toBe(102);
    expect((await client.response())?.body.toString()).toBe('final');
    expect((await client.exchange(get)).status).toBe(103);
  });

  it('waits for the responses to earlier requests', async () => {
    const releases = new Map<string, () => void>();
    await using listener = await openListener(async (request) => {
      request.sendInterim(hints);
      await new Promise<void>((resolve) => releases.set(request.target, resolve));
      return textResponse(request.target);
    });
    await using client = await listener.connect();
    client.send(
      'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n',
    );
    await expect.poll(() => releases.size).toBe(3);
    releases.get('/3')?.();
    expect((await client.response())?.status).toBe(103);
    releases.get('/1')?.();
    expect((await client.response())?.body.toString()).toBe('/1');
    expect((await client.response())?.status).toBe(103);
    releases.get('/2')?.();
    expect((await client.response())?.body.toString()).toBe('/2');
    // Its final head was ready before its turn came, so the interim response is not sent.
    expect((await client.response())?.body.toString()).toBe('/3');
  });

  it.each<[string, InterimResponse, string]>([
    ['to a client of HTTP/1.0', hints, 'GET / HTTP/1.0\r\n\r\n'],
    ['with status 100', { status: 100, fields: [] }, get],
    ['with status 101', { status: 101, fields: [] }, get],
    ['with a final status', { status: 200, fields: [] }, get],
    ['with a line break in a value', { status: 103, fields: [['link', 'a\r\nX: y']] }, get],
  ])('is not sent %s', async (_name, interim, request) => {
    await using listener = await openListener((received) => {
      received.sendInterim(interim);
      return textResponse('final');
    });
    await using client = await listener.connect();
    const response = await client.exchange(request);
    expect(response.status).toBe(200);
    expect(rawValues(response, 'x')).toEqual([]);
  });

  it('is not sent after the final head, nor to a client that is gone', async () => {
    await using listener = await openListener((request) => {
      setImmediate(() => request.sendInterim(hints));
      return textResponse('final');
    });
    await using client = await listener.connect();
    expect((await client.exchange(get)).status).toBe(200);
    expect((await client.exchange(get)).status).toBe(200);
    const [request] = listener.requests;
    client.socket.destroy();
    await client.closed;
    expect(() => request?.sendInterim(hints)).not.toThrow();
  });
});
