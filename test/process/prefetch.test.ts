/** `fill.prefetch`, from the configuration file to the requests at the origin: on one route, off on another, on after a reload. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

let origin: Server;
let originUrl: string;
let dir: string;
let rangeway: RangewayProcess & { readonly url: string };
/** The paths that the origin was asked for. */
const asked: string[] = [];

const playlist = ['#EXTM3U', ...[1, 2, 3, 4, 5, 6].map((at) => `${at}.ts`), '#EXT-X-ENDLIST'].join('\n');

function configOf(prefetched: Record<string, object | undefined>): object {
  return {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    log: { format: 'json', level: 'debug' },
    routes: Object.entries(prefetched).map(([name, prefetch]) => ({
      match: { pathPrefix: `/${name}` },
      origin: originUrl,
      fill: { prefetch },
    })),
  };
}

beforeAll(async () => {
  origin = createServer((request, response) => {
    asked.push(request.url ?? '');
    const isPlaylist = request.url?.endsWith('.m3u8') === true;
    response.setHeader('cache-control', 'max-age=600').end(isPlaylist ? playlist : Buffer.alloc(100_000));
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  dir = await mkdtemp(join(tmpdir(), 'rangeway-prefetch-'));
  rangeway = await startConfigured(dir, configOf({ film: { segments: 1 }, plain: undefined }));
});
afterAll(async () => {
  expect(await rangeway.stop('SIGTERM')).toBe(0);
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

/** Gets a path; returns its Cache-Status. */
async function get(path: string): Promise<string | null> {
  const response = await fetch(rangeway.url + path);
  await response.arrayBuffer();
  expect(response.status).toBe(200);
  return response.headers.get('cache-status');
}

/** Gets a path until `wanted` was requested from the origin too: the playlist is read in the background. */
async function getUntil(path: string, wanted: string): Promise<void> {
  const attempt = async () => {
    await get(path);
    return asked;
  };
  await expect.poll(attempt).toContain(wanted);
}

it('is on where the route says so, and a reload changes it', async () => {
  for (const route of ['plain', 'film']) await get(`/${route}/index.m3u8`);
  for (const at of [1, 2, 3]) await get(`/plain/${at}.ts`);
  await getUntil('/film/1.ts', '/film/2.ts');
  await rangeway.waitFor(
    /"event":"prefetch","key":"[^"]*\/film\/2\.ts","route":"\*\/film","result":"fetched","bytes":100000/,
  );
  expect(await get('/film/2.ts')).toMatch(/^rangeway; hit; ttl=\d+$/);
  await rangeway.waitFor(/"event":"prefetch","key":"[^"]*\/film\/2\.ts","route":"\*\/film","result":"used"/);
  await getUntil('/film/2.ts', '/film/3.ts');
  expect(asked.filter((path) => path.startsWith('/plain/'))).toEqual([
    '/plain/index.m3u8',
    '/plain/1.ts',
    '/plain/2.ts',
    '/plain/3.ts',
  ]);
  expect(asked).not.toContain('/film/4.ts');

  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(configOf({ film: undefined, plain: { segments: 2 } })));
  process.kill(rangeway.pid, 'SIGHUP');
  await rangeway.waitFor(/reloaded: serving/);
  await get('/plain/index.m3u8');
  await getUntil('/plain/3.ts', '/plain/5.ts');
  await get('/film/3.ts');
  expect(asked).toContain('/plain/4.ts');
  expect(asked).not.toContain('/film/4.ts');
});
