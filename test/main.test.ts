/** Whole servers, started from configurations, over real sockets. */

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkConfig } from '../src/config/load.ts';
import { type RunningServer, start } from '../src/main.ts';
import type { FillEvent, ServerEvent } from '../src/telemetry/events.ts';
import { patternBytes } from './support/values/pattern-body.ts';

const size = 300_000;
const whole = patternBytes(0, size);

let origin: Server;
let servers: RunningServer[];

beforeEach(async () => {
  servers = [];
  // Sends the whole body to every request. /slow stalls after 1000 bytes.
  origin = createServer((request, response) => {
    response.writeHead(200, { 'content-length': size, 'cache-control': 'max-age=60', etag: '"v1"' });
    if (request.url === '/slow') response.write(whole.subarray(0, 1000));
    else response.end(whole);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});

afterEach(async () => {
  await Promise.all(servers.map((server) => server.close({ graceMs: 0 })));
  origin.closeAllConnections();
  origin.close();
});

const originUrl = () => `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;

async function startServer(url: string, listen = '127.0.0.1:0', emit: (event: ServerEvent) => void = () => {}) {
  const loaded = checkConfig({ listen, store: { type: 'memory' }, routes: [{ origin: { url } }] }, '/');
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  const server = await start(loaded.config, { emit });
  servers.push(server);
  return server;
}

describe('a server', () => {
  it('works in front of another server on the same machine, each on a port that the system chose', async () => {
    const inner = await startServer(originUrl());
    const outer = await startServer(inner.url);
    const response = await fetch(`${outer.url}/file`, { headers: { range: 'bytes=-10' } });
    expect(response.status).toBe(206);
    expect(response.headers.get('via')?.split(',')).toHaveLength(2);
    expect(Buffer.from(await response.arrayBuffer())).toEqual(Buffer.from(patternBytes(size - 10, size)));
  });

  it('that reaches itself through another server refuses the loop', async () => {
    const port = await freePort();
    const inner = await startServer(`http://127.0.0.1:${port}`);
    const outer = await startServer(inner.url, `127.0.0.1:${port}`);
    expect((await fetch(`${outer.url}/file`)).status).toBe(508);
  });

  it('ends its fills when it stops, before it closes its store', async () => {
    const events: ServerEvent[] = [];
    const server = await startServer(originUrl(), '127.0.0.1:0', (event) => events.push(event));
    const response = await fetch(`${server.url}/slow`);
    const reading = response.arrayBuffer().catch((error: Error) => error);
    await server.close({ graceMs: 0 });
    expect(await reading).toBeInstanceOf(Error);
    const fills = events.filter((event): event is FillEvent => event.kind === 'fill');
    expect(fills.map(({ result }) => result)).toEqual(['stopped']);
    expect(events.at(-1)).toMatchObject({ kind: 'life', stage: 'stopped' });
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
