/** Load and faults together: many idle, slow and leaving clients, and ordinary clients among them. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect } from 'vitest';
import { Crowd, type Ports } from '../support/clients/crowd.ts';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import { expectPromptEnd } from '../support/processes/process-remains.ts';
import { itOnLinux, openDescriptors, residentBytes } from '../support/processes/process-status.ts';
import { type RangewayProcess, startRangeway } from '../support/processes/rangeway-process.ts';
import { isPeriodic, periodicPiece } from '../support/values/periodic-body.ts';
import { testAuthority, writeTestCertificate } from '../support/values/tls-certificate.ts';

const mebibyte = 1024 * 1024;
const largeBytes = 24 * mebibyte;
const mediumBytes = 600_000;
const smallBytes = 10_000;
const mediumCount = 40;

const idleCount = 2_000;
const slowCount = 200;
const leaverCount = 200;
const wave = 40;

/** The ordinary clients. */
const ordinaryCount = 20;
const requestsEach = 25;

/** The heap takes some rounds to find its size. */
const rounds = 5;

/** Files that are kept open for the next reader, and connections to the origin. */
const spareDescriptors = 24;

/**
 * Resident bytes that the last two rounds may have more than the two before them. The lesser of two counts, because the
 * memory after a round depends on when the garbage collector last ran.
 */
const growthBytes = 32 * mebibyte;

const headOf = (path: string, fields = '') => `GET ${path} HTTP/1.1\r\nHost: files.example\r\n${fields}\r\n`;

describe(`${idleCount} idle connections, ${slowCount} slow readers and ${leaverCount} clients that leave`, () => {
  itOnLinux(
    'do not keep ordinary clients from being served, and leave nothing behind',
    async () => {
      const dir = await mkdtemp(join(tmpdir(), 'rangeway-load-'));
      try {
        await using origin = await openOrigin();
        await underLoad(dir, origin.url);
        await expectSound(dir, origin.url);
      } finally {
        await rm(dir, { recursive: true, force: true });
      }
    },
    120_000,
  );
});

async function underLoad(dir: string, origin: string): Promise<void> {
  const { server, ports } = await start(dir, origin);
  await using _ = server;
  // Fills the cache with the files that ordinary clients ask for.
  await serveOrdinary(ports, () => {});
  const before = openDescriptors(server.pid);
  const resident: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await oneRound(ports, round);
    await expect.poll(() => openDescriptors(server.pid)).toBeLessThan(before + spareDescriptors);
    resident.push(residentBytes(server.pid));
  }
  const [earlier, last] = [resident.slice(-4, -2), resident.slice(-2)];
  expect(Math.min(...last) - Math.min(...earlier), `resident: ${resident.map(mib).join(', ')}`).toBeLessThan(
    growthBytes,
  );
  expect(server.output()).not.toMatch(/"error":"internal"/);
  await expectPromptEnd(server);
}

/** Serves the ordinary clients while the crowd is connected. */
async function oneRound(ports: Ports, round: number): Promise<void> {
  using crowd = new Crowd(ports);
  await crowd.addIdle(idleCount / 2, headOf('/small/0'), true);
  await crowd.addIdle(idleCount / 2, headOf('/small/0').slice(0, -2), false);
  await crowd.addSlow(slowCount / 2, '/large');
  await crowd.addStalledStreams(slowCount / 2, '/large');
  expect(crowd.size).toBeGreaterThan(idleCount + slowCount / 2);

  let left = 0;
  const pathOf = (at: number) => (at % 2 === 0 ? '/large' : `/medium/${(round * leaverCount + at) % mediumCount}`);
  const leavers: Promise<void>[] = [];
  await serveOrdinary(ports, (answered) => {
    crowd.readOn();
    // Starts the leavers in waves, over the whole time of the ordinary requests.
    if (left >= leaverCount || answered * leaverCount < left * ordinaryCount * requestsEach) return;
    left += wave;
    leavers.push(crowd.comeAndGo(wave - 10, pathOf), crowd.cancelStreams(10, pathOf));
  });
  await Promise.all(leavers);
  expect(left).toBe(leaverCount);
}

/** Serves all ordinary clients, every other one over HTTP/2. Calls `onAnswer` after each answer with their number so far. */
async function serveOrdinary(ports: Ports, onAnswer: (answered: number) => void): Promise<void> {
  let answered = 0;
  const tell = (): void => {
    answered += 1;
    onAnswer(answered);
  };
  await Promise.all(
    Array.from({ length: ordinaryCount }, (_, client) =>
      client % 2 === 0 ? overHttp1(ports, client, tell) : overHttp2(ports, client, tell),
    ),
  );
  expect(answered).toBe(ordinaryCount * requestsEach);
}

/** Returns the bytes of a client's `at`-th request (`end` is exclusive): a small file, or a range of the large one. */
function wanted(client: number, at: number): { readonly path: string; readonly start: number; readonly end: number } {
  if (at % 2 === 0) return { path: `/small/${(client + at) % 50}`, start: 0, end: smallBytes };
  const start = (client * 1_234_567 + at * 7_654_321) % (largeBytes - 70_000);
  return { path: '/large', start, end: start + 65_536 };
}

async function overHttp1({ http }: Ports, client: number, tell: () => void): Promise<void> {
  await using raw = await RawClient.open(http);
  for (let at = 0; at < requestsEach; at += 1) {
    const { path, start, end } = wanted(client, at);
    const range = path === '/large' ? `Range: bytes=${start}-${end - 1}\r\n` : '';
    const { status, body, isWhole } = await raw.exchange(headOf(path, range));
    expect([status, isWhole, body.length]).toEqual([path === '/large' ? 206 : 200, true, end - start]);
    expect(isPeriodic(body, start)).toBe(true);
    tell();
  }
}

async function overHttp2({ https }: Ports, client: number, tell: () => void): Promise<void> {
  const session: ClientHttp2Session = connectHttp2(`https://localhost:${https}`, { ca: testAuthority });
  for (let at = 0; at < requestsEach; at += 1) {
    const { path, start, end } = wanted(client, at);
    const range = path === '/large' ? { range: `bytes=${start}-${end - 1}` } : {};
    const stream = session.request({ ':path': path, ...range });
    const [[headers], body] = await Promise.all([once(stream, 'response'), buffer(stream)]);
    expect([headers[':status'], body.length]).toEqual([path === '/large' ? 206 : 200, end - start]);
    expect(isPeriodic(body, start)).toBe(true);
    tell();
  }
  await new Promise<void>((resolve) => session.close(resolve));
}

/** Checks that the next process finds the stored bodies, and that their bytes are right. */
async function expectSound(dir: string, origin: string): Promise<void> {
  const { server, ports } = await start(dir, origin);
  await using _ = server;
  await using raw = await RawClient.open(ports.http);
  const large = await raw.exchange(headOf('/large'));
  expect([rawValues(large, 'cache-status'), large.body.length]).toEqual([
    [expect.stringMatching(/hit|partial/)],
    largeBytes,
  ]);
  expect(isPeriodic(large.body, 0)).toBe(true);
  for (let at = 0; at < mediumCount; at += 1) {
    const { body, isWhole } = await raw.exchange(headOf(`/medium/${at}`));
    expect([isWhole, body.length]).toEqual([true, mediumBytes]);
    expect(isPeriodic(body, 0)).toBe(true);
  }
}

async function start(dir: string, origin: string): Promise<{ server: RangewayProcess; ports: Ports }> {
  const config = {
    listen: [
      '127.0.0.1:0',
      { address: '127.0.0.1:0', tls: { certificates: [await writeTestCertificate(dir)] }, http2: true },
    ],
    limits: {
      connections: 5_000,
      connectionsPerClient: 5_000,
      headersTimeoutSeconds: 600,
      keepAliveTimeoutSeconds: 600,
    },
    // Less than the working set, so that files are read and blocks evicted.
    store: { dir: join(dir, 'store'), memoryBytes: '8MB', idleFileSeconds: 1 },
    log: { format: 'json', level: 'info' },
    routes: [{ origin }],
  };
  const file = join(dir, 'rangeway.json');
  await writeFile(file, JSON.stringify(config));
  const server = startRangeway(['--config', file]);
  const [, http = ''] = await server.waitFor(/http:\/\/127\.0\.0\.1:(\d+)/);
  const [, https = ''] = await server.waitFor(/https:\/\/127\.0\.0\.1:(\d+)/);
  return { server, ports: { http: Number(http), https: Number(https) } };
}

async function openOrigin(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}

/** Answers at the origin: a body by the first segment of the path, whole or one range. */
function answer({ url = '', headers }: IncomingMessage, response: ServerResponse): void {
  const sizeBytes = url === '/large' ? largeBytes : url.startsWith('/medium/') ? mediumBytes : smallBytes;
  const [, first, last = ''] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
  const start = Number(first ?? 0);
  const end = last === '' ? sizeBytes : Math.min(sizeBytes, Number(last) + 1);
  response.setHeader('cache-control', 'max-age=3600').setHeader('etag', `"${url}"`);
  response.setHeader('accept-ranges', 'bytes').setHeader('content-length', end - start);
  if (first !== undefined) response.setHeader('content-range', `bytes ${start}-${end - 1}/${sizeBytes}`);
  response.writeHead(first === undefined ? 200 : 206);
  for (let at = start; at < end; ) {
    const piece = periodicPiece(at, end);
    response.write(piece);
    at += piece.length;
  }
  response.end();
}

const mib = (bytes = 0) => `${Math.round(bytes / mebibyte)} MiB`;
