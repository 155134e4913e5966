/**
 * `node bench/entry-memory.ts [entries]`: what a stored entry of 1 KiB takes in the memory of a server with its default options, in
 * JavaScript objects and buffers, besides its body. Prints a row for each state: stored, found again, hit, and after a restart.
 */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, createServer, get, type IncomingMessage } from 'node:http';
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

const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
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
  const rows = [...(await measure(['stored', 'found', 'hit'])), ...(await measure(['found after a restart', 'hit']))];
  console.log(formatTable([['', 'bytes an entry', 'of them heap', 'counted', 'from the origin'], ...rows]));
} finally {
  agent.destroy();
  origin.close();
  await rm(dir, { recursive: true, force: true });
}

/** Starts a server on the store, requests all entries once for each state, and returns a row for each. */
async function measure(states: readonly string[]): Promise<string[][]> {
  const { port } = origin.address() as AddressInfo;
  const args = [`http://127.0.0.1:${port}`, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--dir', dir];
  const preload = join(projectDirectory, 'test/support/processes/report-memory.ts');
  await using server = startRangeway(args, { NODE_OPTIONS: `--import=${preload}` });
  const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
  const [, admin = ''] = await server.waitFor(/administered on (http:[^\s",]+)/);
  for (let round = 0; round < 3; round += 1) await requestAll(url, 0, firstEntries);
  const before = await read(server, admin);
  const rows: string[][] = [];
  for (const state of states) {
    const misses = await requestAll(url, firstEntries, firstEntries + entries);
    const after = await read(server, admin);
    const figures = [
      (after.heapUsed + after.external - before.heapUsed - before.external) / entries - bodyBytes,
      (after.heapUsed - before.heapUsed) / entries,
      (after.counted - before.counted) / entries - bodyBytes,
      misses,
    ];
    rows.push([state, ...figures.map((figure) => String(Math.round(figure)))]);
  }
  await server.stop('SIGTERM');
  return rows;
}

/** The live memory of the server, and what its memory tier counts, in bytes. */
interface Reading {
  readonly heapUsed: number;
  readonly external: number;
  readonly counted: number;
}

async function read(server: RangewayProcess, admin: string): Promise<Reading> {
  const live = await collect(server);
  const { bytes } = await ask(`${admin}/metrics`);
  const counted = /^rangeway_store_memory_bytes ([0-9.e+]+)$/m.exec(bytes.toString())?.[1];
  return { ...live, counted: Number(counted) };
}

/** Has the server collect its garbage, and returns what is left. */
async function collect(server: RangewayProcess): Promise<Omit<Reading, 'counted'>> {
  const { length } = server.output();
  process.kill(server.pid, 'SIGUSR2');
  for (;;) {
    const report = /live \d+ (\{.*\})\n/.exec(server.output().slice(length))?.[1];
    if (report !== undefined) return JSON.parse(report);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Requests the entries of these numbers, a few at a time. Returns the number of responses that came from the origin. */
async function requestAll(url: string, first: number, end: number): Promise<number> {
  let next = first;
  let misses = 0;
  const worker = async () => {
    for (let number = next++; number < end; number = next++) {
      const path = `/library/thumbnails/2026/01/image-${number}.webp`;
      const { message, bytes } = await ask(`${url}${path}`, { host: 'library.example' });
      if (message.statusCode !== 200 || bytes.length !== bodyBytes) {
        throw new BenchFault(`status ${message.statusCode} and ${bytes.length} bytes`);
      }
      if (!String(message.headers['cache-status']).includes('hit')) misses += 1;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return misses;
}

/** A response that has arrived. */
interface Arrived {
  readonly message: IncomingMessage;
  readonly bytes: Buffer;
}

async function ask(url: string, headers: Record<string, string> = {}): Promise<Arrived> {
  const request = get(url, { agent, headers });
  const [message] = (await once(request, 'response')) as [IncomingMessage];
  return { message, bytes: await buffer(message) };
}
