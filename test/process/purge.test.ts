/** PURGE requests through the executable: the options of a configuration file, over TCP and over a Unix socket. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

const all = ['url', 'prefix', 'tag'];
/** The options of the routes, by the first segment of their paths. */
const routes: Record<string, object> = {
  open: { purge: { peers: ['127.0.0.0/8'], by: all } },
  url: { purge: { peers: ['127.0.0.1'] } },
  named: { purge: { peers: ['192.0.2.1'], by: all } },
  plain: {},
  locked: { purge: { peers: ['127.0.0.1'] }, access: { bearer: 'file:tokens.txt' } },
  socket: { purge: { peers: ['unix'] } },
};
const token = 'a-token-of-more-than-enough-characters';

const asked: string[] = [];
let origin: Server;
let rangeway: RangewayProcess;
let dir: string;
let port: number;

beforeAll(async () => {
  origin = createServer(({ method, url = '', headers }, response) => {
    asked.push(`${method} ${url}${headers['if-none-match'] === undefined ? '' : ' again'}`);
    if (headers['if-none-match'] === '"v"') return void response.writeHead(304, { etag: '"v"' }).end();
    const fields = { 'cache-control': 'max-age=600', etag: '"v"', 'surrogate-key': 'all', 'cache-tag': url };
    response.writeHead(200, { ...fields, 'content-length': 4 }).end('body');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  dir = await mkdtemp(join(tmpdir(), 'rangeway-purge-'));
  await writeFile(join(dir, 'tokens.txt'), `app:${token}\n`, { mode: 0o600 });
  const config = {
    listen: ['127.0.0.1:0', 'unix:rangeway.sock'],
    store: { dir: join(dir, 'store') },
    log: { format: 'json', level: 'info' },
    routes: Object.entries(routes).map(([name, options]) => ({
      match: { pathPrefix: `/${name}` },
      ...options,
      origin: { url },
    })),
  };
  const started = await startConfigured(dir, config);
  rangeway = started;
  port = Number(new URL(started.url).port);
});
afterAll(async () => {
  expect(await rangeway.stop('SIGTERM')).toBe(0);
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

async function send(line: string, lines: readonly string[] = [], place: number | string = port) {
  await using client = await RawClient.open(place);
  const head = [`${line} HTTP/1.1`, 'Host: files.test', ...lines, 'Connection: close'];
  const response = await client.exchange(`${head.join('\r\n')}\r\n\r\n`);
  return { ...response, text: response.body.toString(), cacheStatus: rawValues(response, 'cache-status').join() };
}

/** Returns whether a path is served from the store. A miss stores it. */
async function isStored(path: string, lines: readonly string[] = []): Promise<boolean> {
  const { status, cacheStatus } = await send(`GET ${path}`, lines);
  expect(status).toBe(200);
  return /; hit/.test(cacheStatus);
}

async function store(...paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await isStored(path);
    expect(await isStored(path)).toBe(true);
  }
}

describe('PURGE', () => {
  it('removes the entry of its URL, for a peer in the list', async () => {
    await store('/open/a', '/open/b');
    const before = asked.length;
    const purged = await send('PURGE /open/a');
    expect([purged.status, JSON.parse(purged.text)]).toEqual([200, { purged: 1 }]);
    expect(rawValues(purged, 'content-type')).toEqual(['application/json']);
    expect(asked).toHaveLength(before);
    expect(await isStored('/open/b')).toBe(true);
    expect(await isStored('/open/a')).toBe(false);
    await rangeway.waitFor(/"event":"admin"[^\n]*"action":"purge"[^\n]*purged 1: http:\/\/files\.test\/open\/a/);
    expect((await send('PURGE /open/none')).text).toBe('{"purged":0}\n');
  });

  it('removes by prefix and by tag, and expires with Rangeway-Purge: soft', async () => {
    await store('/open/x/1', '/open/x/2', '/plain/y');
    expect((await send('PURGE /open/x/', ['Rangeway-Purge: prefix'])).text).toBe('{"purged":2}\n');
    expect(await isStored('/open/x/1')).toBe(false);
    await store('/open/x/1');
    expect((await send('PURGE /open/', ['Cache-Tag: /open/x/1, /plain/y'])).text).toBe('{"purged":2}\n');
    expect(await isStored('/open/x/1')).toBe(false);
    expect(await isStored('/plain/y')).toBe(false);
    await store('/open/soft');
    expect((await send('PURGE /open/', ['Surrogate-Key: all', 'Rangeway-Purge: soft'])).status).toBe(200);
    expect(await isStored('/open/soft')).toBe(false);
    expect(asked.at(-1)).toBe('GET /open/soft again');
    expect(await isStored('/open/soft')).toBe(true);
  });

  it.each<[string, string, readonly string[], number]>([
    ['a peer that is not in the list', '/named/a', [], 403],
    ['a peer that claims a listed address', '/named/a', ['X-Forwarded-For: 192.0.2.1'], 403],
    ['a client behind a listed peer', '/url/a', ['X-Forwarded-For: 192.0.2.1'], 403],
    ['a tag where the route allows only URLs', '/url/a', ['Cache-Tag: /url/a'], 403],
    ['a prefix where the route allows only URLs', '/url/a', ['Rangeway-Purge: prefix'], 403],
    ['a request without the credentials of the route', '/locked/a', [], 401],
    ['an unknown mode', '/open/a', ['Rangeway-Purge: all'], 400],
  ])('is refused: %s on %s %j', async (_what, path, lines, status) => {
    const authorization = path.startsWith('/locked') ? [`Authorization: Bearer ${token}`] : [];
    await isStored(path, authorization);
    const before = asked.length;
    const refused = await send(`PURGE ${path}`, lines);
    expect(refused.status).toBe(status);
    expect(rawValues(refused, 'content-type')).toEqual(['application/problem+json']);
    expect(await isStored(path, authorization)).toBe(true);
    expect(asked).toHaveLength(before);
  });

  it('is accepted with the credentials that the route requires', async () => {
    expect((await send('PURGE /locked/a', [`Authorization: Bearer ${token}`])).status).toBe(200);
  });

  it('is accepted from peers of a Unix socket where "unix" is in the list', async () => {
    await store('/socket/a');
    expect((await send('PURGE /socket/a')).status).toBe(403);
    const purged = await send('PURGE /socket/a', [], join(dir, 'rangeway.sock'));
    expect(purged.text).toBe('{"purged":1}\n');
    expect(await isStored('/socket/a')).toBe(false);
  });

  it('goes to the origin where the route has no list of peers', async () => {
    await send('PURGE /plain/a');
    expect(asked.at(-1)).toBe('PURGE /plain/a');
  });

  it('is the only purge method: BAN gets a 501', async () => {
    await store('/open/a');
    expect((await send('BAN /open/a')).status).toBe(501);
    expect(await isStored('/open/a')).toBe(true);
  });
});
