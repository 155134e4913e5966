/** The size limits of a disk store, from the configuration file to the files in its directory. */

import { once } from 'node:events';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startRangeway } from '../support/processes/rangeway-process.ts';
import { bodyFiles } from '../support/stores/disk-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 200_000;
const body = patternBytes(0, size);

let origin: Server;
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-limits-'));
  origin = createServer((_, response) => {
    response.writeHead(200, { etag: '"v1"', 'cache-control': 'max-age=600', 'content-length': size });
    response.end(body);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});
afterEach(async () => {
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

async function start(store: object) {
  const config = {
    listen: '127.0.0.1:0',
    store: { dir: join(dir, 'store'), memoryBytes: '1MB', ...store },
    log: { format: 'json', level: 'debug' },
    routes: [{ origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}` }],
  };
  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(config));
  const rangeway = startRangeway(['--config', join(dir, 'rangeway.json')]);
  const [, base = ''] = await rangeway.waitFor(/ready on (http:[^\s",]+),/);
  const ask = async (path: string) => {
    const response = await fetch(base + path);
    expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true);
    return response.headers.get('cache-status') ?? '';
  };
  return { rangeway, ask };
}

/** Returns the bytes that the bodies occupy on the disk. A body that is removed meanwhile counts as 0. */
async function occupiedBytes(): Promise<number> {
  const files = await Promise.all(
    (await bodyFiles(join(dir, 'store'))).map((path) => stat(path).catch(() => undefined)),
  );
  return files.reduce((sum, file) => sum + (file?.blocks ?? 0) * 512, 0);
}

it('a store never exceeds maxSizeBytes, is evicted down to lowWaterPercent, and keeps recent entries', async () => {
  const { rangeway, ask } = await start({ maxSizeBytes: '2MB', lowWaterPercent: 50 });
  for (let file = 0; file < 30; file += 1) {
    await ask(`/${file}`);
    expect(await occupiedBytes()).toBeLessThanOrEqual(2_000_000);
  }
  await rangeway.waitFor(/"event":"fill"[^\n]*\/29"[^\n]*"result":"stored"/);
  expect(await ask('/29')).toMatch(/; hit/);
  expect(await ask('/0')).not.toMatch(/; hit/);
  const counts = new Set<number>();
  for (let file = 30; file < 45; file += 1) {
    await ask(`/${file}`);
    counts.add(await occupiedBytes());
  }
  // Each time the store was full, eviction has brought it down to half.
  expect(Math.min(...counts)).toBeLessThanOrEqual(1_500_000);
  expect(await rangeway.stop('SIGTERM')).toBe(0);
});

it('a store keeps nothing where minFreeBytes are not free: all bodies are relayed', async () => {
  const { rangeway, ask } = await start({ minFreeBytes: '1000TB' });
  for (let asked = 0; asked < 3; asked += 1) expect(await ask('/a')).not.toMatch(/; hit/);
  expect(await occupiedBytes()).toBe(0);
  expect(await rangeway.stop('SIGTERM')).toBe(0);
});
