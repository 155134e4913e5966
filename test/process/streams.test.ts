/** Event streams, long polls and slow downloads, which last: they keep no other request from being answered. */

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request as openRequest,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

let dir: string;
let origin: Server;
let url: string;
/** The responses that the origin has begun, or keeps a client waiting for, by the first part of the path. */
const held = new Map<string, ServerResponse[]>();
const requests: ClientRequest[] = [];

const size = 4_000_000;

/** What the origin does with each kind of request. */
const acts: Readonly<Record<string, (response: ServerResponse) => void>> = {
  events: (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    response.write('data: 1\n\n');
  },
  poll: () => {},
  download: (response) => {
    response.writeHead(200, { 'content-length': size, 'cache-control': 'max-age=60', etag: '"v1"' });
    response.write('x');
  },
  page: (response) => {
    response.writeHead(200, { 'cache-control': 'no-store' });
    response.end('page');
  },
};

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-streams-'));
  origin = createServer((request, response) => {
    const kind = request.url?.split('/')[1] ?? '';
    response.on('error', () => {});
    held.set(kind, [...(held.get(kind) ?? []), response]);
    acts[kind]?.(response);
  });
  origin.listen(0, '127.0.0.1', 4096);
  await once(origin, 'listening');
  url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
/** Ends what is held, so that the server can stop at once. */
function letGo(): void {
  for (const request of requests.splice(0)) request.destroy();
  origin.closeAllConnections();
  held.clear();
}
afterEach(letGo);
afterAll(async () => {
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

const countOf = (kind: string) => held.get(kind)?.length ?? 0;

async function start(
  originOptions: object = {},
  more: object = {},
): Promise<RangewayProcess & { readonly url: string }> {
  const server = await startConfigured(await mkdtemp(join(dir, 'server-')), {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    log: { format: 'json' },
    ...more,
    routes: [{ origin: { url, ...originOptions } }],
  });
  const dispose = server[Symbol.asyncDispose].bind(server);
  return Object.assign(server, {
    [Symbol.asyncDispose]: () => {
      letGo();
      return dispose();
    },
  });
}

/** Opens a request from a loopback address: each counts as another client. Resolves with the response, whose body is not read. */
function ask(base: string, path: string, address: string, headers: object = {}): Promise<IncomingMessage> {
  const request = openRequest(base + path, { localAddress: address, agent: false, headers: { ...headers } });
  requests.push(request);
  request.on('error', () => {});
  request.end();
  const answered = once(request, 'response').then(([response]) => response);
  // A request that is still held when its test ends fails, and nothing waits for it.
  answered.catch(() => {});
  return answered;
}

async function expectPage(base: string, address: string): Promise<void> {
  const response = await ask(base, '/page/1', address);
  expect(response.statusCode).toBe(200);
  expect((await buffer(response)).toString()).toBe('page');
}

/** An address of 127.0.0.0/8. */
const address = (index: number) => `127.1.${Math.floor(index / 250)}.${1 + (index % 250)}`;

/** A process with few descriptors holds fewer: three quarters of an eighth. */
const descriptors = Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1] ?? 1e6);
const scale = Math.min(1, descriptors / 8 / 2400);

describe('1,000 event streams, 500 long polls and 200 downloads with default options', () => {
  it.each([
    ['of one address', () => address(0)],
    ['of 1,000 addresses', (index: number) => address(index % 1000)],
  ])('%s leave all other requests alone', { timeout: 240_000 }, async (_name, addressOf) => {
    await using rangeway = await start();
    const kinds = [
      ['events', Math.floor(1000 * scale)],
      ['poll', Math.floor(500 * scale)],
      ['download', Math.floor(200 * scale)],
    ] as const;
    let index = 0;
    for (const [kind, count] of kinds) {
      for (let each = 0; each < count; each += 1) {
        void ask(rangeway.url, `/${kind}/${each}`, addressOf(index));
        index += 1;
        // Not all at once: the backlog of a listener is short.
        if (each % 100 === 99) await expect.poll(() => countOf(kind), { timeout: 60_000 }).toBe(each + 1);
      }
      await expect.poll(() => countOf(kind), { timeout: 60_000 }).toBe(count);
    }
    // Others, and those that hold them, get their answers.
    for (const other of ['127.2.0.1', addressOf(0)]) await expectPage(rangeway.url, other);
    // What is held goes on: a long poll is answered, a download comes to its end.
    held.get('poll')?.[0]?.end('later');
    const again = ask(rangeway.url, '/download/0', '127.2.0.2', { range: 'bytes=0-0' });
    expect((await again).statusCode).toBe(206);
    expect(rangeway.output()).not.toContain('requests wait for the origin');
  });
});

describe('a limit on connections that is reached all the same', () => {
  it('lets a request wait for so long, then refuses it, and says once what holds the places', async () => {
    await using rangeway = await start({ connections: 4, waitSeconds: 0.2 });
    for (let each = 0; each < 3; each += 1) await ask(rangeway.url, `/events/${each}`, address(each));
    void ask(rangeway.url, '/poll/1', address(4));
    await expect.poll(() => countOf('poll')).toBe(1);
    for (const other of ['127.2.0.1', '127.2.0.2']) {
      const refused = await ask(rangeway.url, '/page/1', other);
      expect(refused.statusCode).toBe(503);
      expect(refused.headers['retry-after']).toBe('1');
      expect(refused.headers['proxy-status']).toMatch(/; error=connection_limit_reached$/);
    }
    const [line, ...more] = rangeway.output().match(/^.*requests wait for the origin.*$/gm) ?? [];
    expect(line).toContain('origin.connections (4) is reached');
    expect(line).toContain('in use: 3 by streams, 0 by fills, 1 by unanswered requests; waiting: 1');
    expect(more).toEqual([]);
  });

  it('lets a request begin that waited, as soon as a stream ends', async () => {
    await using rangeway = await start({ connections: 1, connectionsPerClient: 1 });
    const stream = await ask(rangeway.url, '/events/1', address(1));
    const page = expectPage(rangeway.url, '127.2.0.1');
    await rangeway.waitFor(/requests wait for the origin/);
    stream.socket.resetAndDestroy();
    await page;
  });

  it('counts only requests without a head, where it is on unanswered requests', async () => {
    await using rangeway = await start({ unansweredRequests: 2, waitSeconds: 0.2 });
    for (let each = 0; each < 20; each += 1) await ask(rangeway.url, `/events/${each}`, address(each));
    await expectPage(rangeway.url, '127.2.0.1');
    for (let each = 0; each < 2; each += 1) void ask(rangeway.url, `/poll/${each}`, address(each));
    await expect.poll(() => countOf('poll')).toBe(2);
    expect((await ask(rangeway.url, '/page/1', '127.2.0.1')).statusCode).toBe(503);
    expect(rangeway.output()).toContain('origin.unansweredRequests (2) is reached');
  });
});

describe('a peer that names clients and is not trusted', () => {
  it('is named once in the log, with the option that tells its clients apart', async () => {
    await using rangeway = await start();
    for (const client of ['192.0.2.1', '192.0.2.2']) {
      const response = await ask(rangeway.url, '/page/1', '127.3.0.1', { 'x-forwarded-for': client });
      await buffer(response);
    }
    await expectPage(rangeway.url, '127.3.0.2');
    const lines = rangeway.output().match(/^.*sends X-Forwarded-For.*$/gm) ?? [];
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('trustedProxies: [\\"127.3.0.1\\"]');
  });

  it('is not named where it is trusted', async () => {
    await using rangeway = await start({}, { trustedProxies: ['127.3.0.1'] });
    await buffer(await ask(rangeway.url, '/page/1', '127.3.0.1', { 'x-forwarded-for': '192.0.2.1' }));
    expect(rangeway.output()).not.toContain('sends X-Forwarded-For');
  });
});
