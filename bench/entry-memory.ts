/**
 * `node bench/entry-memory.ts [entries]`: what a stored entry of 1 KiB takes in the memory of a server with its default options, in
 * JavaScript objects and buffers, besides its body. Prints a row for each state: stored, found again, hit over HTTP/1.1, hit over
 * HTTP/2 too, and after a restart; with the size of the memory tier and the resident memory of the process.
 */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, createServer, get, type IncomingMessage, type RequestOptions } from 'node:http';
import { type ClientHttp2Session, connect } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { projectDirectory, type RangewayProcess, startRangeway } from '../test/support/processes/rangeway-process.ts';
import { BenchFault } from './fault.ts';
import { formatTable } from './table.ts';

const bodyBytes = 1024;
/** Requests in progress at a time. */
const atOnce = 32;
/** Entries that are stored and requested before the first reading, because of the one-time costs of the first requests. */
const firstEntries = 2000;

/** A state of the entries: they are requested once more, over HTTP/2 where that is said. */
interface State {
  readonly name: string;
  readonly isHttp2?: boolean;
}

const firstStates: readonly State[] = [
  { name: 'stored' },
  { name: 'found' },
  { name: 'hit over HTTP/1.1' },
  { name: 'hit over HTTP/2 too', isHttp2: true },
];
const laterStates: readonly State[] = [
  { name: 'found after a restart' },
  { name: 'hit over HTTP/2', isHttp2: true },
  { name: 'hit over HTTP/1.1 too' },
];

const entries = Number(process.argv[2] ?? 20_000);
const dir = await mkdtemp(join(tmpdir(), 'rangeway-entries-'));
const origin = createServer((request, response) => {
  const path = Buffer.from(request.url ?? '');
  // Nine fields, as many servers send them; Node adds Connection and Keep-Alive, which are not stored.
  response.writeHead(200, {
    Date: new Date().toUTCString(),
    Server: 'nginx/1.27.3',
    'Content-Type': 'image/webp',
    'Content-Length': bodyBytes,
    'Last-Modified': 'Wed, 01 Jan 2025 00:00:00 GMT',
    ETag: `"${path.toString('hex').slice(-16)}"`,
    'Cache-Control': 'public, max-age=86400',
    Vary: 'Accept-Encoding',
    'X-Request-Id': path.toString('base64url'),
  });
  response.end(Buffer.alloc(bodyBytes, request.url));
});
origin.listen(0, '127.0.0.1');
await once(origin, 'listening');
try {
  const rows = [...(await measure(firstStates)), ...(await measure(laterStates))];
  console.log(
    formatTable([
      ['', 'bytes an entry', 'of them heap', 'counted', 'from the origin', 'tier MB', 'resident MB'],
      ...rows,
    ]),
  );
} finally {
  origin.close();
  await rm(dir, { recursive: true, force: true });
}

/** Starts a server on the store, requests all entries once for each state, and returns a row for each. */
async function measure(states: readonly State[]): Promise<string[][]> {
  const { port } = origin.address() as AddressInfo;
  const config = {
    listen: [{ address: '127.0.0.1:0', http2: true }],
    admin: { listen: '127.0.0.1:0' },
    store: { dir: join(dir, 'cache') },
    routes: [{ origin: `http://127.0.0.1:${port}` }],
  };
  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(config));
  const args = ['serve', '--config', join(dir, 'rangeway.json')];
  const preload = join(projectDirectory, 'test/support/processes/report-memory.ts');
  await using server = startRangeway(args, { NODE_OPTIONS: `--import=${preload}` });
  const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
  const [, admin = ''] = await server.waitFor(/administered on (http:[^\s",]+)/);
  for (const isHttp2 of [false, false, false, true]) await requestAll(url, isHttp2, 0, firstEntries);
  const before = await read(server, admin);
  const rows: string[][] = [];
  for (const { name, isHttp2 = false } of states) {
    const misses = await requestAll(url, isHttp2, firstEntries, firstEntries + entries);
    const after = await read(server, admin);
    const figures = [
      (after.heapUsed + after.external - before.heapUsed - before.external) / entries - bodyBytes,
      (after.heapUsed - before.heapUsed) / entries,
      (after.counted - before.counted) / entries - bodyBytes,
      misses,
      after.counted / 1e6,
      after.resident / 1e6,
    ];
    rows.push([name, ...figures.map((figure) => String(Math.round(figure)))]);
  }
  await server.stop('SIGTERM');
  return rows;
}

/** The memory of the server, and what its memory tier counts, in bytes. */
interface Reading {
  readonly heapUsed: number;
  readonly external: number;
  readonly counted: number;
  /** Resident memory of the process before its garbage was collected. */
  readonly resident: number;
}

async function read(server: RangewayProcess, admin: string): Promise<Reading> {
  const { bytes } = await ask(`${admin}/metrics`);
  const figure = (name: string) => Number(new RegExp(`^${name} ([0-9.e+]+)$`, 'm').exec(bytes.toString())?.[1]);
  const [counted, resident] = [figure('rangeway_store_memory_bytes'), figure('process_resident_memory_bytes')];
  return { ...(await collect(server)), counted, resident };
}

/** Has the server collect its garbage, and returns what is left. */
async function collect(server: RangewayProcess): Promise<Pick<Reading, 'heapUsed' | 'external'>> {
  const { length } = server.output();
  process.kill(server.pid, 'SIGUSR2');
  for (;;) {
    const report = /live \d+ (\{.*\})\n/.exec(server.output().slice(length))?.[1];
    if (report !== undefined) return JSON.parse(report);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Requests the entries of these numbers, a few at a time. Returns the number of responses that came from the origin. */
async function requestAll(url: string, isHttp2: boolean, first: number, end: number): Promise<number> {
  let next = first;
  let misses = 0;
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
  const session = isHttp2 ? connect(url) : undefined;
  const worker = async () => {
    for (let number = next++; number < end; number = next++) {
      const path = `/library/thumbnails/2026/01/image-${number}.webp`;
      const { status, bytes, cacheStatus } = await (session === undefined
        ? ask(`${url}${path}`, { agent, headers: { host: 'library.example' } })
        : askHttp2(session, path));
      if (status !== 200 || bytes.length !== bodyBytes)
        throw new BenchFault(`status ${status} and ${bytes.length} bytes`);
      if (!cacheStatus.includes('hit')) misses += 1;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  agent.destroy();
  if (session !== undefined) await new Promise<void>((resolve) => session.close(resolve));
  return misses;
}

/** A response that has arrived. */
interface Arrived {
  readonly status: number | undefined;
  readonly cacheStatus: string;
  readonly bytes: Buffer;
}

async function ask(url: string, options: RequestOptions = {}): Promise<Arrived> {
  const request = get(url, options);
  const [message] = (await once(request, 'response')) as [IncomingMessage];
  const { statusCode: status, headers: fields } = message;
  return { status, cacheStatus: String(fields['cache-status']), bytes: await buffer(message) };
}

async function askHttp2(session: ClientHttp2Session, path: string): Promise<Arrived> {
  const stream = session.request({ ':path': path, ':authority': 'library.example', ':scheme': 'http' });
  const [fields] = (await once(stream, 'response')) as [Record<string, string | number>];
  const status = Number(fields[':status']);
  return { status, cacheStatus: String(fields['cache-status']), bytes: await buffer(stream) };
}
