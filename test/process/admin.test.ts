/** The admin listener of a server with one process, through the executable. */

import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { adminConfig, adminEnvironment, adminToken, findAdmin } from '../support/clients/admin-client.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { until } from '../support/clocks/until.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { startConfigured, startRangeway } from '../support/processes/rangeway-process.ts';

const root = await mkdtemp(join(tmpdir(), 'rangeway-admin-process-'));
afterAll(() => rm(root, { recursive: true, force: true }));

let directories = 0;
async function newDirectory(): Promise<string> {
  directories += 1;
  const dir = join(root, String(directories));
  await mkdir(dir);
  return dir;
}

const base = { listen: '127.0.0.1:0', store: { type: 'memory' }, log: { format: 'json' }, admin: adminConfig };

const small =
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\nETag: "a"\r\nCache-Tag: films\r\n\r\nbytes';

describe('the admin listener', () => {
  it('lists, inspects, purges and warms entries, and logs each purge', async () => {
    await using origin = await openScriptedOrigin(small);
    const config = { ...base, routes: [{ origin: origin.url }] };
    await using server = await startConfigured(await newDirectory(), config, adminEnvironment);
    const ask = await findAdmin(server);
    await (await fetch(`${server.url}/film`)).text();

    const listPath = `/api/v1/entries?url=${encodeURIComponent(`${server.url}/film`)}`;
    await until('the entry is stored', async () => (await ask('GET', listPath)).json.entries.length === 1);
    const { json: list } = await ask('GET', listPath);
    expect(list).toMatchObject({
      entries: [{ uri: `${server.url}/film`, sizeBytes: 5, isComplete: true, etag: '"a"' }],
    });
    const [{ key, generation }] = list.entries;
    const one = await ask('GET', `/api/v1/entries/${encodeURIComponent(generation)}?key=${encodeURIComponent(key)}`);
    expect(one.json).toMatchObject({ present: [{ start: 0, end: 5 }], presentBytes: 5 });

    expect((await ask('POST', '/api/v1/purge', { tag: 'films' })).json).toEqual({ entries: 1 });
    expect((await ask('GET', '/api/v1/entries')).json).toEqual({ entries: [] });
    await server.waitFor(/"action":"purge","peer":"127.0.0.1","msg":"1 entry removed: all with the tag films"/);

    const warmed = await ask('POST', '/api/v1/warm', { urls: [`${server.url}/film`] });
    expect(warmed.json.results).toMatchObject([{ status: 200, bytes: 5 }]);
    expect(origin.requests).toHaveLength(2);
    expect((await (await fetch(`${server.url}/film`)).text()).length).toBe(5);
    expect(origin.requests).toHaveLength(2);
    expect(server.output()).not.toContain(adminToken);
  });

  it('lists the origins, gives the metrics and the configuration, and sets the log level', async () => {
    await using origin = await openScriptedOrigin(small);
    const config = {
      ...base,
      routes: [
        {
          name: 'films',
          origin: origin.url,
          fields: {
            toOrigin: { set: { 'X-Key': 'hunter2' }, setSecret: { Authorization: 'env:RANGEWAY_TEST_SECRET' } },
          },
        },
      ],
    };
    const environment = { ...adminEnvironment, RANGEWAY_TEST_SECRET: 'Bearer hunter3' };
    await using server = await startConfigured(await newDirectory(), config, environment);
    const ask = await findAdmin(server);
    expect((await ask('GET', '/api/v1/origins')).json).toEqual({
      origins: [
        {
          route: 'films',
          url: `${origin.url}/`,
          worker: 1,
          health: 'well',
          ranges: 'unknown',
          requests: { streams: 0, fills: 0, unanswered: 0, waiting: 0 },
        },
      ],
    });
    const shown = await ask('GET', '/api/v1/config');
    expect(shown.json).toMatchObject({
      admin: { token: 'env:RANGEWAY_TEST_ADMIN_TOKEN' },
      routes: [{ name: 'films' }],
    });
    expect(shown.text).not.toMatch(new RegExp(`hunter|${adminToken}`));
    expect((await fetch(`${ask.url}/metrics`).then((response) => response.text())).length).toBeGreaterThan(1000);

    await (await fetch(`${server.url}/quiet`)).text();
    expect((await ask('PUT', '/api/v1/log', { level: 'debug' })).json).toEqual({ level: 'debug' });
    await (await fetch(`${server.url}/loud`)).text();
    await server.waitFor(/"level":"debug"[^\n]*\/loud/);
    expect(server.output()).not.toMatch(/"level":"debug"[^\n]*\/quiet/);
    expect((await ask('GET', '/api/v1/log')).json).toEqual({ level: 'debug' });
  });

  it('lists a running fill, and cancels it', async () => {
    await using origin = await openScriptedOrigin(async ({ send, closed }) => {
      await send('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: "a"\r\n\r\nhalf');
      await closed;
    });
    const config = { ...base, routes: [{ origin: origin.url, fill: { resumeAttempts: 0 } }] };
    await using server = await startConfigured(await newDirectory(), config, adminEnvironment);
    const ask = await findAdmin(server);
    const response = await fetch(`${server.url}/film`);
    const read = response.text().then(
      () => 'whole',
      () => 'cut',
    );
    let fill: { readonly id: string } | undefined;
    await until('the first bytes are received', async () => {
      const { json } = await ask('GET', '/api/v1/fills');
      [fill] = json.fills.filter((each: { readonly receivedBytes: number }) => each.receivedBytes === 4);
      return fill !== undefined;
    });
    expect(fill).toMatchObject({ uri: `${server.url}/film`, worker: 1, sizeBytes: 1_000_000, readers: 1 });
    expect((await ask('DELETE', `/api/v1/fills/${encodeURIComponent(fill?.id ?? '')}`)).status).toBe(204);
    expect(await read).toBe('cut');
    await origin.allClosed();
    expect((await ask('GET', '/api/v1/fills')).json).toEqual({ fills: [] });
    expect((await ask('DELETE', `/api/v1/fills/${encodeURIComponent(fill?.id ?? '')}`)).status).toBe(404);
    await server.waitFor(/"action":"cancel"/);
  });

  it('reports that the server is ready, and that it is not while it stops', async () => {
    const { promise: mayGoOn, resolve: release } = Promise.withResolvers<void>();
    await using origin = await openScriptedOrigin(async ({ send }) => {
      await send('HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf');
      await mayGoOn;
      await send('half');
    });
    const config = { ...base, routes: [{ origin: origin.url }] };
    await using server = await startConfigured(await newDirectory(), config, adminEnvironment);
    const ask = await findAdmin(server);
    expect(await ask('GET', '/readyz')).toMatchObject({ status: 200, json: { isReady: true, serving: 1 } });
    const response = await fetch(`${server.url}/slow`);
    const ended = server.stop('SIGTERM');
    await server.waitFor(/"stage":"stopping"/);
    expect(await ask('GET', '/readyz')).toMatchObject({
      status: 503,
      json: { isReady: false, reason: 'The server is stopping.', serving: 0 },
    });
    expect((await ask('GET', '/healthz')).status).toBe(200);
    release();
    expect(await response.text()).toBe('halfhalf');
    expect(await ended).toBe(0);
  });

  it('takes requests without a token on a Unix socket, which only its owner can open', async () => {
    const dir = await newDirectory();
    const config = { ...base, admin: { listen: 'unix:admin.sock' }, routes: [{ origin: 'http://127.0.0.1:1' }] };
    await using server = await startConfigured(dir, config);
    await server.waitFor(/administered on unix:/);
    const path = join(dir, 'admin.sock');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const status = await new Promise((resolve, reject) => {
      const asked = request({ socketPath: path, path: '/api/v1/status' }, (response) => {
        response.resume().once('end', () => resolve(response.statusCode));
      });
      asked.once('error', reject).end();
    });
    expect(status).toBe(200);
    expect(await server.stop('SIGTERM')).toBe(0);
    expect(await stat(path).catch(() => 'gone')).toBe('gone');
  });

  it('can be reached while the listeners of clients are full', async () => {
    const config = { ...base, limits: { connections: 1 }, routes: [{ origin: 'http://127.0.0.1:1' }] };
    await using server = await startConfigured(await newDirectory(), config, adminEnvironment);
    const ask = await findAdmin(server);
    const port = Number(new URL(server.url).port);
    await using held = await RawClient.open(port);
    held.send('GET / HTTP/1.1\r\n');
    await using refused = await RawClient.open(port);
    expect(await refused.closed).toBe('ECONNRESET');
    expect((await ask('GET', '/readyz')).status).toBe(200);
    expect((await ask('GET', '/api/v1/fills')).status).toBe(200);
  });

  it('reloads the configuration together with its own token: both, or neither', async () => {
    const dir = await newDirectory();
    const file = join(dir, 'rangeway.json');
    await writeFile(join(dir, 'token'), `${adminToken}\n`);
    const config = {
      ...base,
      admin: { ...adminConfig, token: 'file:token' },
      routes: [{ origin: 'http://127.0.0.1:1' }],
    };
    await using server = await startConfigured(dir, config);
    const ask = await findAdmin(server);
    const origins = async () => (await ask('GET', '/api/v1/origins')).json.origins[0].url;
    const moved = { ...config, routes: [{ origin: 'http://127.0.0.1:2' }] };

    await writeFile(file, JSON.stringify({ ...moved, routs: [] }));
    const refused = await ask('POST', '/api/v1/reload');
    expect([refused.status, refused.json.detail]).toEqual([422, expect.stringContaining('routs')]);
    await writeFile(file, JSON.stringify(moved));
    await writeFile(join(dir, 'token'), 'short');
    expect((await ask('POST', '/api/v1/reload')).status).toBe(422);
    expect(await origins()).toBe('http://127.0.0.1:1/');

    await writeFile(join(dir, 'token'), `${adminToken}-of-tomorrow`);
    expect((await ask('POST', '/api/v1/reload')).status).toBe(204);
    expect((await ask('GET', '/api/v1/origins')).status).toBe(401);
    await writeFile(join(dir, 'token'), adminToken);
    process.kill(server.pid, 'SIGHUP');
    await until('the old token is valid again', async () => (await ask('GET', '/api/v1/log')).status === 200);
    expect(await origins()).toBe('http://127.0.0.1:2/');
  });

  it('takes only the host names that are configured', async () => {
    const config = {
      ...base,
      admin: { ...adminConfig, hosts: ['admin.test'] },
      routes: [{ origin: 'http://127.0.0.1:1' }],
    };
    await using server = await startConfigured(await newDirectory(), config, adminEnvironment);
    const { url } = await findAdmin(server);
    const statusAs = (host: string) =>
      new Promise((resolve, reject) => {
        const asked = request(`${url}/healthz`, { headers: { host } }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode));
        });
        asked.once('error', reject).end();
      });
    expect([await statusAs('admin.test'), await statusAs('evil.test')]).toEqual([200, 421]);
  });
});

describe('an admin listener that cannot be opened', () => {
  it.each<[why: string, admin: object, environment: NodeJS.ProcessEnv, want: RegExp]>([
    [
      'without its token',
      adminConfig,
      { RANGEWAY_TEST_ADMIN_TOKEN: '' },
      /^rangeway: cannot start: the secret env:RANGEWAY_TEST_ADMIN_TOKEN is empty\n$/,
    ],
    [
      'with a token that could be guessed',
      adminConfig,
      { RANGEWAY_TEST_ADMIN_TOKEN: 'hunter2' },
      /^rangeway: cannot start: the secret env:RANGEWAY_TEST_ADMIN_TOKEN cannot be used: the token has fewer than 16 characters\n$/,
    ],
    [
      'in a directory that does not exist',
      { listen: 'unix:none/admin.sock' },
      {},
      /^rangeway: cannot listen on unix:\S+\/none\/admin\.sock: there is no directory \S+\/none\n$/,
    ],
  ])('%s: nothing is served, and one line gives the reason', async (_why, admin, environment, want) => {
    const file = join(await newDirectory(), 'rangeway.json');
    await writeFile(file, JSON.stringify({ ...base, admin, routes: [{ origin: 'http://127.0.0.1:1' }] }));
    await using refused = startRangeway(['--config', file], environment);
    expect(await refused.ended()).toBe(1);
    expect(refused.output()).toMatch(want);
  });

  it('on a port in use: nothing is served, and one line gives the reason', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const file = join(await newDirectory(), 'rangeway.json');
    const admin = { listen: `127.0.0.1:${port}` };
    await writeFile(file, JSON.stringify({ ...base, admin, routes: [{ origin: 'http://127.0.0.1:1' }] }));
    await using refused = startRangeway(['--config', file]);
    expect(await refused.ended()).toBe(1);
    const want = `rangeway: cannot listen on 127.0.0.1:${port}: the port is in use; choose another with --admin\n`;
    expect(refused.output()).toBe(want);
    await new Promise((resolve) => server.close(resolve));
  });
});
