/**
 * Clients that make an origin send many bytes for few (RangeAmp): small ranges under ever new URLs, requests that are aborted
 * at once, responses that are not read. With `limits.amplification` no transfer begins for a client for which the origin has
 * sent more than `freeBytes` plus `factor` times the delivered bytes. A transfer that no client reads ends at half of `freeBytes`.
 */

import { request as openRequest } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { type CountingOrigin, openCountingOrigin, type RangeHabit } from '../support/origins/counting-origin.ts';

const MiB = 2 ** 20;
const block = 65_536;
/** Bytes that one connection to the origin may hold when it is cut: buffers of two processes and of the kernel between them. */
const connectionBytes = 8 * MiB;
/** Bytes that both sides of a loopback connection hold of a response that its client does not read. They count as delivered. */
const unreadBytes = 8 * MiB;

let server: RunningServer;
let origin: CountingOrigin;
afterEach(async () => {
  await server.close({ graceMs: 0 });
  await origin[Symbol.asyncDispose]();
});

async function open(habit: RangeHabit, sizeBytes: number, route: object = {}, connections = 128): Promise<void> {
  origin = await openCountingOrigin(habit, sizeBytes);
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory', maxSizeBytes: '512MiB', blockSizeBytes: block },
    routes: [{ origin: { url: origin.url, connections }, ...route }],
  };
  const loaded = checkConfig(config, '/');
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config);
}

interface Got {
  readonly status: number;
  readonly bytes: number;
}

/** Reads up to so many bytes of a response, then aborts the request. A response that breaks off counts as ended. */
function ask(target: string, range: string | undefined, upTo = Number.POSITIVE_INFINITY, localAddress = '127.0.0.1') {
  return new Promise<Got>((resolve) => {
    const headers = range === undefined ? {} : { range };
    const request = openRequest(server.url + target, { headers, agent: false, localAddress });
    let got: Got = { status: 0, bytes: 0 };
    request.on('response', (response) => {
      got = { status: response.statusCode ?? 0, bytes: 0 };
      response.on('data', (chunk: Buffer) => {
        got = { ...got, bytes: got.bytes + chunk.length };
        if (got.bytes >= upTo) request.destroy();
      });
      response.on('error', () => {});
    });
    request.on('error', () => {});
    request.on('close', () => resolve(got));
    request.end();
  });
}

async function untilIdle(): Promise<void> {
  await expect.poll(() => origin.running, { interval: 5 }).toBe(0);
}

const limits = (freeBytes: string, factor = 10) => ({
  limits: { amplification: { factor, freeBytes, windowSeconds: 86_400 } },
});

describe('a byte of a file of 4 MiB, under ever new URLs,', () => {
  const size = 4 * MiB;

  it.each<[habit: RangeHabit, range: string, eachBytes: number]>([
    ['parts', 'bytes=0-0', block],
    ['parts', 'bytes=2000000-2000000', block],
    ['parts', 'bytes=-1', 2 * block],
    ['whole', 'bytes=0-0', size],
    ['whole', 'bytes=-1', size],
    // Rangeway assumes once that this origin supports ranges, and requests one.
    ['deaf', 'bytes=-1', 2 * size],
  ])('costs an origin with the habit "%s", for %s, at most %i bytes each', async (habit, range, eachBytes) => {
    await open(habit, size);
    for (let name = 1; name <= 10; name += 1) {
      expect(await ask(`/stored/file?${name}`, range)).toEqual({ status: 206, bytes: 1 });
      await untilIdle();
      expect(origin.bytes).toBeLessThanOrEqual(name * eachBytes);
    }
  });

  // A deaf origin gets two requests for each URL, and one of the two is cut.
  it.each<[habit: RangeHabit, kind: 'stored' | 'relayed', names: number, mostBytes: number]>([
    ['parts', 'stored', 300, 16 * MiB + size],
    ['whole', 'stored', 20, 16 * MiB + size],
    ['whole', 'relayed', 20, 16 * MiB + size],
    ['deaf', 'stored', 20, 32 * MiB + 2 * connectionBytes],
    ['deaf', 'relayed', 20, 32 * MiB + 2 * connectionBytes],
  ])(
    'costs an origin with the habit "%s", %s, with %i URLs, at most %i bytes',
    async (habit, kind, names, mostBytes) => {
      await open(habit, size, limits('16MiB'));
      const statuses: number[] = [];
      for (let name = 0; name < names; name += 1) {
        statuses.push((await ask(`/${kind}/file?${name}`, 'bytes=-1')).status);
        await untilIdle();
      }
      expect(statuses).toContain(206);
      expect(statuses.at(-1)).toBe(429);
      expect(origin.bytes).toBeLessThanOrEqual(mostBytes);
      const other = await ask('/stored/other', 'bytes=-1', 1, '127.0.0.2');
      expect(other.status).toBe(206);
    },
  );

  it('lets other clients get a file that is not stored, when one client has spent its share', async () => {
    await open('whole', size, limits('16MiB'));
    for (let time = 0; time < 10; time += 1) await ask('/relayed/file', 'bytes=-1');
    expect((await ask('/relayed/file', 'bytes=-1')).status).toBe(429);
    expect((await ask('/relayed/file', 'bytes=-1', 1, '127.0.0.2')).status).toBe(206);
  });
});

describe('a thousand files of 32 MiB', () => {
  const size = 32 * MiB;
  const connections = 8;
  /** Transfers that began before the share was spent continue while a client reads them. */
  const bound = 64 * MiB + connections * size;

  it('that one client begins to download and aborts cost the origin at most the share', async () => {
    await open('whole', size, limits('64MiB', 1), connections);
    const got = await Promise.all(Array.from({ length: 1000 }, (_, file) => ask(`/stored/${file}`, undefined, 1)));
    await untilIdle();
    expect(got.map(({ status }) => status)).toContain(429);
    expect(origin.bytes).toBeLessThanOrEqual(bound);
  });

  it('of which one client requests the last byte at the same time cost the origin at most the share', async () => {
    await open('whole', size, limits('64MiB'), connections);
    const got = await Promise.all(Array.from({ length: 1000 }, (_, file) => ask(`/stored/${file}`, 'bytes=-1')));
    await untilIdle();
    expect(got.map(({ status }) => status)).toContain(429);
    expect(origin.bytes).toBeLessThanOrEqual(bound);
  });

  it('that one client does not read cost the origin at most the share', async () => {
    await open('whole', size, limits('64MiB', 1), connections);
    const requests = Array.from({ length: 20 }, (_, file) => {
      const request = openRequest(`${server.url}/stored/${file}`, { agent: false });
      request.on('response', (response) => response.pause());
      request.on('error', () => {});
      request.end();
      return request;
    });
    let last = -1;
    await expect
      .poll(
        () => {
          const isQuiet = origin.bytes === last;
          last = origin.bytes;
          return isQuiet && last > 64 * MiB;
        },
        { interval: 500 },
      )
      .toBe(true);
    // Bytes in the connections to the client count as delivered.
    expect(origin.bytes).toBeLessThanOrEqual(bound + 20 * unreadBytes);
    expect(origin.bytes).toBeLessThan(20 * size);
    for (const request of requests) request.destroy();
  });
});

describe('honest clients', () => {
  it('are never refused: downloads, seeks and tails of many files, with an origin without ranges', async () => {
    await open('whole', 4 * MiB);
    const clients = Array.from({ length: 10 }, (_, client) => async () => {
      for (const range of [undefined, 'bytes=-65536', 'bytes=1000000-1999999', 'bytes=0-'])
        for (const file of [client, client + 1]) {
          const { status, bytes } = await ask(`/stored/${file}`, range);
          expect([200, 206]).toContain(status);
          expect(bytes).toBeGreaterThan(0);
        }
    });
    await Promise.all(clients.map((client) => client()));
  });

  it('get whole files that are larger than a client may owe, when they read them', async () => {
    await open('whole', 32 * MiB, limits('2MiB'));
    for (const kind of ['stored', 'relayed']) {
      for (const file of [1, 2, 3]) {
        expect(await ask(`/${kind}/${file}`, undefined)).toEqual({ status: 200, bytes: 32 * MiB });
        await untilIdle();
      }
    }
  });
});
