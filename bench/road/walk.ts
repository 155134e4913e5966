/**
 * Records the functions that one request of each kind calls. The server has default options. It shares this process with
 * its client and its origin.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { checkConfig } from '../../src/config/load.ts';
import { start } from '../../src/main.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { type Client, openHttp1Client, openHttp2Client } from './clients.ts';
import { CallCounts, type Called } from './coverage.ts';
import { CallOrder } from './order.ts';

export const protocols = ['http1', 'http2'] as const;
export type Protocol = (typeof protocols)[number];

/** A kind of request. */
interface Exchange {
  readonly name: string;
  readonly title: string;
  readonly status: number;
  /** Whether each request is for a new path; otherwise for one of a few paths that were requested before. */
  readonly isNew: boolean;
  readonly path: (id: string) => string;
  readonly fields: Readonly<Record<string, string>>;
}

const KiB = 1024;
const etag = '"road"';
const rangeOf = (start: number, sizeBytes: number) => ({ range: `bytes=${start}-${start + sizeBytes - 1}` });
const large = 1024 ** 3;

export const exchanges: readonly Exchange[] = [
  {
    name: 'hit',
    title: 'the whole of 1 KiB in memory',
    status: 200,
    isNew: false,
    path: (id) => `/${id}/${KiB}`,
    fields: {},
  },
  {
    name: 'range-hit',
    title: '1 KiB of 64 KiB in memory',
    status: 206,
    isNew: false,
    path: (id) => `/${id}/${64 * KiB}`,
    fields: rangeOf(4096, KiB),
  },
  {
    name: 'not-modified',
    title: 'a 304 for If-None-Match',
    status: 304,
    isNew: false,
    path: (id) => `/${id}/${KiB}`,
    fields: { 'if-none-match': etag },
  },
  {
    name: 'miss',
    title: 'a file of 64 KiB that was never asked for',
    status: 200,
    isNew: true,
    path: (id) => `/${id}/${64 * KiB}`,
    fields: {},
  },
  {
    name: 'range-miss',
    title: '64 KiB of 1 GiB that was never asked for',
    status: 206,
    isNew: true,
    path: (id) => `/${id}/${large}`,
    fields: rangeOf(large / 2, 64 * KiB),
  },
];

/** The functions that one request calls. */
export interface Road {
  readonly protocol: Protocol;
  readonly name: string;
  readonly title: string;
  readonly files: number;
  readonly functions: number;
  readonly calls: number;
  /** In the order of first calls, if `isOrdered`; functions whose order is unknown come last. */
  readonly steps: readonly Pick<Called, 'file' | 'line' | 'name' | 'count'>[];
}

export interface WalkOptions {
  readonly names: readonly string[];
  readonly protocols: readonly Protocol[];
  readonly isOrdered: boolean;
}

/** Number of requests of a kind before one is recorded, and of known paths. */
const warmRequests = 300;
const knownThings = 20;
/** Number of requests that are recorded. A function that not all of them call belongs to a timer. */
const looks = 5;
/** A request is over when no function was called for `quietMs`, or after `longestMs`. */
const quietMs = 20;
const longestMs = 1000;

/** Records these roads one after the other. */
export async function walkRoads({ names, protocols: chosen, isOrdered }: WalkOptions): Promise<readonly Road[]> {
  await using resources = new AsyncDisposableStack();
  const port = await openServer(resources);
  const order = isOrdered ? resources.use(new CallOrder()) : undefined;
  const roads: Road[] = [];
  for (const protocol of chosen) {
    const client = resources.use(await (protocol === 'http1' ? openHttp1Client(port) : openHttp2Client(port)));
    for (const exchange of exchanges) {
      if (names.includes(exchange.name)) roads.push(await walk(exchange, protocol, client, order));
    }
  }
  return roads;
}

/** Records one road. Every request has another User-Agent, so that no memoised head shortens the road. */
async function walk(exchange: Exchange, protocol: Protocol, client: Client, order?: CallOrder): Promise<Road> {
  const { name, title, isNew, path } = exchange;
  let number = 0;
  const askWith = async (status: number, fields: Exchange['fields']) => {
    number += 1;
    const id = `${protocol}-${name}-${isNew ? number : number % knownThings}`;
    const got = await client.ask(path(id), { 'user-agent': `Road/${number}`, ...fields });
    if (got !== status) throw new Error(`${name} over ${protocol}: status ${got}, not ${status}`);
  };
  const ask = () => askWith(exchange.status, exchange.fields);
  for (let count = 0; count < (isNew ? 0 : 3 * knownThings); count += 1) await askWith(200, {});
  for (let count = 0; count < warmRequests; count += 1) await ask();
  const steps = await commonCalls(ask);
  const calledAt = (await order?.during(steps, ask)) ?? [];
  const ordered = calledAt.flatMap((index) => steps[index] ?? []);
  return {
    protocol,
    name,
    title,
    files: new Set(steps.map(({ file }) => file)).size,
    functions: steps.length,
    calls: steps.reduce((sum, { count }) => sum + count, 0),
    steps: [...ordered, ...steps.filter((step) => !ordered.includes(step))].map(({ file, line, name, count }) => {
      return { file, line, name, count };
    }),
  };
}

/** Returns the functions that each of several requests calls, with their lowest counts. */
async function commonCalls(ask: () => Promise<void>): Promise<readonly Called[]> {
  using counts = new CallCounts();
  let common: Map<string, Called> | undefined;
  for (let look = 0; look < looks; look += 1) {
    await untilQuiet(counts);
    await ask();
    const seen = await untilQuiet(counts);
    common = common === undefined ? seen : lesser(common, seen);
  }
  return [...(common ?? [])].map(([, called]) => called);
}

function lesser(one: Map<string, Called>, other: Map<string, Called>): Map<string, Called> {
  const both = new Map<string, Called>();
  for (const [key, called] of one) {
    const count = Math.min(called.count, other.get(key)?.count ?? 0);
    if (count > 0) both.set(key, { ...called, count });
  }
  return both;
}

/** Returns the functions that are called until no function is called for `quietMs`, or `longestMs` have passed. */
async function untilQuiet(counts: CallCounts): Promise<Map<string, Called>> {
  const all = new Map<string, Called>();
  for (let waitedMs = 0; waitedMs < longestMs; waitedMs += quietMs) {
    await wait(quietMs);
    const taken = counts.take();
    if (taken.size === 0) break;
    for (const [key, called] of taken) all.set(key, { ...called, count: called.count + (all.get(key)?.count ?? 0) });
  }
  return all;
}

/** Starts a server with default options, except for addresses and directory. Log lines are formatted, not written. Returns the port. */
async function openServer(resources: AsyncDisposableStack): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-road-'));
  resources.defer(() => rm(dir, { recursive: true, force: true }));
  const origin = await openOrigin(resources);
  const checked = checkConfig(
    {
      listen: [{ address: '127.0.0.1:0', http2: true }],
      store: { dir: join(dir, 'cache') },
      routes: [{ origin: `http://127.0.0.1:${origin}` }],
    },
    dir,
  );
  if (checked.kind !== 'ok') throw new Error(JSON.stringify(checked));
  const { config } = checked;
  const log = createLog({ ...config.log, stream: { write: () => {} }, now: Date.now });
  const server = await start(config, { emit: log, log, adminSocket: true });
  resources.defer(() => server.close({ graceMs: 0 }));
  return Number(new URL(server.url).port);
}

/** Starts the origin. The last segment of a path is the size of its body in bytes. Returns the port. */
async function openOrigin(resources: AsyncDisposableStack): Promise<number> {
  const server = createServer((request, response) => {
    const sizeBytes = Number(request.url?.split('/').at(-1));
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    const span = first === undefined ? { start: 0, end: sizeBytes } : { start: Number(first), end: Number(last) + 1 };
    response.writeHead(first === undefined ? 200 : 206, {
      'content-type': 'application/octet-stream',
      'content-length': span.end - span.start,
      'cache-control': 'max-age=86400',
      'accept-ranges': 'bytes',
      etag,
      ...(first !== undefined && { 'content-range': `bytes ${span.start}-${span.end - 1}/${sizeBytes}` }),
    });
    response.end(Buffer.alloc(span.end - span.start));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  resources.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
