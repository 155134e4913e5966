/** WebSocket handshakes, origins that answer them, and a listener with a tunnel to such origins. */

import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Server as NetServer, type Socket } from 'node:net';
import { afterEach } from 'vitest';
import type { Fields } from '../../../src/http/fields.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { ListenerLimits, RequestHead } from '../../../src/listener/listener.ts';
import { createTunnel, type TunnelOptions, type TunnelRoute } from '../../../src/listener/tunnel.ts';
import type { TunnelEvent } from '../../../src/telemetry/events.ts';
import { openListener, type TestListener, textResponse } from '../proxies/open-listener.ts';

/** Returns the route of a request for a tunnel, or the error that refuses it. */
export type RouteOf = (request: RequestHead) => TunnelRoute | ProxyError;

/** The key of the example in RFC 6455 §1.3, and the accept value for it. */
export const key = 'dGhlIHNhbXBsZSBub25jZQ==';
export const accept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';
/** A client's handshake. */
export const handshake = upgradeRequest('GET /chat?a=1 HTTP/1.1\r\nHost: client.example\r\n');

/** Returns a request that begins with these lines and asks for an upgrade. */
export function upgradeRequest(start: string, token = 'websocket'): string {
  return `${start}Connection: keep-alive, Upgrade\r\nUpgrade: ${token}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`;
}

const servers: NetServer[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    if ('closeAllConnections' in server) (server as Server).closeAllConnections();
  }
});

/** Listens on a free port until the test ends, and returns the URL. */
export async function listen(server: NetServer): Promise<string> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An origin that echoes, with its handshakes and connections. */
export interface EchoOrigin {
  readonly url: string;
  readonly requests: IncomingMessage[];
  readonly sockets: Socket[];
}

/** Opens an origin that answers handshakes as RFC 6455 §4.2.2 says, and echoes all bytes. */
export async function echoOrigin(createOrigin: () => Server = createServer): Promise<EchoOrigin> {
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

/** Opens an origin that handles raw connections. */
export async function rawOrigin(onConnection: (socket: Socket) => void): Promise<string> {
  return listen(
    createNetServer((socket) => {
      socket.on('error', () => {});
      onConnection(socket);
    }),
  );
}

/** Opens an origin that answers handshakes with an ordinary response. */
export async function plainOrigin(respond: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_request, response) => respond(response));
  return listen(server);
}

/** The fields that the routes of tests send to the origin. */
export const sentFields: Fields = [
  ['host', 'origin.example'],
  ['cookie', 'a=1'],
  ['cookie', 'b=2'],
  ['sec-websocket-version', '13'],
  ['sec-websocket-key', key],
  ['sec-websocket-protocol', 'chat'],
  ['via', '1.1 rangeway'],
];

/** Opens a listener with a tunnel, and records the tunnel's events. */
export async function openTunnelListener(
  routeOf: RouteOf,
  options: Partial<TunnelOptions> = {},
  limits: Partial<ListenerLimits> = {},
): Promise<TestListener & { readonly tunnelEvents: TunnelEvent[] }> {
  const tunnelEvents: TunnelEvent[] = [];
  let time = 1_000;
  const tunnel = createTunnel({
    admit: (request) => ({
      route() {
        const route = routeOf(request);
        if (route instanceof ProxyError) throw route;
        return route;
      },
      present: (response) => response,
      leave: () => {},
    }),
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
  const listener = await openListener(async () => textResponse('plain'), {
    tunnel,
    limits,
    now: () => 1_000,
    after: options.after,
  });
  return Object.assign(listener, { tunnelEvents });
}

/** Routes everything to an origin, with a target that a URL parser would change. */
export function routeTo(url: string, fields = sentFields): RouteOf {
  return () => ({ url, target: '/ws//../x?y&z=%20?', fields });
}
