/** The options of routes and stores, from the configuration file to the bytes on the wire. */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 400_000;
const block = 16_384;

/** The routes, by the first segment of their paths. */
const routes: Record<string, { cache?: object; fill?: object; origin?: object }> = {
  plain: {},
  pinned: { cache: { pinSeconds: 60 } },
  tagged: { cache: { ownEntityTags: 'whenWeak' } },
  digested: { cache: { digest: true } },
  wanted: { cache: { storeAfterUses: 2 } },
  always: { fill: { complete: 'always' } },
  below: { fill: { complete: 'whenSmaller', completeBelowBytes: size + 1 } },
  notbelow: { fill: { complete: 'whenSmaller', completeBelowBytes: size } },
  never: { fill: { complete: 'never' } },
  atonce: { fill: { complete: 'never', openRanges: 'whole' } },
  whole: { origin: { ranges: 'never' } },
  ahead: { origin: { seekAheadBytes: 0 }, fill: { complete: 'never' } },
  finished: { origin: { ranges: 'never' } },
  stopped: { origin: { ranges: 'never' }, fill: { onAbort: 'stop' } },
  left: { origin: { ranges: 'never' }, fill: { finishMaxLeftBytes: '100KB' } },
  measured: { fill: { headLength: 'fetch' } },
  once: { origin: { ranges: 'never' }, fill: { resumeAttempts: 0 } },
  large: { origin: { ranges: 'never' }, fill: { finishMaxSizeBytes: '100KB' } },
  unread: { origin: { ranges: 'never' }, fill: { finishMaxPerClient: 0 } },
};

let origin: Server;
let dir: string;
let rangeway: RangewayProcess;
let base: string;
/** The Range field, or `whole`, of each request that the origin has received, by path. */
const asked = new Map<string, string[]>();
const extraFields = new Map<string, Record<string, string>>();
const held = new Map<string, ServerResponse>();
let version = 1;

const bodyOf = (seed: number, bytes = size) => Buffer.from(patternBytes(0, bytes, seed));

/** Answers a request at the origin. A path with `slow` in it sends one block and is held. HEAD gets no length. */
function respond(request: IncomingMessage, response: ServerResponse): void {
  const path = request.url ?? '';
  const { range, 'if-range': ifRange } = request.headers;
  asked.set(path, [...(asked.get(path) ?? []), range ?? 'whole']);
  const whole = bodyOf(version, path.includes('huge') ? 2_000_000 : size);
  const fields = { etag: `"v${version}"`, 'cache-control': 'max-age=60', ...extraFields.get(path) };
  if (request.method === 'HEAD') return void response.writeHead(200, fields).end();
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? [];
  const isPart = first !== undefined && (ifRange === undefined || ifRange === fields.etag);
  const start = isPart ? Number(first) : 0;
  const end = isPart && last !== '' ? Math.min(Number(last) + 1, whole.length) : whole.length;
  const contentRange = isPart ? { 'content-range': `bytes ${start}-${end - 1}/${whole.length}` } : {};
  response.writeHead(isPart ? 206 : 200, { ...fields, ...contentRange, 'content-length': end - start });
  if (!path.includes('slow') || isPart) return void response.end(whole.subarray(start, end));
  response.write(whole.subarray(0, block));
  held.set(path, response);
}

beforeAll(async () => {
  origin = createServer(respond);
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  dir = await mkdtemp(join(tmpdir(), 'rangeway-options-'));
  const config = {
    listen: '127.0.0.1:0',
    store: { dir: join(dir, 'store'), blockSizeBytes: block, memoryBytes: '1MB', maxObjectSizeBytes: '1MB' },
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

/** Sends a request with node:http: `fetch` adds no-cache to a conditional request. */
async function begin(path: string, headers: Record<string, string> = {}): Promise<IncomingMessage> {
  const [response] = await once(get(base + path, { headers, agent: false }), 'response');
  return response;
}

async function ask(path: string, headers: Record<string, string> = {}) {
  const response = await begin(path, headers);
  const bytes = await buffer(response);
  const field = (name: string) => response.headers[name]?.toString() ?? '';
  return { status: response.statusCode, bytes, field, isHit: /; hit/.test(field('cache-status')) };
}

/** Waits until the fill of this path ends with `result`. */
const fillOf = (path: string, result: string) =>
  rangeway.waitFor(new RegExp(`"event":"fill"[^\\n]*${path}"[^\\n]*"result":"${result}"`));

const far = 'bytes=200000-200099';
const expectFar = ({ status, bytes }: Awaited<ReturnType<typeof ask>>) => {
  expect(status).toBe(206);
  expect(bytes.equals(bodyOf(version).subarray(200_000, 200_100))).toBe(true);
};

describe('cache', () => {
  it.each([
    ['/pinned/a', 206, 1],
    ['/plain/a', 200, 2],
  ])('pinSeconds: %s gets %i of version %i for If-Range of the first one', async (path, status, seed) => {
    version = 1;
    await ask(path);
    await fillOf(path, 'stored');
    version = 2;
    await ask(path, { 'cache-control': 'no-cache' });
    const resumed = await ask(path, { range: far, 'if-range': '"v1"' });
    version = 1;
    expect(resumed.status).toBe(status);
    expect(resumed.field('etag')).toBe(`"v${seed}"`);
    expect(resumed.bytes.equals(status === 206 ? bodyOf(seed).subarray(200_000, 200_100) : bodyOf(seed))).toBe(true);
  });

  it('ownEntityTags: a weak tag is replaced by a strong one that If-Range takes', async () => {
    for (const path of ['/tagged/a', '/plain/weak']) extraFields.set(path, { etag: 'W/"x"' });
    expect((await ask('/plain/weak')).field('etag')).toBe('W/"x"');
    const tag = (await ask('/tagged/a')).field('etag');
    expect(tag).toMatch(/^"rw-/);
    expectFar(await ask('/tagged/a', { range: far, 'if-range': tag }));
  });

  it('digest: a stored body has its SHA-256; a body that contradicts its stated digest is cut', async () => {
    await ask('/digested/a');
    await fillOf('/digested/a', 'stored');
    const sum = createHash('sha256').update(bodyOf(1)).digest('base64');
    expect((await ask('/digested/a', { range: far })).field('repr-digest')).toBe(`sha-256=:${sum}:`);
    extraFields.set('/plain/lie', { 'repr-digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` });
    await expect(ask('/plain/lie')).rejects.toThrow();
  });

  it('storeAfterUses: the second request is stored, the third one a hit', async () => {
    for (const isHit of [false, false, true]) {
      expect((await ask('/wanted/a')).isHit).toBe(isHit);
      if (asked.get('/wanted/a')?.length === 2) await fillOf('/wanted/a', 'stored');
    }
    expect(asked.get('/wanted/a')).toHaveLength(2);
  });
});

describe('origin', () => {
  it('ranges: "never" asks for the whole body, "auto" for the blocks of the range', async () => {
    expectFar(await ask('/whole/a', { range: far }));
    expect(asked.get('/whole/a')).toEqual(['whole']);
    expectFar(await ask('/never/a', { range: far }));
    expect(asked.get('/never/a')).toEqual(['bytes=196608-212991']);
  });

  it('seekAheadBytes: a range far ahead of a slow fill gets an exchange of its own', async () => {
    const slow = await begin('/ahead/slow');
    expectFar(await ask('/ahead/slow', { range: far }));
    expect(asked.get('/ahead/slow')).toEqual(['whole', 'bytes=196608-212991']);
    slow.destroy();
    held.get('/ahead/slow')?.destroy();
  });
});

describe('fill', () => {
  it.each([
    ['/always/a', true],
    ['/below/a', true],
    ['/notbelow/a', false],
    ['/never/b', false],
  ])('complete: whether the rest of %s is fetched without a request: %s', async (path, isCompleted) => {
    expectFar(await ask(path, { range: far }));
    await fillOf(path, isCompleted ? 'stored' : 'kept');
    expect((await ask(path, { range: 'bytes=0-9' })).isHit).toBe(isCompleted);
  });

  it.each([
    ['/never/c', ['bytes=16384-32767', 'bytes=32768-49151', 'bytes=49152-65535']],
    ['/atonce/c', ['bytes=16384-']],
  ])('openRanges: ranges that %s asks the origin for when the client’s range has no end', async (path, firstAsked) => {
    const { bytes } = await ask(path, { range: 'bytes=16384-' });
    expect(bytes.equals(bodyOf(version).subarray(block))).toBe(true);
    expect(asked.get(path)?.slice(0, 3)).toEqual(firstAsked);
  });

  it.each([
    ['/finished/slow', false],
    ['/stopped/slow', true],
    ['/left/slow', true],
    ['/large/slow', true],
    ['/unread/slow', true],
  ])('onAbort and its limits: whether %s ends with its client: %s', async (path, isEnded) => {
    const client = await begin(path);
    const response = held.get(path);
    client.destroy();
    if (isEnded) await fillOf(path, 'stopped');
    else response?.end(bodyOf(1).subarray(block));
    if (!isEnded) await fillOf(path, 'stored');
    expect(response?.writableFinished).toBe(!isEnded);
  });

  it.each([
    ['/measured/head', String(size)],
    ['/plain/head', null],
  ])('headLength: the length that HEAD gets of %s is %s', async (path, expected) => {
    const { headers } = await fetch(base + path, { method: 'HEAD' });
    expect(headers.get('content-length')).toBe(expected);
    expect(headers.get('accept-ranges')).toBe('bytes');
  });

  it('resumeAttempts: with 0 a broken fill fails at once, and its client is cut off', async () => {
    const client = await begin('/once/slow');
    const cut = buffer(client).catch((error: Error) => error.message);
    held.get('/once/slow')?.destroy();
    expect(await cut).toBe('aborted');
    await fillOf('/once/slow', 'failed');
    expect(asked.get('/once/slow')).toEqual(['whole']);
  });
});

describe('store', () => {
  it('maxObjectSizeBytes: a larger body is relayed, ranges of it are served, and it is not stored', async () => {
    for (const range of ['bytes=5-9', 'bytes=1999990-']) {
      const { status, bytes, field } = await ask('/whole/huge', { range });
      expect(status).toBe(206);
      expect(bytes).toHaveLength(range === 'bytes=5-9' ? 5 : 10);
      expect(field('cache-status')).not.toMatch(/stored|hit/);
    }
    expect(asked.get('/whole/huge')).toHaveLength(2);
  });
});
