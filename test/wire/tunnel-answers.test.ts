/** Requests for a tunnel that open none: other answers of the origin, its failures, and requests that are no handshake. */

import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import type { RouteOf } from '../support/clients/tunnels.ts';
import {
  echoOrigin,
  handshake,
  openTunnelListener,
  plainOrigin,
  rawOrigin,
  routeTo,
  upgradeRequest,
} from '../support/clients/tunnels.ts';
import { itWithResets } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

describe('an origin that does not tunnel', () => {
  it.each<[string, (response: ServerResponse) => void, string]>([
    ['in one piece', (response) => response.writeHead(403, { 'X-A': '1', 'Content-Length': 4 }).end('none'), 'none'],
    ['in chunks', (response) => response.writeHead(403, { 'X-A': '1' }).write('no') && response.end('ne'), 'none'],
    ['without a body', (response) => response.writeHead(403, { 'X-A': '1', 'Content-Length': 0 }).end(), ''],
  ])('has its answer relayed: %s', async (_name, respond, body) => {
    await using listener = await openTunnelListener(routeTo(await plainOrigin(respond)));
    await using client = await listener.connect();
    client.send(handshake);
    const response = await client.response();
    expect(response).toMatchObject({ status: 403, reason: 'Forbidden', isWhole: true });
    expect(response?.body.toString()).toBe(body);
    expect(rawValues(response ?? { lines: [] }, 'x-a')).toEqual(['1']);
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
    await expect
      .poll(() => listener.tunnelEvents)
      .toEqual([expect.objectContaining({ status: 403, error: undefined })]);
  });

  it('has a large answer relayed whole', async () => {
    const bytes = Buffer.from(patternBytes(0, 4 * 1024 * 1024));
    const url = await plainOrigin((response) => response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes));
    await using listener = await openTunnelListener(routeTo(url));
    await using client = await listener.connect();
    client.send(handshake);
    expect((await client.response())?.body.equals(bytes)).toBe(true);
    expect(await client.rest()).toBe('');
  });

  it('cannot make a short answer look whole', async () => {
    const url = await rawOrigin((socket) =>
      socket.once('data', () => socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\nshort')),
    );
    await using listener = await openTunnelListener(routeTo(url));
    await using client = await listener.connect();
    client.send(handshake);
    expect(await client.response()).toMatchObject({ status: 403, isWhole: false });
    await expect
      .poll(() => listener.tunnelEvents)
      .toEqual([expect.objectContaining({ status: 403, error: 'origin_body_short' })]);
  });

  const failures: readonly (readonly [string, number, string, () => Promise<string>])[] = [
    ['does not listen', 502, 'origin_refused', async () => closedPort()],
    [
      'closes without an answer',
      502,
      'origin_reset',
      () => rawOrigin((socket) => socket.once('data', () => socket.end())),
    ],
    ['resets', 502, 'origin_reset', () => rawOrigin((socket) => socket.once('data', () => socket.resetAndDestroy()))],
    ['speaks another protocol', 502, 'origin_ill_framed', () => rawOrigin((socket) => socket.end('SSH-2.0-x\r\n'))],
    ['says nothing', 504, 'origin_timeout', () => rawOrigin(() => {})],
    ['has an invalid URL', 500, 'internal', async () => 'nonsense'],
  ];

  it.each(failures)('that %s becomes a %i', async (_name, status, code, origin) => {
    // Short only where the time itself is tested: a machine that stands still this long would turn the others into a 504.
    const patience = status === 504 ? { answerTimeoutMs: 200 } : {};
    await using listener = await openTunnelListener(routeTo(await origin()), patience);
    await using client = await listener.connect();
    client.send(`${handshake}early`);
    const response = await client.response();
    expect(response?.status).toBe(status);
    expect(rawValues(response ?? { lines: [] }, 'content-type')).toEqual(['application/problem+json']);
    expect(await client.rest()).toBe('');
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ status, error: code })]);
    expect((await (await listener.connect()).exchange('GET / HTTP/1.1\r\nHost: a\r\n\r\n')).status).toBe(200);
  });

  async function closedPort(): Promise<string> {
    const server = createNetServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    return `http://127.0.0.1:${port}`;
  }

  itWithResets('is disconnected when its client leaves before the answer', async () => {
    const asked = Promise.withResolvers<Socket>();
    const url = await rawOrigin((socket) => socket.once('data', () => asked.resolve(socket)));
    await using listener = await openTunnelListener(routeTo(url));
    await using client = await listener.connect();
    client.send(handshake);
    const socket = await asked.promise;
    socket.resume();
    client.reset();
    await expect.poll(() => socket.destroyed).toBe(true);
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ error: 'client_gone' })]);
  });
});

describe('a request for a tunnel', () => {
  it.each([
    ['is refused by the route', () => new ProxyError('no_route'), 404, 'no_route'],
    [
      'has a route that fails',
      () => {
        throw new Error('secret');
      },
      500,
      'internal',
    ],
  ] satisfies [string, RouteOf, number, string][])('that %s', async (_name, routeOf, status, code) => {
    await using listener = await openTunnelListener(routeOf);
    await using client = await listener.connect();
    client.send(handshake);
    const response = await client.response();
    expect(response?.status).toBe(status);
    expect(response?.body.toString()).not.toContain('secret');
    expect(await client.rest()).toBe('');
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ status, error: code })]);
  });

  it('that is malformed is refused like any other', async () => {
    await using listener = await openTunnelListener(() => new ProxyError('no_route'));
    await using client = await listener.connect();
    client.send(upgradeRequest('GET /a#b HTTP/1.1\r\nHost: a\r\n'));
    expect((await client.response())?.status).toBe(400);
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([expect.objectContaining({ kind: 'refusal', error: 'malformed_request' })]);
    expect(listener.tunnelEvents).toEqual([]);
  });

  const refuseAll = (): ProxyError => new ProxyError('internal');
  it.each([
    ['asks for h2c', upgradeRequest('GET / HTTP/1.1\r\nHost: a\r\n', 'h2c')],
    ['asks for TLS', upgradeRequest('GET / HTTP/1.1\r\nHost: a\r\n', 'TLS/1.0')],
    ['is a POST', upgradeRequest('POST / HTTP/1.1\r\nHost: a\r\n')],
    ['has a body', `${upgradeRequest('GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n')}abc`],
    ['has chunks', `${upgradeRequest('GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n')}0\r\n\r\n`],
    ['is of HTTP/1.0', upgradeRequest('GET / HTTP/1.0\r\nHost: a\r\n')],
    ['has no Connection: Upgrade', handshake.replace('keep-alive, Upgrade', 'keep-alive')],
  ])('that %s is an ordinary request', async (_name, request) => {
    await using listener = await openTunnelListener(refuseAll);
    await using client = await listener.connect();
    const response = await client.exchange(request);
    expect(response.status).toBe(200);
    expect(response.body.toString()).toBe('plain');
    expect(listener.requests).toHaveLength(1);
  });

  it('may name other protocols beside WebSocket', async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(upgradeRequest('GET / HTTP/1.1\r\nHost: a\r\n', 'h2c, WebSocket'));
    expect((await client.head())?.status).toBe(101);
  });

  it('behind a response that is due is an ordinary request', async () => {
    await using listener = await openTunnelListener(refuseAll);
    await using client = await listener.connect();
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n\r\n${handshake}`);
    expect((await client.response())?.status).toBe(200);
    const second = await client.response();
    expect(second?.status).toBe(200);
    expect(await client.rest()).toBe('');
  });
});
