/** Reloads of a running server by SIGHUP: every request is served while the configuration changes. */

import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startLoad } from '../support/clients/constant-load.ts';
import { type RangewayProcess, startRangeway } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { writeTestCertificate } from '../support/values/tls-certificate.ts';

const smallBytes = 2000;
const slowBytes = 600_000;
const slow = patternBytes(0, slowBytes);

let origin: Server;
let originUrl: string;
beforeAll(async () => {
  origin = createServer((request, response) => {
    if (request.url?.startsWith('/slow') === true) void sendSlowly(response);
    else response.setHeader('cache-control', 'max-age=600').end(patternBytes(0, smallBytes));
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(() => {
  origin.closeAllConnections();
  origin.close();
});

/** The rests of slow bodies, which are sent after the next reload. */
const held = new Set<() => void>();
let isHolding = true;

/** Sends a body in two parts: a reload happens between them. */
async function sendSlowly(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-length': slowBytes, 'cache-control': 'no-store' });
  response.write(slow.subarray(0, slowBytes / 2));
  if (isHolding) await new Promise<void>((resolve) => held.add(resolve));
  response.end(slow.subarray(slowBytes / 2));
}

function sendRests(): void {
  for (const send of held) send();
  held.clear();
}

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-reload-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

async function write(config: object): Promise<void> {
  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(config));
}

function countOf(rangeway: RangewayProcess, pattern: RegExp): number {
  return rangeway.output().match(pattern)?.length ?? 0;
}

const outcome = /"stage":"(?:reloaded|reload_failed)".*\n/g;

/** Sends SIGHUP, waits until the log has the outcome, and returns that line. */
async function reload(rangeway: RangewayProcess, config?: object): Promise<object> {
  if (config !== undefined) await write(config);
  const before = countOf(rangeway, outcome);
  process.kill(rangeway.pid, 'SIGHUP');
  await expect.poll(() => countOf(rangeway, outcome), { interval: 5 }).toBeGreaterThan(before);
  const line =
    rangeway
      .output()
      .split('\n')
      .findLast((each) => /"stage":"reload/.test(each)) ?? '';
  return JSON.parse(line) as object;
}

async function start(config: object): Promise<{ rangeway: RangewayProcess; addresses: string[] }> {
  await write(config);
  const rangeway = startRangeway(['--config', join(dir, 'rangeway.json')]);
  const [line] = await rangeway.waitFor(/^.*"stage":"ready".*$/m);
  return { rangeway, addresses: (JSON.parse(line) as { addresses: string[] }).addresses };
}

describe('20 reloads under load', () => {
  it.each([1, 2])('fail no request with %i workers', async (workers) => {
    const files = await writeTestCertificate(dir);
    const configure = (round: number) => ({
      workers,
      store: { dir: join(dir, 'store') },
      log: { format: 'json' },
      limits: { streamsPerConnection: round % 4 === 1 ? 50 : 100 },
      listen: [
        // A new listener replaces this one when http2 changes.
        { address: '127.0.0.1:0', http2: round % 2 === 1 },
        { address: `unix:${join(dir, 'always')}` },
        { address: '127.0.0.1:0', tls: { certificates: [files], minVersion: round % 3 === 1 ? '1.3' : '1.2' } },
        ...(round % 2 === 1 ? [{ address: `unix:${join(dir, 'sometimes')}` }] : []),
      ],
      routes: [
        {
          origin: { url: originUrl, connections: 50 + (round % 2) },
          fields: { toClient: { set: { 'x-round': `${round}` } } },
        },
        ...(round % 2 === 1 ? [{ match: { pathPrefix: '/other' }, origin: originUrl }] : []),
      ],
    });
    const { rangeway, addresses } = await start(configure(0));
    await using _rangeway = rangeway;
    const load = startLoad({
      http: addresses[0] ?? '',
      https: addresses[2] ?? '',
      small: { path: '/small', sizeBytes: smallBytes },
      slow: { path: '/slow', sizeBytes: slowBytes },
    });
    isHolding = true;
    for (let round = 1; round <= 20; round += 1) {
      // Each client of slow bodies is in the middle of one, and the others go on.
      await expect.poll(() => held.size, { interval: 5 }).toBe(5);
      const before = load.count('small, kept');
      await expect.poll(() => load.count('small, kept'), { interval: 5 }).toBeGreaterThan(before);
      expect(await reload(rangeway, configure(round))).toMatchObject({ stage: 'reloaded' });
      sendRests();
    }
    isHolding = false;
    sendRests();
    const { failures, done } = await load.stop();
    expect(failures).toEqual([]);
    expect(Object.keys(done)).toHaveLength(10);
    expect(await rangeway.stop('SIGTERM')).toBe(0);
  });
});

describe('SIGHUP', () => {
  it('changes nothing where the file is broken, and reports each problem in a line', async () => {
    const config = {
      listen: '127.0.0.1:0',
      store: { type: 'memory' },
      log: { format: 'json' },
      routes: [{ origin: originUrl }],
    };
    const { rangeway, addresses } = await start(config);
    await using _rangeway = rangeway;
    const served = async () => (await fetch(`${addresses[0]}/small`)).status;

    const refused = async (next: object | string, problems = 1): Promise<string[]> => {
      const from = rangeway.output().length;
      if (typeof next === 'string') await writeFile(join(dir, 'rangeway.json'), next);
      expect(await reload(rangeway, typeof next === 'string' ? undefined : next)).toMatchObject({ level: 'warn' });
      const lines = () => [
        ...rangeway
          .output()
          .slice(from)
          .matchAll(/"reload_failed".*"msg":(".*")/g),
      ];
      await expect.poll(lines).toHaveLength(problems);
      expect(await served()).toBe(200);
      return lines().map(([, message = '']) => JSON.parse(message) as string);
    };
    const stays = 'the configuration stays as it is: ';
    expect(await refused('{')).toEqual([expect.stringMatching(/rangeway\.json: line 1, column 2: /)]);
    expect(await refused({ ...config, listen: 'x:y', rutes: [] }, 2)).toEqual([
      expect.stringContaining('listen: expected [host:]port'),
      expect.stringContaining('rutes: unknown option'),
    ]);
    expect(await refused({ ...config, store: { type: 'memory', maxSizeBytes: '9MB' }, pseudonym: 'x' })).toEqual([
      `${stays}store.maxSizeBytes, pseudonym cannot be changed while the server runs: this needs a restart`,
    ]);
    expect(await refused({ ...config, listen: ['127.0.0.1:0', 'unix:/nowhere/socket'] })).toEqual([
      `${stays}cannot listen on unix:/nowhere/socket: there is no directory /nowhere`,
    ]);
    expect(await refused({ ...config, routes: [{ origin: originUrl, access: { basic: 'file:nowhere' } }] })).toEqual([
      expect.stringMatching(/cannot use it: the secret file:.*\/nowhere cannot be read/),
    ]);

    // At this level a successful reload is not logged either.
    const [route] = config.routes;
    const marked = { ...route, fields: { toClient: { set: { 'x-level': 'warn' } } } };
    await write({ ...config, log: { format: 'json', level: 'warn' }, routes: [marked] });
    process.kill(rangeway.pid, 'SIGHUP');
    await expect.poll(async () => (await fetch(`${addresses[0]}/small`)).headers.get('x-level')).toBe('warn');
    expect((await fetch(`${addresses[0]}/small?unlogged`)).status).toBe(200);
    expect(await reload(rangeway, config)).toMatchObject({ stage: 'reloaded' });
    await served();
    await rangeway.waitFor(/"stage":"reloaded"[\s\S]*"event":"request"/);
    expect(rangeway.output()).not.toContain('?unlogged');
    expect(await rangeway.stop('SIGTERM')).toBe(0);
  });

  it('opens and closes listeners, while the store stays in its directory', async () => {
    const path = join(dir, 'socket');
    await write({ log: { format: 'json' }, listen: `unix:${path}` });
    const rangeway = startRangeway([originUrl, '--config', join(dir, 'rangeway.json')], { XDG_CACHE_HOME: dir });
    await using _rangeway = rangeway;
    await rangeway.waitFor(/"stage":"ready"/);
    const stores = await readdir(join(dir, 'rangeway'));
    expect(stores).toHaveLength(1);
    const { addresses } = (await reload(rangeway, { log: { format: 'json' }, listen: '127.0.0.1:0' })) as {
      addresses?: string[];
    };
    const url = addresses?.[0] ?? '';
    expect((await fetch(`${url}/small`)).headers.get('cache-status')).toContain('stored');
    expect(existsSync(path)).toBe(false);
    await reload(rangeway, { log: { format: 'json' }, listen: ['127.0.0.1:0', `unix:${path}`] });
    expect((await fetch(`${url}/small`)).headers.get('cache-status')).toContain('hit');
    expect(existsSync(path)).toBe(true);
    expect(await readdir(join(dir, 'rangeway'))).toEqual(stores);
    expect(await rangeway.stop('SIGTERM')).toBe(0);
  });

  it('is ignored while the server stops', async () => {
    const rangeway = startRangeway([originUrl, '--listen', '127.0.0.1:0', '--store', 'memory', '--log-format', 'json']);
    await using _rangeway = rangeway;
    const [, url = ''] = await rangeway.waitFor(/ready on (http:[^\s",]+)/);
    expect(await reload(rangeway)).toMatchObject({ stage: 'reloaded' });
    const response = await fetch(`${url}/slow`);
    const ended = rangeway.stop('SIGTERM');
    await rangeway.waitFor(/"stage":"stopping"/);
    process.kill(rangeway.pid, 'SIGHUP');
    expect(Buffer.from(slow).equals(Buffer.from(await response.arrayBuffer()))).toBe(true);
    expect(await ended).toBe(0);
    expect(rangeway.output().match(/"stage":"reload/g)).toHaveLength(2);
  });
});
