/** The limits for clients, from the configuration file to the bytes on the wire, over HTTP/1.1 and HTTP/2. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorCode, frameType, getFields, H2RawClient, postFields, setting } from '../support/clients/h2-raw-client.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { drip } from '../support/clocks/drip.ts';
import { startRangeway } from '../support/processes/rangeway-process.ts';

const size = 4_000_000;
let origin: Server;
let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-limits-'));
  origin = createServer((request, response) => {
    if (request.method === 'POST') {
      void buffer(request).then(
        (body) => response.end(`${body.length} bytes`),
        () => response.destroy(),
      );
      return;
    }
    response.writeHead(200, { 'content-length': size, 'cache-control': 'no-store' });
    if (request.url === '/slow') response.write('x');
    else response.end(Buffer.alloc(size));
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});

afterAll(async () => {
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

/** Starts a server with these limits, in cleartext for both protocols. */
async function startWith(name: string, limits: object) {
  const file = join(dir, `${name}.json`);
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const listen = [{ address: '127.0.0.1:0', http2: true }];
  await writeFile(file, JSON.stringify({ listen, limits, store: { type: 'memory' }, routes: [{ origin: { url } }] }));
  const rangeway = startRangeway(['--config', file]);
  const [, port = ''] = await rangeway.waitFor(/ready on http:\/\/127\.0\.0\.1:(\d+)/);
  return { ...rangeway, port: Number(port) };
}

describe('limits.streamsPerConnection', () => {
  it('is announced to clients in SETTINGS', async () => {
    await using rangeway = await startWith('streams', { streamsPerConnection: 7 });
    await using client = await H2RawClient.open(rangeway.port);
    const payload = client.frames.find(({ type, flags }) => type === frameType.settings && flags === 0)?.payload;
    const settings = new Map<number, number>();
    for (let at = 0; at < (payload?.length ?? 0); at += 6) {
      settings.set(payload?.readUInt16BE(at) ?? 0, payload?.readUInt32BE(at + 2) ?? 0);
    }
    expect(settings.get(setting.maxStreams)).toBe(7);
  });
});

describe('limits.responseTimeoutSeconds', () => {
  it('ends a response that takes longer', async () => {
    await using rangeway = await startWith('time', { responseTimeoutSeconds: 1 });
    await using http1 = await RawClient.open(rangeway.port);
    await using http2 = await H2RawClient.open(rangeway.port);
    http1.send('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n');
    http2.request(1, getFields('/slow'));
    const [response, outcome] = await Promise.all([http1.response(), http2.whenOver(1)]);
    expect(response).toMatchObject({ status: 200, isWhole: false });
    expect(outcome).toMatchObject({ status: 200, isEnded: false, resetCode: errorCode.internal });
    await rangeway.waitFor(/client_gone/);
  });
});

describe('limits.minBytesPerSecond', () => {
  it('ends the response to a client that reads more slowly, and no other', async () => {
    await using rangeway = await startWith('rate', { minBytesPerSecond: 1_000_000, idleTimeoutSeconds: 1 });
    await using slow = await H2RawClient.open(rangeway.port);
    slow.request(1, getFields('/'));
    using _trickle = drip(() => slow.windowUpdate(1, 20));
    const outcome = await slow.whenOver(1);
    expect(outcome).toMatchObject({ status: 200, isEnded: false, resetCode: errorCode.internal });
    await using fast = await RawClient.open(rangeway.port);
    expect((await fast.exchange('GET / HTTP/1.1\r\nHost: a\r\n\r\n')).body.length).toBe(size);
  });
});

describe('limits.minUploadBytesPerSecond', () => {
  const limits = { minUploadBytesPerSecond: 1_000, idleTimeoutSeconds: 1 };
  const head = (size: number) => `POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`;
  /** Sends a little at a time, until the promise is settled. */
  async function whileWaiting<T>(outcome: Promise<T>, send: () => void): Promise<T> {
    using _trickle = drip(send);
    return await outcome;
  }

  it('answers 408 to an upload that trickles, and ends its connection', async () => {
    await using rangeway = await startWith('upload', limits);
    await using client = await RawClient.open(rangeway.port);
    client.send(head(100_000));
    const response = await whileWaiting(client.response(), () => client.send('x'));
    expect(response).toMatchObject({ status: 408, isWhole: true });
    expect(await client.rest()).toBe('');
    await rangeway.waitFor(/request_timeout/);
  });

  it('answers 408 to such an upload over HTTP/2', async () => {
    await using rangeway = await startWith('upload2', limits);
    await using client = await H2RawClient.open(rangeway.port);
    client.request(1, postFields('/upload'), { endStream: false });
    const outcome = await whileWaiting(client.whenOver(1), () => client.data(1, 'x'));
    expect(outcome).toMatchObject({ status: 408 });
  });

  it('lets an upload pass that is slow but steady', async () => {
    await using rangeway = await startWith('steady', limits);
    await using client = await RawClient.open(rangeway.port);
    const size = 6_000;
    client.send(head(size));
    let sent = 0;
    const response = await whileWaiting(client.response(), () => {
      if (sent < size) client.send('x'.repeat(60));
      sent += 60;
    });
    expect(response?.body.toString()).toBe(`${size} bytes`);
  });
});
