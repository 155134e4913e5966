/** The gauges of open connections, requests, exchanges, fills and tunnels: whatever clients and origins do, they return to 0. */

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { handshake } from '../support/clients/tunnels.ts';
import { sumOf } from '../support/values/metric-text.ts';

const gauges = [
  'rangeway_connections_open',
  'rangeway_requests_in_flight',
  'rangeway_origin_exchanges_in_flight',
  'rangeway_fills_running',
  'rangeway_tunnels_open',
];

let origin: Server;
let tunnels: Socket[];
let server: RunningServer;
let port: number;
beforeEach(async () => {
  tunnels = [];
  origin = createServer((request, response) => {
    if (request.url === '/silent') return;
    response.writeHead(200, { 'content-length': 1_000_000, 'cache-control': 'max-age=60', etag: '"1"' });
    if (request.url === '/half') response.write(Buffer.alloc(500_000));
    else if (request.url === '/broken') response.write(Buffer.alloc(1000), () => response.destroy());
    else response.end(Buffer.alloc(1_000_000));
  });
  origin.on('upgrade', (_request, socket) => {
    tunnels.push(socket as Socket);
    socket.on('error', () => {});
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const loaded = checkConfig(
    {
      listen: [{ address: '127.0.0.1:0', http2: true }],
      store: { type: 'memory' },
      admin: { listen: '127.0.0.1:0' },
      limits: { connections: 50 },
      routes: [
        { match: { pathPrefix: '/busy' }, origin: url, limits: { fills: 1 } },
        { origin: { url, retries: { attempts: 0 } }, fill: { onAbort: 'stop', resumeAttempts: 0 } },
      ],
    },
    '/',
  );
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config);
  port = Number(new URL(server.url).port);
});
afterEach(async () => {
  await server.close({ graceMs: 0 });
  for (const socket of tunnels) socket.destroy();
  origin.closeAllConnections();
  origin.close();
});

async function read(name: string): Promise<number> {
  return sumOf(await server.operations.formatMetrics(), name);
}

const open = async () => Object.fromEntries(await Promise.all(gauges.map(async (name) => [name, await read(name)])));
const expectNone = async () => {
  const none = Object.fromEntries(gauges.map((name) => [name, 0]));
  await expect.poll(open).toEqual(none);
};

const requestFor = (target: string, more = '') => `GET ${target} HTTP/1.1\r\nHost: files.example\r\n${more}\r\n`;

describe('the gauges', () => {
  it('count everything that is open', async () => {
    await using silent = await RawClient.open(port);
    silent.send(requestFor('/silent'));
    await using half = await RawClient.open(port);
    half.send(requestFor('/half'));
    await using tunnel = await RawClient.open(port);
    tunnel.send(handshake);
    await tunnel.head();
    await expect.poll(open).toEqual({
      rangeway_connections_open: 3,
      rangeway_requests_in_flight: 2,
      rangeway_origin_exchanges_in_flight: 2,
      rangeway_fills_running: 1,
      rangeway_tunnels_open: 1,
    });
    for (const client of [silent, half, tunnel]) client.reset();
    await expectNone();
    expect([await read('rangeway_tunnels_total'), await read('rangeway_tunnel_bytes_total')]).toEqual([
      1,
      expect.any(Number),
    ]);
  });

  it.each<[what: string, bytes: string]>([
    ['nothing at all', ''],
    ['half a head', 'GET / HTTP/1.1\r\nHost: a'],
    ['a malformed head', 'GET / HTTP/1.1\r\nHost : a\r\n\r\n'],
    ['a request whose origin is silent', requestFor('/silent')],
    ['requests in a row', requestFor('/half').repeat(3) + requestFor('/whole')],
    ['a request whose body does not arrive', requestFor('/whole', 'Content-Length: 100\r\n').replace('GET', 'POST')],
    ['a request whose origin breaks off', requestFor('/broken')],
    ['a request with Max-Forwards: 0', 'GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 x\r\nMax-Forwards: 0\r\n\r\n'],
    ['a tunnel that is refused', handshake.replace('/chat?a=1', '/silent').replace('Version: 13', 'Version: 99')],
    ['an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a method that is not served', requestFor('/').replace('GET', 'TRACE')],
  ])('are 0 after %s from a client that leaves', async (_what, bytes) => {
    for (const how of ['reset', 'end', 'destroy'] as const) {
      await using client = await RawClient.open(port);
      client.send(bytes);
      // One client leaves at once, the others after a connection was counted.
      if (how !== 'reset') await expect.poll(() => read('rangeway_connections_open')).toBeGreaterThan(0);
      if (how === 'destroy') client.socket.destroy();
      else client[how]();
      await client[Symbol.asyncDispose]();
    }
    await expectNone();
  });

  it('are 0 after streams that are cancelled', async () => {
    const client = connectHttp2(server.url);
    client.on('error', () => {});
    for (const path of ['/silent', '/half', '/whole', '/broken']) {
      const stream = client.request({ ':path': path, ':authority': 'files.example' });
      stream.on('error', () => {});
      if (path === '/half') await once(stream, 'response');
      stream.close(8);
    }
    client.destroy();
    await expectNone();
  });

  it('are 0 after fills that a limit has refused', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, async (_, at) => {
        const response = await fetch(`${server.url}/busy/${at}`);
        await response.arrayBuffer();
        return response.status;
      }),
    );
    expect(new Set(answers)).toContain(200);
    await expect.poll(() => read('rangeway_requests_total')).toBe(8);
    const { rangeway_connections_open: _kept, ...rest } = await open();
    expect(Object.values(rest)).toEqual([0, 0, 0, 0]);
  });
});
