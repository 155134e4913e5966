/** Shares of one client, from the configuration file to the bytes on the wire: no client can starve another. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type ClientRequest, createServer, request as openRequest, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

let dir: string;
let origin: Server;
let url: string;
/** The paths of the requests that the origin has received. */
const asked: string[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-shares-'));
  origin = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.on('error', () => {});
    void buffer(request).then(
      (body) => response.end(`${body.length} bytes`),
      () => asked.push(`${request.url} broke off`),
    );
  });
  origin.on('upgrade', (request, socket) => {
    asked.push(request.url ?? '');
    socket.on('error', () => {});
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    socket.pipe(socket);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(async () => {
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

interface Options {
  /** Options of the route's origin. */
  readonly origin?: object;
  /** Options of the route. */
  readonly route?: object;
  /** Limits of the server. */
  readonly limits?: object;
}

async function start(options: Options = {}): Promise<RangewayProcess & { readonly url: string }> {
  const { origin: originOptions, route, limits = {} } = options;
  asked.length = 0;
  return await startConfigured(await mkdtemp(join(dir, 'server-')), {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    log: { format: 'json' },
    limits,
    routes: [{ origin: { url, ...originOptions }, ...route }],
  });
}

/** Opens a request from a local address. Each loopback address counts as another client. */
function open(base: string, path: string, address: string, more: object = {}): ClientRequest {
  const request = openRequest(base + path, { localAddress: address, agent: false, ...more });
  request.on('error', () => {});
  return request;
}

async function answer(request: ClientRequest) {
  const [response] = await once(request, 'response');
  return { status: response.statusCode, text: (await buffer(response)).toString() };
}

/** Begins an upload that stalls after one byte. */
function beginUpload(base: string, path: string, address: string): ClientRequest {
  const upload = open(base, path, address, { method: 'POST', headers: { 'content-length': 1000 } });
  upload.write('x');
  return upload;
}

const attacker = '127.0.0.2';
const victim = '127.0.0.3';

describe('connections to the origin', () => {
  it('are left for other clients, however many uploads of one client stall', async () => {
    await using rangeway = await start({ origin: { connections: 128 } });
    const uploads = Array.from({ length: 140 }, (_, index) => beginUpload(rangeway.url, `/upload/${index}`, attacker));
    // A quarter is its share; it may have more while another quarter is free.
    await expect.poll(() => asked.length).toBe(96);
    expect(await answer(open(rangeway.url, '/file', victim).end())).toEqual({ status: 200, text: '0 bytes' });
    expect(asked.length).toBe(97);
    for (const upload of uploads) upload.destroy();
  });

  it('are limited to origin.connectionsPerClient for one client', async () => {
    await using rangeway = await start({ origin: { connections: 4, connectionsPerClient: 3 } });
    const uploads = Array.from({ length: 10 }, (_, index) => beginUpload(rangeway.url, `/upload/${index}`, attacker));
    await expect.poll(() => asked.length).toBe(3);
    expect((await answer(open(rangeway.url, '/file', victim).end())).status).toBe(200);
    expect(asked.length).toBe(4);
    for (const upload of uploads) upload.destroy();
  });

  it('are not held by uploads whose body has not begun', async () => {
    await using rangeway = await start({ origin: { connections: 1 } });
    const upload = open(rangeway.url, '/upload', attacker, { method: 'POST', headers: { 'content-length': 4 } });
    upload.flushHeaders();
    expect((await answer(open(rangeway.url, '/file', victim).end())).status).toBe(200);
    expect(asked).toEqual(['/file']);
    expect(await answer(upload.end('abcd'))).toEqual({ status: 200, text: '4 bytes' });
  });
});

describe('tunnels', () => {
  const upgrade = {
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    },
  };
  const openTunnel = async (base: string, address: string): Promise<Socket> => {
    const [, socket] = await once(open(base, '/socket', address, upgrade).end(), 'upgrade');
    return socket;
  };
  const refusal = async (base: string, address: string) =>
    (await answer(open(base, '/socket', address, upgrade).end())).status;

  it('are limited to limits.tunnelsPerClient for one client', async () => {
    await using rangeway = await start({ route: { limits: { tunnelsPerClient: 2 } } });
    const tunnels = [await openTunnel(rangeway.url, attacker), await openTunnel(rangeway.url, attacker)];
    expect(await refusal(rangeway.url, attacker)).toBe(429);
    tunnels.push(await openTunnel(rangeway.url, victim));
    tunnels.shift()?.destroy();
    await rangeway.waitFor(/"event":"tunnel"[^\n]*"status":101/);
    tunnels.push(await openTunnel(rangeway.url, attacker));
    for (const tunnel of tunnels) tunnel.destroy();
  });

  it('are closed when they were idle for limits.tunnelIdleTimeoutSeconds', async () => {
    await using rangeway = await start({ route: { limits: { tunnelIdleTimeoutSeconds: 0.5 } } });
    const tunnel = await openTunnel(rangeway.url, victim);
    tunnel.resume();
    await once(tunnel, 'close');
    await rangeway.waitFor(/tunnel_idle/);
  });
});
