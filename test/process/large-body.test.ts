import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { Download } from '../support/clients/download.ts';
import { openPeriodicOrigin, type PeriodicOrigin } from '../support/origins/periodic-origin.ts';
import { itOnLinux, peakMemoryBytes } from '../support/processes/process-status.ts';
import { type RangewayProcess, startProxy } from '../support/processes/rangeway-process.ts';

const mebibyte = 1024 * 1024;

/** Upper limit on the memory of the process, whatever the size of the body. */
const memoryBytes = 512 * mebibyte;

/** Distance between the two readers: more than may be buffered for the slower one, or less than the window of a fill. */
const farBehind = memoryBytes + 128 * mebibyte;
const littleBehind = mebibyte;

/** CI sets RANGEWAY_LARGE_BODY_BYTES=4400000000. The default already tells a buffered body from a streamed one. */
const { RANGEWAY_LARGE_BODY_BYTES: askedBytes = 576 * mebibyte } = process.env;
const relayedBytes = Number(askedBytes);
/** A stored body must fit on the disk. */
const storedBytes = Math.min(relayedBytes, 2048 * mebibyte);
if (!(storedBytes > memoryBytes)) throw new Error(`a body of ${askedBytes} bytes fits into memory and proves nothing`);

/** Allows for 30 MB/s on a slow machine. */
const timeoutMs = (bytes: number): number => 60_000 + bytes / 30_000;

type Proxy = RangewayProcess & { readonly url: string };

describe('a body larger than the memory of the process', () => {
  itOnLinux(
    'too large for the disk store, of known length: is relayed to each reader at its own pace',
    () =>
      withProxy({ sizeBytes: relayedBytes, hasLength: true, store: 'disk', maxSize: '64MB' }, async (proxy, origin) => {
        const { fast, slow } = await downloadTwice(proxy, origin, farBehind);
        expect([fast, slow].map(({ status, bytes }) => [status, bytes])).toEqual(wholes(relayedBytes));
        expect(fast.headers['cache-status']).toContain('detail=too-large');
        expect(origin.requests).toBe(2);
      }),
    timeoutMs(2 * relayedBytes),
  );

  for (const store of ['disk', 'memory'] as const) {
    itOnLinux(
      `outgrows the ${store} store, of unknown length: two readers share one fill, at the pace of the slower one`,
      () =>
        withProxy({ sizeBytes: relayedBytes, hasLength: false, store, maxSize: '64MB' }, async (proxy, origin) => {
          const { fast, slow } = await downloadTwice(proxy, origin, littleBehind);
          expect([fast, slow].map(({ status, bytes }) => [status, bytes])).toEqual(wholes(relayedBytes));
          await proxy.waitFor(/"event":"fill".*"result":"relayed"/);
          expect(origin.requests).toBe(1);
        }),
      timeoutMs(2 * relayedBytes),
    );
  }

  itOnLinux(
    'that fits into the disk store: lets a reader stay far behind, and its ranges are hits afterwards',
    () =>
      withProxy({ sizeBytes: storedBytes, hasLength: true, store: 'disk', maxSize: '5GB' }, async (proxy, origin) => {
        const { fast, slow } = await downloadTwice(proxy, origin, farBehind);
        expect([fast, slow].map(({ status, bytes }) => [status, bytes])).toEqual(wholes(storedBytes));
        await proxy.waitFor(/"event":"fill".*"result":"stored"/);

        const start = storedBytes - 3 * mebibyte - 1;
        const tail = await new Download(`${proxy.url}/body`, { range: { value: `bytes=${start}-`, start } }).ended;
        expect([tail.status, tail.bytes]).toEqual([206, 3 * mebibyte + 1]);
        expect(tail.headers['content-range']).toBe(`bytes ${start}-${storedBytes - 1}/${storedBytes}`);
        expect(tail.headers['cache-status']).toContain('hit');
        expect(origin.requests).toBe(1);
      }),
    timeoutMs(3 * storedBytes),
  );
});

interface Setting {
  readonly sizeBytes: number;
  readonly hasLength: boolean;
  readonly store: 'disk' | 'memory';
  readonly maxSize: string;
}

/** Runs a test with a new proxy in front of an origin with one body, and checks the peak memory of the proxy. */
async function withProxy(
  { sizeBytes, hasLength, store, maxSize }: Setting,
  test: (proxy: Proxy, origin: PeriodicOrigin) => Promise<void>,
): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-large-body-'));
  try {
    await using origin = await openPeriodicOrigin({ sizeBytes, hasLength, firstBytes: mebibyte });
    const storeFlags = store === 'disk' ? ['--dir', dir] : ['--store', 'memory'];
    await using proxy = await startProxy(origin.url, [...storeFlags, '--max-size', maxSize, '--log-level', 'debug']);
    await test(proxy, origin);
    expect(peakMemoryBytes(proxy.pid)).toBeLessThan(memoryBytes);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Downloads the body twice at a time; the second download stays `bytesBehind` behind the first. */
async function downloadTwice({ url }: Proxy, origin: PeriodicOrigin, bytesBehind: number) {
  const leader = new Download(`${url}/body`);
  const follower = new Download(`${url}/body`, { behind: { leader, bytes: bytesBehind } });
  await Promise.all([leader.begun, follower.begun]);
  origin.goOn();
  const [fast, slow] = await Promise.all([leader.ended, follower.ended]);
  return { fast, slow };
}

function wholes(sizeBytes: number): [status: number, bytes: number][] {
  return [
    [200, sizeBytes],
    [200, sizeBytes],
  ];
}
