/** Several servers that share a store in a real engine, as on several machines: one fill, purges, and every part that may fail. */

import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { Download } from '../support/clients/download.ts';
import { PatternDownload } from '../support/clients/pattern-download.ts';
import { until } from '../support/clocks/until.ts';
import {
  describeWithEngine,
  type RedisServer,
  replicate,
  startRedisCluster,
  startRedisSentinel,
  startRedisServer,
  untilFollowing,
} from '../support/engines/redis-server.ts';
import { openTcpRelay } from '../support/engines/tcp-relay.ts';
import { openCountingOrigin } from '../support/origins/counting-origin.ts';
import { SlowFileOrigin } from '../support/origins/slow-file-origin.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

/** RANGEWAY_COLD_FILE_BYTES=1073741824 takes about five minutes: a hundred clients get each byte. */
const { RANGEWAY_COLD_FILE_BYTES: askedBytes = 4 * 1024 * 1024 } = process.env;
const coldBytes = Number(askedBytes);
const fileBytes = 8_000_000;

let dir: string;
let machines: Machine[];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-machines-'));
  machines = [];
  await writeFile(join(dir, 'secret'), 'the secret of all machines of a test\n');
});
afterEach(async () => {
  await Promise.all(machines.map((machine) => machine[Symbol.asyncDispose]()));
  await rm(dir, { recursive: true, force: true });
});

type Machine = RangewayProcess & { readonly url: string };

/** Starts one server. `store` says where its engine is. */
async function start(
  origin: string,
  store: object,
  more: Readonly<Record<string, unknown>> & { fleet?: object } = {},
): Promise<Machine> {
  const own = join(dir, `machine-${machines.length + 1}`);
  await mkdir(own);
  const machine = await startConfigured(
    own,
    {
      listen: '127.0.0.1:0',
      store: { type: 'redis', memoryBytes: '32MB', ...store },
      admin: adminConfig,
      log: { format: 'json', level: 'debug' },
      routes: [{ origin }],
      ...more,
      fleet: { secret: `file:${join(dir, 'secret')}`, ...more.fleet },
    },
    adminEnvironment,
  );
  machines.push(machine);
  return machine;
}

const at = (port: number) => ({ url: `redis://127.0.0.1:${port}` });

/** The site that all machines serve. With the names of the machines in the keys, each would store its own copy. */
const headers = { host: 'files.example' };
const site = 'http://files.example';

async function read(
  machine: Machine,
  path: string,
  fields: Readonly<Record<string, string>> = {},
  method = 'GET',
): Promise<{ status: number; text: string; cacheStatus: string; retryAfter: string | undefined }> {
  const request = get(machine.url + path, { method, agent: false, headers: { ...headers, ...fields } });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const text = (await buffer(response)).toString('latin1');
  const { 'cache-status': cacheStatus, 'retry-after': retryAfter } = response.headers;
  return { status: response.statusCode ?? 0, text, cacheStatus: String(cacheStatus), retryAfter };
}

const isAway = /the engine of the store is away/;
const isBack = /the engine of the store is back/;

/** Expects every download to end with the whole file. */
async function expectAll(downloads: readonly PatternDownload[]): Promise<void> {
  expect(await Promise.all(downloads.map(({ ended }) => ended))).toEqual(downloads.map(() => fileBytes));
}

/** Starts downloads of the file at each machine, and waits until all have most of the first half, where the origin waits. */
async function downloadHalves(count: number): Promise<PatternDownload[]> {
  const downloads = machines.flatMap(({ url }) =>
    Array.from({ length: count }, () => new PatternDownload(`${url}/file`, headers)),
  );
  await until('all have the first half', async () => downloads.every(({ bytes }) => bytes > fileBytes / 2 - 600_000));
  return downloads;
}

/** Waits until all machines together fetch a file once. */
async function untilShared(origin: SlowFileOrigin): Promise<void> {
  let count = 0;
  await until('the machines share one fill again', async () => {
    count += 1;
    const asked = origin.questions.length;
    await Promise.all(machines.map((machine) => read(machine, `/later-${count}`)));
    return origin.questions.length === asked + 1;
  });
}

describeWithEngine('a cold file that a hundred clients of three machines want', () => {
  it('is fetched once, and every client gets every byte', { timeout: 60_000 + coldBytes / 1000 }, async () => {
    await using engine = await startRedisServer();
    await using origin = await openCountingOrigin('parts', coldBytes);
    // The clients leave the engine little processor time.
    const store = { ...at(engine.port), commandTimeoutSeconds: 30 };
    for (let count = 0; count < 3; count += 1) await start(origin.url, store);
    const downloads = Array.from(
      { length: 100 },
      (_, index) => new Download(`${machines[index % 3]?.url}/file`, { headers }),
    );
    const done = await Promise.all(downloads.map(({ ended }) => ended));
    expect(done.map(({ status, bytes }) => [status, bytes])).toEqual(downloads.map(() => [200, coldBytes]));
    expect(origin.bytes / coldBytes).toBe(1);
    expect(origin.asked.map(({ range }) => range)).toEqual([undefined]);
    for (const machine of machines) {
      expect((await read(machine, '/file', { range: 'bytes=0-9' })).cacheStatus).toContain('hit');
    }
  });

  it('is fetched once by the workers of two machines, too', async () => {
    await using engine = await startRedisServer();
    await using origin = await openCountingOrigin('parts', fileBytes);
    for (let count = 0; count < 2; count += 1) await start(origin.url, at(engine.port), { workers: 2 });
    const downloads = Array.from(
      { length: 40 },
      (_, index) => new Download(`${machines[index % 2]?.url}/file`, { headers }),
    );
    await Promise.all(downloads.map(({ ended }) => ended));
    expect(origin.bytes / fileBytes).toBe(1);
  });
});

describeWithEngine('a machine that is killed in the middle of a fill', () => {
  it('is succeeded by another one, which fetches only what is absent', async () => {
    await using engine = await startRedisServer();
    await using origin = await SlowFileOrigin.open(fileBytes, { hasRanges: true, hasValidator: true });
    for (let count = 0; count < 3; count += 1) await start(origin.url, at(engine.port));
    const first = new PatternDownload(`${machines[0]?.url}/file`, headers);
    await until('the first machine fetches', async () => first.bytes > 0);
    const downloads = (await downloadHalves(4)).slice(4);
    await machines[0]?.stop('SIGKILL');
    await expectAll(downloads);
    expect(origin.questions.map(({ asked }) => asked)).toEqual([
      'whole',
      expect.stringMatching(/^bytes=[1-9]\d{6}- if "v1"$/),
    ]);
  });
});

describeWithEngine('a machine that hangs in the middle of a fill', () => {
  it('is succeeded by another one, and changes nothing of what that has stored when it wakes up', async () => {
    await using engine = await startRedisServer();
    await using origin = await SlowFileOrigin.open(fileBytes, { hasRanges: true, hasValidator: true });
    for (let count = 0; count < 2; count += 1) await start(origin.url, at(engine.port));
    const first = new PatternDownload(`${machines[0]?.url}/file`, headers);
    await until('the first machine fetches', async () => first.bytes > 0);
    const downloads = await downloadHalves(2);
    const hanging = machines[0]?.pid ?? 0;
    process.kill(hanging, 'SIGSTOP');
    try {
      // They belong to the machine that goes on.
      await expectAll(downloads.slice(2));
    } finally {
      process.kill(hanging, 'SIGCONT');
    }
    origin.goOn();
    await expectAll([first, ...downloads]);
    const asked = origin.questions.length;
    for (const machine of machines) expect((await read(machine, '/file')).cacheStatus).toContain('hit');
    expect(origin.questions).toHaveLength(asked);
  });
});

describeWithEngine('an engine that is paused in the middle of a fill', () => {
  it('keeps no client from being served, and is used again afterwards', async () => {
    await using engine = await startRedisServer();
    await using origin = await SlowFileOrigin.open(fileBytes, { hasRanges: true, hasValidator: true });
    for (let count = 0; count < 2; count += 1) await start(origin.url, at(engine.port));
    const downloads = await downloadHalves(4);
    engine.signal('SIGSTOP');
    await Promise.all(machines.map((machine) => machine.waitFor(isAway)));
    origin.goOn();
    expect((await read(machines[1] as Machine, '/another')).status).toBe(200);
    await expectAll(downloads);
    engine.signal('SIGCONT');
    await untilShared(origin);
  });
});

describeWithEngine('a machine that is cut off from the engine', () => {
  it('serves on, and applies a purge that it has missed as soon as it is back', async () => {
    await using engine = await startRedisServer();
    await using relay = await openTcpRelay(engine.port);
    let text = 'old';
    await using origin = await openTextOrigin(() => text);
    const near = await start(origin.url, at(engine.port));
    const far = await start(origin.url, at(relay.port));
    const page = async (machine: Machine) => (await read(machine, '/page')).text;
    expect([await page(near), await page(far)]).toEqual(['old', 'old']);
    relay.cut();
    await far.waitFor(isAway);
    expect(await page(far)).toBe('old');
    expect((await read(far, '/other')).status).toBe(200);
    text = 'new';
    const admin = await findAdmin(near);
    expect(await admin('POST', '/api/v1/purge', { url: `${site}/page` })).toMatchObject({ status: 200 });
    expect(await page(near)).toBe('new');
    relay.heal();
    await far.waitFor(isBack);
    expect(await page(far)).toBe('new');
  });

  it('in the middle of a fill, gives its clients and those of others every byte', async () => {
    await using engine = await startRedisServer();
    await using relay = await openTcpRelay(engine.port);
    await using origin = await SlowFileOrigin.open(fileBytes, { hasRanges: true, hasValidator: true });
    const far = await start(origin.url, at(relay.port));
    const first = new PatternDownload(`${far.url}/file`, headers);
    await until('the machine fetches', async () => first.bytes > 0);
    await start(origin.url, at(engine.port));
    const downloads = await downloadHalves(4);
    relay.cut();
    await far.waitFor(isAway);
    origin.goOn();
    await expectAll([first, ...downloads]);
    relay.heal();
    await far.waitFor(isBack);
    for (const machine of machines) expect((await read(machine, '/file')).status).toBe(200);
  });
});

/** Waits until the engine has not heard of one of the machines for so long. */
async function untilSilent(engine: RedisServer, silentMs: number): Promise<void> {
  await until('a machine is silent', async () => {
    const [key = ''] = (await engine.command('KEYS', '*members*')) as string[];
    const seen = (await engine.command('HVALS', key)) as string[];
    const [seconds, microseconds] = ((await engine.command('TIME')) as string[]).map(Number) as [number, number];
    const now = seconds * 1000 + microseconds / 1000;
    return seen.some((text) => now - Number(text.split(' ')[1]) > silentMs);
  });
}

describeWithEngine('a machine that was suspended', () => {
  it('while it stored files applies purges when it wakes up, gives every byte, and stops in order', async () => {
    await using engine = await startRedisServer();
    let text = 'old';
    const going = Promise.withResolvers<void>();
    await using origin = await openTextOrigin(() => text, going.promise);
    const near = await start(origin.url, at(engine.port));
    const hanging = await start(origin.url, at(engine.port));
    expect((await read(hanging, '/page')).text).toBe('old');
    const files = Array.from({ length: 5 }, (_, index) => read(hanging, `/slow-${index}`));
    await until('all are being fetched', async () => origin.held() === files.length);
    process.kill(hanging.pid, 'SIGSTOP');
    const admin = await findAdmin(near);
    text = 'new';
    const purged = admin('POST', '/api/v1/purge', { url: `${site}/page` });
    going.resolve();
    await untilSilent(engine, 2_000);
    process.kill(hanging.pid, 'SIGCONT');
    expect((await Promise.all(files)).map((file) => [file.status, file.text.length])).toEqual(
      files.map(() => [200, slowBytes]),
    );
    expect(await purged).toMatchObject({ status: 200 });
    expect((await read(hanging, '/page')).text).toBe('new');
    text = 'newer';
    expect(await admin('POST', '/api/v1/purge', { url: `${site}/page` })).toMatchObject({ status: 200 });
    expect((await read(hanging, '/page')).text).toBe('newer');
    expect(await hanging.stop('SIGTERM')).toBe(0);
  });

  it('for longer than others wait for it answers nothing older when it wakes up', async () => {
    await using engine = await startRedisServer();
    let text = 'old';
    await using origin = await openTextOrigin(() => text);
    const near = await start(origin.url, at(engine.port));
    const hanging = await start(origin.url, at(engine.port));
    expect((await read(hanging, '/page')).text).toBe('old');
    expect((await read(hanging, '/page')).cacheStatus).toContain('hit');
    process.kill(hanging.pid, 'SIGSTOP');
    text = 'new';
    const admin = await findAdmin(near);
    expect(await admin('POST', '/api/v1/purge', { url: `${site}/page` })).toMatchObject({ status: 200 });
    const waiting = Array.from({ length: 20 }, () => read(hanging, '/page'));
    process.kill(hanging.pid, 'SIGCONT');
    const texts = (await Promise.all(waiting)).map((answer) => answer.text);
    expect(texts).toEqual(texts.map(() => 'new'));
  });
});

describeWithEngine('a purge that is answered while a machine returns', () => {
  it('has reached all others, or has failed', async () => {
    await using engine = await startRedisServer();
    await using relay = await openTcpRelay(engine.port);
    let text = '0';
    await using origin = await openTextOrigin(() => text);
    const near = await start(origin.url, at(engine.port));
    const far = await start(origin.url, at(relay.port));
    const admin = await findAdmin(far);
    const purge = (path: string) => admin('POST', '/api/v1/purge', { url: site + path });
    await read(near, '/page');
    relay.cut();
    await far.waitFor(isAway);
    const failed = await Promise.all(Array.from({ length: 40 }, (_, index) => purge(`/before-${index}`)));
    expect(failed.every(({ status }) => status === 503)).toBe(true);
    relay.heal();
    for (let count = 1, told = 0; told < 20; count += 1) {
      text = String(count);
      const { status } = await purge('/page');
      if (status === 200) told += 1;
      if (status === 200) expect((await read(near, '/page')).text).toBe(text);
      else await read(near, '/page');
    }
  });
});

describeWithEngine('an unsafe request to a machine that is cut off', () => {
  it('is answered with a pending invalidation, which the others apply when the machine is back', async () => {
    await using engine = await startRedisServer();
    await using relay = await openTcpRelay(engine.port);
    let text = 'old';
    await using origin = await openTextOrigin(() => text);
    const near = await start(origin.url, at(engine.port));
    const far = await start(origin.url, at(relay.port));
    expect((await read(near, '/page')).text).toBe('old');
    relay.cut();
    await far.waitFor(isAway);
    text = 'new';
    const changed = await read(far, '/page', {}, 'PUT');
    expect([changed.status, changed.cacheStatus]).toEqual([200, expect.stringContaining('invalidation-pending')]);
    expect((await read(near, '/page')).text).toBe('old');
    relay.heal();
    await until('the others are told', async () => (await read(near, '/page')).text === 'new');
    expect((await read(far, '/page', {}, 'PUT')).cacheStatus).not.toContain('pending');
  });

  it('is refused where the operator wants that, until the machine is back', async () => {
    await using engine = await startRedisServer();
    await using relay = await openTcpRelay(engine.port);
    await using origin = await openTextOrigin(() => 'text');
    const far = await start(origin.url, at(relay.port), { fleet: { unsafeWhileAway: 'refuse' } });
    expect((await read(far, '/page', {}, 'DELETE')).status).toBe(200);
    relay.cut();
    await far.waitFor(isAway);
    const asked = origin.asked();
    const refused = await read(far, '/page', {}, 'DELETE');
    expect([refused.status, refused.retryAfter, origin.asked()]).toEqual([503, '1', asked]);
    expect((await read(far, '/page')).status).toBe(200);
    relay.heal();
    await far.waitFor(isBack);
    expect((await read(far, '/page', {}, 'DELETE')).status).toBe(200);
  });
});

describeWithEngine('an engine that takes no writes', () => {
  const states: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    ['is full', ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0']],
    ['is a replica', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE']],
  ];
  for (const [name, begin, end] of states) {
    it(`because it ${name} fails purges, hard and soft, which reach all machines later`, async () => {
      await using engine = await startRedisServer();
      let text = 'old';
      await using origin = await openTextOrigin(() => text);
      const [one, other] = [await start(origin.url, at(engine.port)), await start(origin.url, at(engine.port))];
      for (const path of ['/hard', '/soft']) for (const each of machines) await read(each, path);
      text = 'new';
      await engine.command(...begin);
      const admin = await findAdmin(one);
      const purge = (path: string, mode: string) => admin('POST', '/api/v1/purge', { url: site + path, mode });
      try {
        expect(await purge('/hard', 'hard')).toMatchObject({ status: 503 });
        expect(await purge('/soft', 'soft')).toMatchObject({ status: 503 });
      } finally {
        await engine.command(...end);
      }
      for (const path of ['/hard', '/soft'])
        await until('the purge is applied', async () => (await read(other, path)).text === 'new');
    });
  }
});

describeWithEngine('a machine without the secret of the fleet', () => {
  it('does not start beside another one, and tells people what to do', async () => {
    await using engine = await startRedisServer();
    await using origin = await openTextOrigin(() => 'text');
    await start(origin.url, at(engine.port));
    const alone = start(origin.url, at(engine.port), { fleet: { secret: undefined } });
    await expect(alone).rejects.toThrow(/cannot start: another node uses this store.*fleet\.secret.*openssl rand/);
  });

  it('starts alone, also after it was killed, with several workers', async () => {
    await using engine = await startRedisServer();
    await using origin = await openTextOrigin(() => 'text');
    const none = { fleet: { secret: undefined }, workers: 2 };
    await (await start(origin.url, at(engine.port), none)).stop('SIGKILL');
    const again = await start(origin.url, at(engine.port), none);
    expect((await read(again, '/page')).text).toBe('text');
  });
});

describeWithEngine('a purge', () => {
  it('by URL, prefix or tag has reached the memory of every machine when it is answered', async () => {
    await using engine = await startRedisServer();
    let version = 1;
    await using origin = await openTextOrigin(() => `version ${version}`);
    for (let count = 0; count < 3; count += 1) await start(origin.url, at(engine.port));
    const [first] = machines as [Machine];
    const admin = await findAdmin(first);
    const readAll = () => Promise.all(machines.map(async (machine) => (await read(machine, '/page')).text));
    const orders = [{ url: `${site}/page` }, { prefix: `${site}/` }, { tag: 'pages' }];
    for (const order of orders) {
      for (let round = 0; round < 2; round += 1) expect(await readAll()).toEqual(Array(3).fill(`version ${version}`));
      version += 1;
      expect(await admin('POST', '/api/v1/purge', order)).toMatchObject({ status: 200, json: { entries: 1 } });
    }
    expect(await readAll()).toEqual(Array(3).fill(`version ${version}`));
    // No purge has waited for a machine that counted as away.
    for (const machine of machines) expect(machine.output()).not.toMatch(isAway);
  });
});

describeWithEngine('an engine whose master fails over', () => {
  it('costs no client a byte', async () => {
    await using engines = await startRedisSentinel();
    await using origin = await SlowFileOrigin.open(fileBytes, { hasRanges: true, hasValidator: true });
    const { host, port } = engines.sentinel;
    const store = { sentinels: [`${host}:${port}`], sentinelMaster: 'main' };
    for (let count = 0; count < 2; count += 1) await start(origin.url, store);
    const downloads = await downloadHalves(4);
    await engines.master.kill();
    origin.goOn();
    await expectAll(downloads);
    await untilShared(origin);
  });
});

describeWithEngine('a Cluster in which a master fails over while it is filled', () => {
  it('costs no client a byte, neither by an orderly change nor by the death of the master', async () => {
    await using cluster = await startRedisCluster();
    await using origin = await SlowFileOrigin.open(fileBytes, { hasRanges: true, hasValidator: true });
    const store = { cluster: cluster.nodes.map(({ host, port }) => `${host}:${port}`) };
    const joining = cluster.join();
    for (let count = 0; count < 2; count += 1) await start(origin.url, store);
    const downloads = await downloadHalves(4);
    const first = await serverWithBlocks(cluster.servers);
    const second = await joining;
    await replicate(second, first, cluster.servers);
    await second.command('CLUSTER', 'FAILOVER');
    await until('the roles have changed', async () => isMaster(second));
    await untilFollowing(first);
    origin.goOn();
    await second.kill();
    await first.command('CLUSTER', 'FAILOVER', 'TAKEOVER');
    await expectAll(downloads);
    await untilShared(origin);
  });
});

/** Returns the server that has the blocks of what is being filled. */
async function serverWithBlocks(servers: readonly RedisServer[]): Promise<RedisServer> {
  const sizes = await Promise.all(servers.map(async (server) => Number(await server.command('DBSIZE'))));
  return servers[sizes.indexOf(Math.max(...sizes))] as RedisServer;
}

async function isMaster(server: RedisServer): Promise<boolean> {
  return String(await server.command('INFO', 'replication')).includes('role:master');
}

/** The size of a slow file, in bytes. */
const slowBytes = 200_000;

/** An origin of pages. */
interface TextOrigin extends AsyncDisposable {
  readonly url: string;
  /** The number of slow files whose second half was not sent yet. */
  held(): number;
  /** The number of requests. */
  asked(): number;
}

/**
 * An origin whose pages have a tag, are fresh for an hour, and have the text of the moment. Of files whose name begins with `slow`, the
 * second half comes after `going`.
 */
async function openTextOrigin(text: () => string, going?: Promise<void>): Promise<TextOrigin> {
  let held = 0;
  let asked = 0;
  const server = createServer(({ url = '' }, response) => {
    asked += 1;
    response.writeHead(200, { 'cache-control': 'max-age=3600', 'surrogate-key': 'pages' });
    if (!url.startsWith('/slow')) return void response.end(text());
    held += 1;
    response.write(Buffer.alloc(slowBytes / 2));
    void going?.then(() => {
      held -= 1;
      response.end(Buffer.alloc(slowBytes / 2));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    held: () => held,
    asked: () => asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
