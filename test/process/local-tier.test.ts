/** A server with a local disk before a real engine: workers share the disk, purges of another machine, and what a kill leaves. */

import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { lockDirectory } from '../../src/store/disk/index/directory-lock.ts';
import { adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { describeWithEngine, type RedisServer, startRedisServer } from '../support/engines/redis-server.ts';
import { type RangewayProcess, startConfigured, startRangeway } from '../support/processes/rangeway-process.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { sumOf } from '../support/values/metric-text.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

/** Larger than the memory of a machine. */
const sizeBytes = 2_000_000;
const contentOf = (version: number) => Buffer.from(patternBytes(0, sizeBytes, version));

type Machine = RangewayProcess & { readonly url: string };

/** Starts a server on the engine, with the given options of its store and others. The end of the test stops it. */
async function start(dir: string, engine: RedisServer, origin: string, store: object, more: object): Promise<Machine> {
  await mkdir(dir, { recursive: true });
  const machine = await startConfigured(dir, configOf(engine, origin, store, more), environment);
  onTestFinished(() => machine[Symbol.asyncDispose]());
  return machine;
}

const environment = { ...adminEnvironment, FLEET_SECRET: 'the secret of all machines of a test' };

const configOf = (engine: Pick<RedisServer, 'port'>, origin: string, store: object, more: object) => ({
  listen: '127.0.0.1:0',
  store: { type: 'redis', url: `redis://127.0.0.1:${engine.port}`, memoryBytes: '1MB', ...store },
  admin: adminConfig,
  log: { format: 'json' },
  fleet: { secret: 'env:FLEET_SECRET' },
  routes: [{ origin }],
  ...more,
});

async function read({ url }: Machine): Promise<Buffer> {
  const request = get(`${url}/film`, { agent: false, headers: { host: 'films.example' } });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return await buffer(response);
}

/** Returns how many blocks the engine has sent since the last call. */
async function countBlocks(engine: RedisServer): Promise<number> {
  const stats = String(await engine.command('INFO', 'commandstats'));
  await engine.command('CONFIG', 'RESETSTAT');
  return Number(/^cmdstat_get:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
}

/** Opens an origin with one file, whose version the test changes. */
async function openOrigin(): Promise<{ readonly url: string; version: number; count: number }> {
  const origin = { url: '', version: 1, count: 0 };
  const server = createServer((_, response) => {
    origin.count += 1;
    response.writeHead(200, {
      'cache-control': 'max-age=3600',
      'content-length': sizeBytes,
      etag: `"${origin.version}"`,
    });
    response.end(contentOf(origin.version));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    await once(server.close(), 'close');
  });
  origin.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return origin;
}

describeWithEngine('a server with a local disk before its engine', () => {
  it('reads from the engine once with all its workers, applies purges of others, and goes on after a kill', async () => {
    const dir = await temporaryDirectory();
    await using engine = await startRedisServer();
    const origin = await openOrigin();
    const near = await start(join(dir, 'near'), engine, origin.url, {}, {});
    const local = { dir: join(dir, 'local'), maxSizeBytes: '100MB' };
    const startFar = () => start(join(dir, 'far'), engine, origin.url, { local }, { workers: 2 });
    const far = await startFar();
    await far.waitFor(/storing in Redis or Valkey: 127\.0\.0\.1:\d+, database 0, with \S+\/local before it/);
    expect(await read(near)).toEqual(contentOf(1));
    await countBlocks(engine);

    const admin = await findAdmin(far);
    const metric = async (name: string) => sumOf((await admin('GET', '/metrics')).text, name);
    expect(await read(far)).toEqual(contentOf(1));
    await expect.poll(() => metric('rangeway_store_local_bytes')).toBeGreaterThan(sizeBytes);
    await countBlocks(engine);
    for (let time = 0; time < 4; time += 1) expect(await read(far)).toEqual(contentOf(1));
    expect(await countBlocks(engine)).toBe(0);
    expect(await metric('rangeway_store_local_hit_bytes_total')).toBeGreaterThan(2 * sizeBytes);
    expect(await metric('rangeway_store_local_writable')).toBe(1);
    expect(origin.count).toBe(1);

    origin.version = 2;
    const purging = await findAdmin(near);
    const order = { url: 'http://films.example/film' };
    expect(await purging('POST', '/api/v1/purge', order)).toMatchObject({ status: 200, json: { entries: 1 } });
    expect(await read(near)).toEqual(contentOf(2));
    expect(await read(far)).toEqual(contentOf(2));
    await expect.poll(() => metric('rangeway_store_local_bytes')).toBeGreaterThan(sizeBytes);

    await far.stop('SIGKILL');
    const again = await startFar();
    for (let time = 0; time < 2; time += 1) expect(await read(again)).toEqual(contentOf(2));
    await countBlocks(engine);
    for (let time = 0; time < 4; time += 1) expect(await read(again)).toEqual(contentOf(2));
    expect(await countBlocks(engine)).toBe(0);
    expect(origin.count).toBe(2);
  });
});

for (const workers of [1, 2]) {
  it(`a server whose local disk another process has does not start (workers: ${workers})`, async () => {
    const dir = await temporaryDirectory();
    const local = { dir: join(dir, 'local') };
    using _lock = await lockDirectory(local.dir);
    const file = join(dir, 'rangeway.json');
    // There is no engine at this port, which is no reason not to start.
    await writeFile(file, JSON.stringify(configOf({ port: 9 }, 'http://127.0.0.1:9', { local }, { workers })));
    await using server = startRangeway(['--config', file], environment);
    expect(await server.ended()).toBe(1);
    expect(server.output()).toContain(`cannot use ${local.dir}: it is in use by another process`);
  });
}
