/** WebSocket tunnels to a hand-written origin: what it is asked, what the client gets, and how both sides end. */

import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createNetServer, type Server as NetServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createTunnel, type TunnelOptions, type TunnelRoute } from '../../src/listener/tunnel.ts';
import type { TunnelEvent } from '../../src/telemetry/events.ts';
import { openListener, type TestListener, textResponse } from '../support/open-listener.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { rawValues } from '../support/raw-client.ts';
import { testAuthority, testCertificate } from '../support/tls-certificate.ts';
import { untilQuiet } from '../support/until-quiet.ts';

const key = 'dGhlIHNhbXBsZSBub25jZQ==';
const accept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';
const handshake = upgradeRequest('GET /chat?a=1 HTTP/1.1\r\nHost: client.example\r\n');

function upgradeRequest(start: string, token = 'websocket'): string {
  return `${start}Connection: keep-alive, Upgrade\r\nUpgrade: ${token}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`;
}

const servers: NetServer[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    if ('closeAllConnections' in server) (server as Server).closeAllConnections();
  }
});

async function listen(server: NetServer): Promise<string> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface EchoOrigin {
  readonly url: string;
  readonly requests: IncomingMessage[];
  readonly sockets: Socket[];
}

/** Answers handshakes as RFC 6455 §4.2.2 says, and sends back whatever it gets. */
async function echoOrigin(createOrigin: () => Server = createServer): Promise<EchoOrigin> {
  const requests: IncomingMessage[] = [];
  const sockets: Socket[] = [];
  const server = createOrigin().on('upgrade', (request, stream, head) => {
    const socket = stream as Socket;
    requests.push(request);
    sockets.push(socket);
    socket.on('error', () => {});
    const digest = createHash('sha1').update(
      `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
    );
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade, x-hop\r\nX-Hop: 1\r\n' +
        `Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nKeep-Alive: timeout=1\r\nSec-WebSocket-Accept: ${digest.digest('base64')}\r\n\r\n`,
    );
    socket.write(head);
    socket.pipe(socket);
  });
  return { url: await listen(server), requests, sockets };
}

/** An origin that treats connections as bytes. */
async function rawOrigin(onConnection: (socket: Socket) => void): Promise<string> {
  return listen(
    createNetServer((socket) => {
      socket.on('error', () => {});
      onConnection(socket);
    }),
  );
}

/** An origin that answers handshakes with a response. */
async function plainOrigin(respond: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_request, response) => respond(response));
  return listen(server);
}

const sentFields: Fields = [
  ['host', 'origin.example'],
  ['cookie', 'a=1'],
  ['cookie', 'b=2'],
  ['sec-websocket-version', '13'],
  ['sec-websocket-key', key],
  ['sec-websocket-protocol', 'chat'],
  ['via', '1.1 rangeway'],
];

async function openTunnelListener(
  routeOf: TunnelOptions['routeOf'],
  options: Partial<TunnelOptions> = {},
): Promise<TestListener & { readonly tunnelEvents: TunnelEvent[] }> {
  const tunnelEvents: TunnelEvent[] = [];
  let time = 1_000;
  const tunnel = createTunnel({
    routeOf,
    emit: (event) => {
      if (event.kind === 'tunnel') tunnelEvents.push(event);
    },
    now: () => {
      time += 5;
      return time;
    },
    connectTimeoutMs: 5_000,
    answerTimeoutMs: 5_000,
    ...options,
  });
  const listener = await openListener(() => textResponse('plain'), { tunnel, now: () => 1_000 });
  return Object.assign(listener, { tunnelEvents });
}

function routeTo(url: string, fields = sentFields): TunnelOptions['routeOf'] {
  return () => ({ url, target: '/ws//../x?y&z=%20?', fields });
}

describe('a tunnel', () => {
  it('carries bytes both ways after the 101', async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    const head = await client.head();
    expect(head?.status).toBe(101);
    client.send('ping');
    expect((await client.take(4)).toString()).toBe('ping');
    const bytes = patternBytes(0, 4 * 1024 * 1024);
    client.send(bytes);
    expect((await client.take(bytes.length)).equals(bytes)).toBe(true);
    expect(listener.requests).toEqual([]);
  });

  it('carries what the client sends with its handshake', async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(`${handshake}early`);
    expect((await client.head())?.status).toBe(101);
    client.send(' late');
    expect((await client.take(10)).toString()).toBe('early late');
  });

  it('asks the origin with our fields and target, to the byte, and with nothing else', async () => {
    const asked = Promise.withResolvers<string>();
    const url = await rawOrigin((socket) => socket.once('data', (data) => asked.resolve(data.toString('latin1'))));
    const fields: Fields = [
      ...sentFields,
      ['connection', 'x-secret'],
      ['x-secret', '1'],
      ['content-length', '5'],
      ['te', 'x'],
    ];
    await using listener = await openTunnelListener(routeTo(url, fields));
    await using client = await listener.connect();
    client.send(handshake.replace('\r\n\r\n', '\r\nX-From-Client: 1\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n'));
    expect(await asked.promise).toBe(
      'GET /ws//../x?y&z=%20? HTTP/1.1\r\nHost: origin.example\r\nCookie: a=1; b=2\r\nSec-WebSocket-Version: 13\r\n' +
        `Sec-WebSocket-Key: ${key}\r\nSec-WebSocket-Protocol: chat\r\nVia: 1.1 rangeway\r\n` +
        'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    );
  });

  it("names the origin's host where our fields name none", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url, []));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    expect(`http://${origin.requests[0]?.headers.host}`).toBe(origin.url);
  });

  describe('to an https origin', () => {
    const openTlsTunnel = async (tls: TunnelRoute['tls'], host = 'localhost') => {
      const origin = await echoOrigin(() => createTlsServer(testCertificate));
      const url = origin.url.replace('http://127.0.0.1', `https://${host}`);
      return openTunnelListener(() => ({ url, target: '/', fields: sentFields, tls }));
    };

    it.each([
      ['by the name of its URL, whatever Host says', { ca: testAuthority }, 'localhost', 101],
      ['by its address', { ca: testAuthority }, '127.0.0.1', 101],
      ['unless it is not to be', { rejectUnauthorized: false }, 'localhost', 101],
      ['or refused', undefined, 'localhost', 502],
    ] satisfies [string, TunnelRoute['tls'], string, number][])('is verified %s', async (_name, tls, host, status) => {
      await using listener = await openTlsTunnel(tls, host);
      await using client = await listener.connect();
      client.send(handshake);
      expect((await client.head())?.status).toBe(status);
      if (status === 101) client.end();
      await client.rest();
      const error = status === 101 ? undefined : 'origin_tls_failed';
      await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ status, error })]);
    });
  });

  it('is decided from the head of the request', async () => {
    const seen: unknown[] = [];
    const origin = await echoOrigin();
    await using listener = await openTunnelListener((request) => {
      seen.push(request);
      return { url: origin.url, target: request.target, fields: sentFields };
    });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    expect(seen).toEqual([
      expect.objectContaining({
        method: 'GET',
        scheme: 'http',
        authority: 'client.example',
        target: '/chat?a=1',
        version: '1.1',
        peer: { address: '127.0.0.1', port: client.socket.localPort },
      }),
    ]);
    expect(origin.requests[0]?.url).toBe('/chat?a=1');
  });

  it("gives the client the origin's 101 without the fields of the origin's connection", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    const head = (await client.head()) ?? { lines: [] };
    expect(head.lines).toEqual([
      ['Set-Cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['Sec-WebSocket-Accept', accept],
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
    ]);
  });

  it('may be quiet for longer than the origin may take to answer', async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url), { answerTimeoutMs: 50 });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    await delay(200);
    client.send('ping');
    expect((await client.take(4)).toString()).toBe('ping');
  });

  it('holds a fast origin back for a slow client', async () => {
    let sentBytes = 0;
    const chunk = Buffer.alloc(256 * 1024);
    const url = await rawOrigin((socket) => {
      const send = (): void => {
        while (sentBytes < 1024 * 1024 * 1024) {
          sentBytes += chunk.length;
          if (!socket.write(chunk)) return;
        }
      };
      socket.on('drain', send);
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
        send();
      });
    });
    await using listener = await openTunnelListener(routeTo(url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    await untilQuiet(() => sentBytes);
    expect(sentBytes).toBeLessThan(64 * 1024 * 1024);
  });
});

describe('the end of a tunnel', () => {
  const ended = { kind: 'tunnel', status: 101, authority: 'client.example', target: '/chat?a=1', peer: '127.0.0.1' };

  it.each(['end', 'reset'] as const)("comes with the client's %s, on both sides", async (how) => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    client.send('bye');
    await client.take(3);
    client[how]();
    await expect.poll(() => origin.sockets[0]?.destroyed).toBe(true);
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ ...ended, error: undefined })]);
    expect(listener.tunnelEvents[0]?.durationMs).toBeGreaterThan(0);
    expect(await listener.listener.close(10_000)).toEqual({ cut: 0 });
  });

  it("comes with the origin's end, after its last bytes", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    origin.sockets[0]?.unpipe().end('last words');
    expect(await client.rest()).toBe('last words');
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining(ended)]);
  });

  it("comes with the origin's end, even if the client does not end its side", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.socket.allowHalfOpen = true;
    client.send(handshake);
    await client.head();
    origin.sockets[0]?.unpipe().end();
    expect(await client.rest()).toBe('');
    expect(await listener.listener.close(10_000)).toEqual({ cut: 0 });
  });

  it("comes with the client's end, even if the origin does not end its side", async () => {
    const closed = Promise.withResolvers<void>();
    const origin = createNetServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
        // Only a connection that is closed as a whole refuses what is sent to it.
        const sending = setInterval(() => socket.write('more'), 5);
        socket.on('close', () => {
          clearInterval(sending);
          closed.resolve();
        });
      });
    });
    await using listener = await openTunnelListener(routeTo(await listen(origin)));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    client.reset();
    await expect.poll(() => listener.tunnelEvents.length).toBe(1);
    const leftAt = performance.now();
    await closed.promise;
    expect(performance.now() - leftAt).toBeLessThan(1_000);
  });

  it("comes with the origin's reset, which is told", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    origin.sockets[0]?.resetAndDestroy();
    expect(await client.rest()).toBe('');
    await expect
      .poll(() => listener.tunnelEvents)
      .toEqual([expect.objectContaining({ ...ended, error: 'origin_reset' })]);
  });

  it("comes with the listener's, after the grace", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    expect(await listener.listener.close(50)).toEqual({ cut: 1 });
    expect(await client.rest()).toBe('');
    await expect.poll(() => origin.sockets[0]?.destroyed).toBe(true);
    expect(listener.tunnelEvents).toEqual([expect.objectContaining(ended)]);
  });
});

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
    ['is not there', 502, 'origin_refused', async () => closedPort()],
    [
      'closes without an answer',
      502,
      'origin_reset',
      () => rawOrigin((socket) => socket.once('data', () => socket.end())),
    ],
    ['resets', 502, 'origin_reset', () => rawOrigin((socket) => socket.once('data', () => socket.resetAndDestroy()))],
    ['speaks another protocol', 502, 'origin_ill_framed', () => rawOrigin((socket) => socket.end('SSH-2.0-x\r\n'))],
    ['says nothing', 504, 'origin_timeout', () => rawOrigin(() => {})],
    ['has an address that is none', 500, 'internal', async () => 'nonsense'],
  ];

  it.each(failures)('that %s becomes a %i', async (_name, status, code, origin) => {
    await using listener = await openTunnelListener(routeTo(await origin()), { answerTimeoutMs: 200 });
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

  it('is left when its client leaves before the answer', async () => {
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
  ] satisfies [string, TunnelOptions['routeOf'], number, string][])('that %s', async (_name, routeOf, status, code) => {
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
  ])('that %s is a request like any other', async (_name, request) => {
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

  it('behind a response that is due, or on a listener that is closing, is a request like any other', async () => {
    await using listener = await openTunnelListener(refuseAll);
    await using client = await listener.connect();
    client.send(`GET / HTTP/1.1\r\nHost: a\r\n\r\n${handshake}`);
    expect((await client.response())?.status).toBe(200);
    const second = await client.response();
    expect(second?.status).toBe(200);
    expect(await client.rest()).toBe('');
  });
});
