/** When one worker has answered a PURGE, no worker serves the old version: not from the store, from memory or from a fill. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { RawClient } from '../support/clients/raw-client.ts';
import { childrenOf } from '../support/processes/fleet-process.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

const size = 100_000;
let version = 0;
let origin: Server;
let rangeway: RangewayProcess;
let dir: string;
let port: number;

beforeAll(async () => {
  origin = createServer(({ headers }, response) => {
    const fields = { 'cache-control': 'max-age=600, stale-if-error=600', 'surrogate-key': 'all', etag: `"${version}"` };
    if (headers['if-none-match'] === fields.etag) return void response.writeHead(304, fields).end();
    response.writeHead(200, { ...fields, 'content-length': size }).end(Buffer.alloc(size, version));
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  dir = await mkdtemp(join(tmpdir(), 'rangeway-purge-workers-'));
  const purge = { peers: ['127.0.0.1'], by: ['url', 'prefix', 'tag'] };
  const started = await startConfigured(dir, {
    listen: '127.0.0.1:0',
    workers: 3,
    store: { dir: join(dir, 'store') },
    routes: [{ origin: { url }, purge }],
  });
  rangeway = started;
  port = Number(new URL(started.url).port);
});
afterAll(async () => {
  expect(await rangeway.stop('SIGTERM')).toBe(0);
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

async function send(method: string, lines: readonly string[] = [], path = '/file') {
  await using client = await RawClient.open(port);
  const head = [`${method} ${path} HTTP/1.1`, 'Host: files.test', ...lines, 'Connection: close'];
  return await client.exchange(`${head.join('\r\n')}\r\n\r\n`);
}

/** Sends `count` GET requests at a time, each over its own connection. Returns the version in each response. */
async function versions(count: number): Promise<number[]> {
  const responses = await Promise.all(Array.from({ length: count }, () => send('GET')));
  return responses.map(({ status, body }) => {
    expect([status, body.length]).toEqual([200, size]);
    expect(body.every((byte) => byte === body[0])).toBe(true);
    return body[0] ?? -1;
  });
}

it.each<[string, readonly string[]]>([
  ['its URL', []],
  ['its URL, softly', ['Rangeway-Purge: soft']],
  ['a prefix', ['Rangeway-Purge: prefix']],
  ['a tag', ['Surrogate-Key: all']],
  ['a tag, softly', ['Surrogate-Key: all', 'Rangeway-Purge: soft']],
])('by %s', async (_by, lines) => {
  for (let round = 0; round < 6; round += 1) {
    await versions(6);
    // Requests in flight during the purge may get either version.
    version += 1;
    const meanwhile = versions(4);
    expect((await send('PURGE', lines)).status).toBe(200);
    expect(new Set(await versions(9))).toEqual(new Set([version]));
    await meanwhile;
  }
});

it('by its URL, while a worker is suspended in the middle of what it stores', async () => {
  const pids = childrenOf(rangeway.pid);
  expect(pids).toHaveLength(3);
  for (const pid of pids) {
    await versions(6);
    version += 1;
    const before = versions(12);
    process.kill(pid, 'SIGSTOP');
    version += 1;
    const purged = send('PURGE');
    // Other workers answer meanwhile; the purge waits for the suspended one.
    const others = Array.from({ length: 5 }, (_, index) => send('GET', [], `/other-${pid}-${index}`));
    expect((await Promise.all(others)).map(({ status }) => status)).toEqual(others.map(() => 200));
    process.kill(pid, 'SIGCONT');
    expect((await purged).status).toBe(200);
    expect(new Set(await versions(9))).toEqual(new Set([version]));
    await before;
  }
});
