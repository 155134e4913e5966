/** Trailer fields from an origin to a client, through the whole server. */

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { getFields, H2RawClient } from '../support/clients/h2-raw-client.ts';
import { RawClient } from '../support/clients/raw-client.ts';

let origin: Server;
let server: RunningServer;
let port: number;

beforeAll(async () => {
  origin = createServer((request, response) => {
    const isStored = request.url === '/stored';
    response.writeHead(200, { 'cache-control': isStored ? 'max-age=60' : 'no-store', trailer: 'x-sum' });
    response.write('bo');
    response.addTrailers({ 'x-sum': '42', 'set-cookie': 'a=b' });
    response.end('dy');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const loaded = checkConfig(
    { listen: [{ address: '127.0.0.1:0', http2: true }], store: { type: 'memory' }, routes: [{ origin: { url } }] },
    '/',
  );
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config);
  port = Number(new URL(server.url).port);
});

afterAll(async () => {
  await server.close({ graceMs: 0 });
  origin.close();
});

it('passes trailers on over HTTP/2 to a client that takes them', async () => {
  await using client = await H2RawClient.open(port);
  client.request(1, getFields('/relayed', [['te', 'trailers']]));
  const { status, body, trailers } = await client.whenOver(1);
  expect([status, body.toString(), trailers]).toEqual([200, 'body', [['x-sum', '42']]]);
  client.request(3, getFields('/relayed'));
  expect(await client.whenOver(3)).toMatchObject({ body: Buffer.from('body'), trailers: [], isEnded: true });
});

it('passes trailers on over HTTP/1.1 to a client that takes them', async () => {
  await using client = await RawClient.open(port);
  client.send('GET /relayed HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n');
  expect((await client.head())?.status).toBe(200);
  expect(await client.rest()).toMatch(/dy\r\n0\r\nX-Sum: 42\r\n\r\n$/);
});

it('does not store trailers (RFC 9111 §3.1), and sends none with a part', async () => {
  await using client = await H2RawClient.open(port);
  client.request(1, getFields('/stored', [['te', 'trailers']]));
  expect((await client.whenOver(1)).body.toString()).toBe('body');
  client.request(3, getFields('/stored', [['te', 'trailers']]));
  expect(await client.whenOver(3)).toMatchObject({ body: Buffer.from('body'), trailers: [] });
  client.request(
    5,
    getFields('/stored', [
      ['te', 'trailers'],
      ['range', 'bytes=0-1'],
    ]),
  );
  expect(await client.whenOver(5)).toMatchObject({ status: 206, trailers: [] });
});
