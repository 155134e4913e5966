/** The limits of routes, from the configuration file to the bytes on the wire. */

import { once } from 'node:events';
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
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 400_000;
const whole = Buffer.from(patternBytes(0, size));
const legacy = { ranges: 'never' };
const stop = { onAbort: 'stop' };

/** The routes, by the first segment of their paths. */
const routes: Record<string, { limits: object; origin?: object; fill?: object }> = {
  rate: { limits: { rate: { requests: 2, seconds: 3600 } } },
  burst: { limits: { rate: { requests: 3600, seconds: 3600, burst: 1 } } },
  client: { limits: { requestsPerClient: 1 } },
  body: { limits: { bodyBytes: '1KB' } },
  fills: { limits: { fills: 1 }, origin: legacy, fill: stop },
  own: { limits: { fillsPerClient: 1 }, origin: legacy, fill: stop },
  amplified: {
    limits: { amplification: { factor: 1, freeBytes: '1MB', windowSeconds: 86_400 } },
    origin: legacy,
  },
  forgiven: {
    limits: { amplification: { factor: 1, freeBytes: '1MB', windowSeconds: 1 } },
    origin: legacy,
  },
  boundless: { limits: { amplification: { factor: 0, freeBytes: '1MB' } }, origin: legacy },
};

let origin: Server;
let dir: string;
let rangeway: RangewayProcess;
let base: string;
const held = new Map<string, ServerResponse>();
/** The paths that the origin was asked for, and `<path> broke off` for each body that was cut. */
const asked: string[] = [];

/** Answers a request at the origin. A test completes the response to a path with `slow` in it. */
async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url ?? '';
  asked.push(path);
  const body = await buffer(request).catch(() => undefined);
  if (body === undefined) return void asked.push(`${path} broke off`);
  if (request.method === 'POST') return void response.end(`${body.length}`);
  response.writeHead(200, { etag: '"v1"', 'cache-control': 'max-age=60', 'content-length': size });
  if (!path.includes('slow')) return void response.end(whole);
  response.write(whole.subarray(0, 1000));
  held.set(path, response);
}

beforeAll(async () => {
  origin = createServer((request, response) => void respond(request, response));
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  dir = await mkdtemp(join(tmpdir(), 'rangeway-limits-'));
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    log: { format: 'json', level: 'debug' },
    routes: Object.entries(routes).map(([name, options]) => ({
      match: { pathPrefix: `/${name}` },
      ...options,
      origin: { url, ...options.origin },
    })),
  };
  const started = await startConfigured(dir, config);
  rangeway = started;
  base = started.url;
});
afterAll(async () => {
  expect(await rangeway.stop('SIGTERM')).toBe(0);
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Each loopback address counts as another client. */
  readonly localAddress?: string;
}

function open(path: string, sent: Sent = {}): ClientRequest {
  return openRequest(base + path, { localAddress: '127.0.0.1', agent: false, ...sent });
}

async function begin(path: string, sent: Sent = {}): Promise<IncomingMessage> {
  const [response] = await once(open(path, sent).end(), 'response');
  return response;
}

async function ask(path: string, sent: Sent = {}) {
  const response = await begin(path, sent);
  const bytes = await buffer(response);
  const field = (name: string) => response.headers[name]?.toString();
  return { status: response.statusCode, bytes, field };
}

const other = { localAddress: '127.0.0.2' };
const stored = (path: string) => rangeway.waitFor(new RegExp(`"event":"fill"[^\\n]*${path}"[^\\n]*"result":"stored"`));
const over = (path: string, count = 1) =>
  rangeway.waitFor(new RegExp(`(?:"event":"request"[^\\n]*"${path}"[^]*?){${count}}`));

describe('rate', () => {
  it('lets the configured number of requests pass, reports the state in RateLimit fields, and refuses further ones', async () => {
    const limits: unknown[] = [];
    for (const path of ['/rate/a', '/rate/a', '/rate/b']) {
      const { status, field } = await ask(path);
      limits.push([status, field('ratelimit'), field('ratelimit-policy'), field('retry-after')]);
    }
    const policy = '"rangeway";q=2;w=3600';
    expect(limits).toEqual([
      [200, '"rangeway";r=1;t=1800', policy, undefined],
      [200, '"rangeway";r=0;t=1800', policy, undefined],
      [429, '"rangeway";r=0;t=1800', policy, '1800'],
    ]);
    expect(asked).not.toContain('/rate/b');
    expect((await ask('/rate/b', other)).status).toBe(200);
  });

  it('with a burst of one lets the next request pass after the time in Retry-After', async () => {
    expect((await ask('/burst/a')).status).toBe(200);
    const refused = await ask('/burst/a');
    expect([refused.status, refused.field('retry-after')]).toEqual([429, '1']);
    await expect.poll(async () => (await ask('/burst/a')).status, { interval: 100 }).toBe(200);
  });
});

describe('requestsPerClient', () => {
  it('refuses a client more concurrent requests until one has ended or its client has left', async () => {
    const slow = await begin('/client/slow');
    const refused = await ask('/client/a');
    expect([refused.status, refused.field('retry-after')]).toEqual([429, '1']);
    expect((await ask('/client/a', other)).status).toBe(200);
    slow.destroy();
    await over('/client/slow');
    for (const path of ['/client/a', '/client/a', '/client/b']) expect((await ask(path)).status).toBe(200);
    held.get('/client/slow')?.destroy();
  });
});

describe('bodyBytes', () => {
  it.each([
    [1000, 200],
    [1001, 413],
  ])('of 1 KB: a body of %i bytes gets %i', async (bytes, status) => {
    const path = `/body/${bytes}`;
    const request = open(path, { method: 'POST', headers: { 'content-length': `${bytes}` } });
    request.end(Buffer.alloc(bytes));
    const [response] = await once(request, 'response');
    expect(response.statusCode).toBe(status);
    expect((await buffer(response)).toString()).toContain(status === 200 ? '1000' : 'too large');
    // An end that an earlier test has caused may come meanwhile.
    expect(asked.filter((each) => each === path)).toHaveLength(status === 200 ? 1 : 0);
  });

  it('refuses a larger announced body before any of it is sent', async () => {
    const headers = { 'content-length': '1000000000', expect: '100-continue' };
    const request = open('/body/b', { method: 'POST', headers });
    let isContinued = false;
    request.on('continue', () => {
      isContinued = true;
    });
    request.on('error', () => {});
    request.flushHeaders();
    const [response] = await once(request, 'response');
    expect([response.statusCode, response.headers.connection, isContinued]).toEqual([413, 'close', false]);
    request.destroy();
    expect(asked).not.toContain('/body/b');
  });

  it('ends a chunked body that grows larger, at the client and at the origin', async () => {
    const request = open('/body/c', { method: 'POST', headers: { 'transfer-encoding': 'chunked' } });
    request.on('error', () => {});
    request.write(Buffer.alloc(800));
    await expect.poll(() => asked).toContain('/body/c');
    request.write(Buffer.alloc(201));
    const [response] = await once(request, 'response');
    expect([response.statusCode, response.headers.connection]).toEqual([413, 'close']);
    expect((await buffer(response)).toString()).toContain('too large');
    await expect.poll(() => asked).toContain('/body/c broke off');
    request.destroy();
  });
});

describe('fills', () => {
  it.each([
    ['fills', 503, 503],
    ['own', 429, 200],
  ])('of one, by %s: the same client gets %i for another file, another client %i', async (route, same, another) => {
    await ask(`/${route}/stored`);
    await stored(`/${route}/stored`);
    const slow = await begin(`/${route}/slow`);
    const refused = await ask(`/${route}/a`);
    expect([refused.status, refused.field('retry-after')]).toEqual([same, '1']);
    expect((await ask(`/${route}/b`, other)).status).toBe(another);
    expect((await ask(`/${route}/stored`)).field('cache-status')).toContain('hit');
    const joined = await begin(`/${route}/slow`);
    held.get(`/${route}/slow`)?.end(whole.subarray(1000));
    for (const each of [slow, joined]) expect((await buffer(each)).equals(whole)).toBe(true);
    await stored(`/${route}/slow`);
    expect((await ask(`/${route}/a`)).status).toBe(200);
  });
});

describe('amplification', () => {
  const tail = { headers: { range: 'bytes=-1' } };

  it('refuses a client whose small ranges make the origin send much, except for hits, and no other client', async () => {
    const statuses: unknown[] = [];
    for (const file of [1, 2, 3, 4]) {
      const { status, field } = await ask(`/amplified/${file}`, tail);
      statuses.push(status);
      if (status === 206) await stored(`/amplified/${file}`);
      else expect(Number(field('retry-after'))).toBeGreaterThan(8000);
    }
    expect(statuses).toEqual([206, 206, 206, 429]);
    expect(asked).not.toContain('/amplified/4');
    expect((await ask('/amplified/1', tail)).field('cache-status')).toContain('hit');
    expect((await ask('/amplified/5', { ...tail, ...other })).status).toBe(206);
    // Bytes that the client reads reduce its debt.
    await ask('/amplified/1');
    expect((await ask('/amplified/4', tail)).status).toBe(206);
  });

  it('is forgiven in the time that is configured', async () => {
    for (const file of [1, 2, 3, 4, 5, 6]) {
      await expect.poll(async () => (await ask(`/forgiven/${file}`, tail)).status).toBe(206);
    }
  });

  it('has no limit where the factor is 0', async () => {
    for (const file of [1, 2, 3, 4, 5, 6]) expect((await ask(`/boundless/${file}`, tail)).status).toBe(206);
  });
});
