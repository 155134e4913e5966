import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect } from 'vitest';
import { Download } from '../support/clients/download.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { openPeriodicOrigin } from '../support/origins/periodic-origin.ts';
import { itOnLinux, openDescriptors } from '../support/processes/process-status.ts';
import { projectDirectory, startProxy } from '../support/processes/rangeway-process.ts';
import { isPeriodic, periodicPiece } from '../support/values/periodic-body.ts';

const sizeBytes = 8 * 1024 * 1024 + 1;
/** The origin sends these bytes while the first clients come and go. */
const firstBytes = sizeBytes >> 1;

const clientsAtOnce = 100;
const seed = 20_260_101;

/** A client that leaves before the end of its response. */
interface Leaver {
  /** Start of its range; undefined: it asks for the whole body. */
  readonly start: number | undefined;
  /** Bytes of the body that it reads at most before it leaves; undefined: it does not even wait for the head. */
  readonly readBytes: number | undefined;
  readonly way: 'reset' | 'close';
}

const leavers = fc.record<Leaver>({
  start: fc.option(fc.integer({ min: 0, max: sizeBytes - 1 }), { nil: undefined, freq: 3 }),
  readBytes: fc.option(fc.integer({ min: 0, max: sizeBytes }), { nil: undefined, freq: 5 }),
  way: fc.constantFrom('reset', 'close'),
});

/** Sends the request, reads only bytes below offset `presentBytes`, and leaves. */
async function comeAndGo(url: URL, { start, readBytes, way }: Leaver, presentBytes: number): Promise<void> {
  await using client = await RawClient.open(Number(url.port));
  const rangeLine = start === undefined ? '' : `Range: bytes=${start}-\r\n`;
  client.send(`GET /body HTTP/1.1\r\nHost: ${url.host}\r\n${rangeLine}\r\n`);
  if (readBytes !== undefined) {
    expect((await client.head())?.status).toBe(start === undefined ? 200 : 206);
    const offset = start ?? 0;
    const bytes = await client.take(Math.max(0, Math.min(readBytes, presentBytes - offset)));
    expect(isPeriodic(bytes, offset), `${bytes.length} bytes from ${offset} on`).toBe(true);
  }
  if (way === 'reset') client.reset();
}

describe(`${2 * clientsAtOnce} clients that leave in the middle, of a fill and of hits (seed ${seed})`, () => {
  itOnLinux('the disk store keeps no file and no connection open for them', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-leaks-'));
    try {
      // Too little memory for the body, so that hits open its file.
      await expectNothingLeft(await storeIn(dir));
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });

  itOnLinux('the memory store keeps no connection open for them', () => expectNothingLeft(['--store', 'memory']));
});

/** Returns the flags of a small store that closes files soon after their last read. */
async function storeIn(dir: string): Promise<string[]> {
  const file = join(dir, 'rangeway.json');
  await writeFile(file, JSON.stringify({ store: { idleFileSeconds: 1 } }));
  return ['--config', file, '--dir', join(dir, 'store'), '--memory', '1MB'];
}

async function expectNothingLeft(storeFlags: readonly string[]): Promise<void> {
  await using origin = await openPeriodicOrigin({ sizeBytes, firstBytes, hasLength: true });
  await using proxy = await startProxy(origin.url, [...storeFlags, '--log-level', 'debug']);
  const url = new URL(proxy.url);
  const before = openDescriptors(proxy.pid);
  const all = fc.sample(leavers, { numRuns: 2 * clientsAtOnce, seed });

  await Promise.all(all.slice(0, clientsAtOnce).map((leaver) => comeAndGo(url, leaver, firstBytes)));
  origin.goOn();
  await proxy.waitFor(/"event":"fill".*"result":"stored"/);
  await Promise.all(all.slice(clientsAtOnce).map((leaver) => comeAndGo(url, leaver, sizeBytes)));

  await expect.poll(() => openDescriptors(proxy.pid)).toBe(before);
  const { status, bytes, headers } = await new Download(`${proxy.url}/body`).ended;
  expect([status, bytes]).toEqual([200, sizeBytes]);
  expect(headers['cache-status']).toContain('hit');
  // One request fetches the file. A few ranges far ahead ask the origin too, until it turns out that it has no ranges.
  expect(origin.requests).toBeLessThan(clientsAtOnce / 5);
}

describe('clients that abort in the middle', () => {
  const roundClients = 300;
  const pieceBytes = 256 * 1024;
  const bodyBytes = 8 * pieceBytes;
  /** A leaked client leaks its buffers, which are larger than this. The metadata of each URL is smaller. */
  const bytesForEach = 8 * 1024;

  /** Returns the head of a miss, of a hit, or of a range of a fill that other clients share. */
  const requestOf = (client: number): string => {
    if (client % 3 === 0) return `GET /miss/${client} HTTP/1.1\r\n`;
    if (client % 3 === 1) return `GET /hit HTTP/1.1\r\n`;
    return `GET /fill/${client >> 5} HTTP/1.1\r\nRange: bytes=${(client * 4093) % bodyBytes}-\r\n`;
  };

  itOnLinux(`leave nothing in memory: ${roundClients} more of them take no more`, async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-aborts-'));
    const body = Buffer.concat(Array.from({ length: 8 }, (_, index) => periodicPiece(index * pieceBytes, bodyBytes)));
    let running = 0;
    const origin = createServer((_request, response) => {
      running += 1;
      response.once('close', () => {
        running -= 1;
      });
      response.writeHead(200, { etag: '"v1"', 'cache-control': 'max-age=600', 'content-length': bodyBytes });
      response.end(body);
    });
    try {
      origin.listen(0, '127.0.0.1');
      await once(origin, 'listening');
      const { port } = origin.address() as AddressInfo;
      const environment = {
        NODE_OPTIONS: `--import=${join(projectDirectory, 'test/support/processes/report-memory.ts')}`,
      };
      await using proxy = await startProxy(`http://127.0.0.1:${port}`, await storeIn(dir), environment);
      const url = new URL(proxy.url);
      const descriptors = openDescriptors(proxy.pid);
      await new Download(`${proxy.url}/hit`).ended;

      const abort = async (client: number) => {
        await using leaver = await RawClient.open(Number(url.port));
        leaver.send(`${requestOf(client)}Host: ${url.host}\r\n\r\n`);
        await leaver.head();
        await leaver.take(1000);
        leaver.reset();
      };
      let reports = 0;
      const liveAfter = async (from: number) => {
        for (let client = from; client < from + roundClients; client += 30) {
          await Promise.all(Array.from({ length: 30 }, (_, index) => abort(client + index)));
        }
        // Fills that outlive their clients end here, and their bytes are stored.
        await expect.poll(() => running).toBe(0);
        await expect.poll(() => openDescriptors(proxy.pid)).toBeLessThanOrEqual(descriptors);
        reports += 1;
        process.kill(proxy.pid, 'SIGUSR2');
        const [, live = ''] = await proxy.waitFor(new RegExp(`live ${reports} (.*)`));
        const { heapUsed, external } = JSON.parse(live) as { heapUsed: number; external: number };
        return heapUsed + external;
      };
      // The first round compiles code and opens files that stay.
      await liveAfter(0);
      const before = await liveAfter(roundClients);
      expect(await liveAfter(2 * roundClients)).toBeLessThan(before + roundClients * bytesForEach);
    } finally {
      origin.closeAllConnections();
      origin.close();
      await rm(dir, { recursive: true, force: true });
    }
  });
});
