/**
 * A server that ends in the middle of a transfer loses the block that was arriving, and with SIGKILL the blocks that were not
 * written yet. The next server fetches only the rest.
 */

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import { BlockSums } from '../../src/store/disk/bodies/block-sums.ts';
import { askVerified, type Verified } from '../support/clients/versioned-client.ts';
import { until } from '../support/clocks/until.ts';
import { type FaultyOrigin, type FileKind, faultyPath, openFaultyOrigin } from '../support/origins/faulty-origin.ts';
import { faultRounds, faultSeed } from '../support/processes/fault-rounds.ts';
import { type FaultServer, type FaultServerOptions, startFaultServer } from '../support/processes/fault-server.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { seededRandom } from '../support/stores/traces.ts';

const block = 64 * 1024;
/** Too large for the proxy to complete it without a client. */
const sizeBytes = 8_000_001;
const times = Math.max(1, Math.round(faultRounds / 50));
const random = seededRandom(faultSeed);

const ends = ['SIGKILL', 'SIGTERM'] as const;

let root: string;
let origin: FaultyOrigin;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'rangeway-restart-'));
  origin = await openFaultyOrigin();
});
afterAll(async () => {
  await origin[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

let lastFile = 0;
function newPath(kind: FileKind): string {
  lastFile += 1;
  return faultyPath({ route: 'main', kind, sizeBytes, file: lastFile });
}

const startOn = (dir: string, parallel?: FaultServerOptions['parallel']): Promise<FaultServer> => {
  const options = { originUrl: origin.url, dir, blockSizeBytes: block, bodyTimeoutSeconds: 60, routes: ['main'] };
  return startFaultServer(parallel === undefined ? options : { ...options, parallel });
};

const ask = (server: FaultServer, path: string, range?: string): Promise<Verified> =>
  askVerified({ base: server.url, path, range });

/** A request, and the offset at which the origin stops sending. */
interface Halfway {
  readonly path: string;
  readonly start?: number;
  readonly end: number;
}

/** Sends a request. `hasCome` resolves when the bytes up to `end` have arrived; `asking` is the result of the request. */
function askHalfway(server: FaultServer, { path, start = 0, end }: Halfway) {
  // Only the response that includes `end` stalls, because a connection whose response is whole takes the next request.
  origin.twist(path, (honest) =>
    end < honest.span.end ? { ...honest, end: 'stall', cutAfterBytes: end - honest.span.start } : honest,
  );
  const { promise: hasCome, resolve } = Promise.withResolvers<void>();
  let left = end - start;
  const onChunk = (bytes: number): void => {
    left -= bytes;
    if (left <= 0) resolve();
  };
  const range = start > 0 ? `bytes=${start}-` : undefined;
  const asking = askVerified({ base: server.url, path, range, onChunk });
  return { asking, hasCome: Promise.race([hasCome, asking]) };
}

/** Waits until block `index` of the only body in the store is on the disk: clients get bytes before the disk does. */
async function untilWritten(dir: string, ...indexes: readonly number[]): Promise<void> {
  await until(`blocks ${indexes} are on the disk`, async () => {
    const sidecar = (await readdir(dir, { recursive: true })).find((name) => name.endsWith('.sums'));
    if (sidecar === undefined) return false;
    const sums = new BlockSums(await readFile(join(dir, sidecar)));
    return indexes.every((index) => sums.get(index) !== undefined);
  });
}

/** Ends a server when all requests have arrived up to their `end`; checks that the clients are visibly cut off. */
async function endAt(dir: string, signal: 'SIGKILL' | 'SIGTERM', ...wanted: readonly Halfway[]): Promise<void> {
  await using server = await startOn(dir);
  const asked = wanted.map((halfway) => askHalfway(server, halfway));
  await Promise.all(asked.map(({ hasCome }) => hasCome));
  const [only, ...others] = wanted;
  if (only !== undefined && others.length === 0) await untilWritten(dir, Math.floor(only.end / block) - 1);
  expect(await server.stop(signal), server.output()).toBe(signal === 'SIGTERM' ? 0 : null);
  for (const { asking } of asked) expect((await asking).isComplete).toBe(false);
  for (const { path } of wanted) origin.twist(path, undefined);
}

/** Waits until the whole is served from the store, and checks that no more requests go to the origin. */
async function expectKept(server: FaultServer, path: string): Promise<void> {
  await until(`${path} is a hit`, async () => {
    const { isHit, isComplete } = await ask(server, path);
    return isHit && isComplete;
  });
  const before = origin.requestsFor(path);
  for (const range of [undefined, 'bytes=-1', `bytes=${3 * block}-${5 * block}`]) {
    const { isHit, isComplete } = await ask(server, path, range);
    expect([isHit, isComplete], range).toEqual([true, true]);
  }
  expect(origin.requestsFor(path)).toBe(before);
}

describe.each(ends)('a server that ends by %s in the middle of a transfer', (signal) => {
  it(`is resumed by the next one, at an origin with ranges (seed ${faultSeed})`, {
    timeout: 60_000 + times * 10_000,
  }, async () => {
    for (let time = 1; time <= times; time += 1) {
      const dir = await mkdtemp(join(root, 'store-'));
      const path = newPath('ranged');
      const end = Math.floor(block * 2 + random() * (sizeBytes - block * 2));
      await endAt(dir, signal, { path, end });

      const name = `${path} ended at ${end}`;
      await using server = await startOn(dir);
      const before = origin.requestsFor(path);
      const lastPresent = Math.floor(end / block) * block - 1;
      for (const range of ['bytes=0-0', `bytes=${block - 10}-${lastPresent}`, `bytes=0-${lastPresent}`]) {
        const { status, isHit, isComplete } = await ask(server, path, range);
        expect([status, isHit, isComplete], `${name} ${range}`).toEqual([206, true, true]);
      }
      expect(origin.requestsFor(path), name).toBe(before);

      const { status, isComplete } = await ask(server, path);
      expect([status, isComplete], name).toEqual([200, true]);
      expect(origin.bytesFor(path), name).toBeLessThanOrEqual(sizeBytes + block);
      await expectKept(server, path);
      expect(storeLines(server.output())).toEqual([]);
      expect(await server.stop('SIGTERM'), server.output()).toBe(0);
    }
  });

  it('with fill.parallel leaves what each transfer has brought, and only the rest is fetched', async () => {
    const parallel = { minBytes: '1MB', partBytes: '1MB' };
    const dir = await mkdtemp(join(root, 'store-'));
    const path = newPath('ranged');
    const cutAfterBytes = 4 * block + 100;
    const begun: Span[] = [];
    origin.twist(path, (honest) => {
      begun.push(honest.span);
      return honest.span.end - honest.span.start > cutAfterBytes ? { ...honest, end: 'stall', cutAfterBytes } : honest;
    });
    const stored = () => begun.map(({ start, end }) => ({ start, end: Math.min(end, start + 4 * block) }));
    {
      await using server = await startOn(dir, parallel);
      // The origin is known to have ranges from here on.
      expect((await ask(server, path, `bytes=0-${block - 1}`)).isComplete).toBe(true);
      const asking = ask(server, path);
      await expect.poll(() => begun.length).toBe(5);
      await untilWritten(dir, ...stored().map(({ end }) => end / block - 1));
      expect(await server.stop(signal), server.output()).toBe(signal === 'SIGTERM' ? 0 : null);
      expect((await asking).isComplete).toBe(false);
    }
    const kept = stored();
    begun.length = 0;
    origin.twist(path, (honest) => {
      begun.push(honest.span);
      return honest;
    });
    await using server = await startOn(dir, parallel);
    for (const { start, end } of kept)
      expect((await ask(server, path, `bytes=${start}-${end - 1}`)).isComplete).toBe(true);
    expect(begun).toEqual([]);
    expect((await ask(server, path)).isComplete).toBe(true);
    for (const { start, end } of kept) expect(begun.filter((span) => span.start < end && start < span.end)).toEqual([]);
    await expectKept(server, path);
    expect(storeLines(server.output())).toEqual([]);
  });

  it('leaves a part from the middle of the file, which is resumed', async () => {
    const dir = await mkdtemp(join(root, 'store-'));
    const path = newPath('ranged');
    const [start, end] = [40 * block, 60 * block + 100];
    await endAt(dir, signal, { path, start: start + 5, end });

    await using server = await startOn(dir);
    const before = origin.requestsFor(path);
    const { isHit, isComplete } = await ask(server, path, `bytes=${start}-${end - 200}`);
    expect([isHit, isComplete, origin.requestsFor(path)]).toEqual([true, true, before]);
    expect((await ask(server, path)).isComplete).toBe(true);
    expect(origin.bytesFor(path)).toBeLessThanOrEqual(sizeBytes + 2 * block);
    await expectKept(server, path);
  });

  it('is resumed at an origin that sends the whole again: the stored bytes are compared', async () => {
    const dir = await mkdtemp(join(root, 'store-'));
    const path = newPath('tagged');
    const end = 30 * block + 100;
    await endAt(dir, signal, { path, end });

    await using server = await startOn(dir);
    const before = origin.requestsFor(path);
    expect((await ask(server, path, `bytes=100-${30 * block - 1}`)).isHit).toBe(true);
    expect(origin.requestsFor(path)).toBe(before);
    expect((await ask(server, path)).isComplete).toBe(true);
    expect(origin.bytesFor(path)).toBeLessThanOrEqual(sizeBytes + end);
    await expectKept(server, path);
  });

  it('leaves nothing of a file without a strong validator', async () => {
    const dir = await mkdtemp(join(root, 'store-'));
    const paths = (['weak', 'whole'] as const).map(newPath);
    await endAt(dir, signal, ...paths.map((path) => ({ path, end: 30 * block + 100 })));

    await using server = await startOn(dir);
    for (const path of paths) {
      const { headers, isComplete } = await ask(server, path, 'bytes=0-99');
      expect([headers['cache-status'], isComplete], path).toEqual([expect.stringContaining('fwd=uri-miss'), true]);
      await expectKept(server, path);
    }
  });

  it('leaves parts that are never combined with changed content', async () => {
    const dir = await mkdtemp(join(root, 'store-'));
    const cases = (['ranged', 'tagged'] as const).flatMap((kind) =>
      [0, 1].map((growthBytes) => ({ path: newPath(kind), end: 30 * block + 100, growthBytes })),
    );
    await endAt(dir, signal, ...cases);
    for (const { path, growthBytes } of cases) origin.change(path, growthBytes);

    await using server = await startOn(dir);
    for (const { path } of cases) {
      // The part is fresh, and a hit for its blocks. A request for more is cut off there, or gets the new content.
      const early = await ask(server, path, `bytes=0-${10 * block}`);
      expect([early.isHit, early.version?.version], path).toEqual([true, 0]);
      const late = await ask(server, path);
      if (late.version?.version === 0) expect([late.isComplete, late.bytes], path).toEqual([false, 30 * block]);
      await until(`${path} comes whole`, async () => (await ask(server, path)).isComplete);
      expect((await ask(server, path)).version?.version, path).toBe(1);
      await expectKept(server, path);
    }
  });

  it('keeps complete entries', async () => {
    const dir = await mkdtemp(join(root, 'store-'));
    const paths = (['ranged', 'tagged', 'weak', 'whole'] as const).map(newPath);
    await using first = await startOn(dir);
    for (const path of paths) await expectKept(first, path);
    await first.stop('SIGTERM');
    await endAt(dir, signal, { path: newPath('ranged'), end: 30 * block });

    await using server = await startOn(dir);
    const before = paths.map((path) => origin.requestsFor(path));
    for (const path of paths) await expectKept(server, path);
    expect(paths.map((path) => origin.requestsFor(path))).toEqual(before);
  });
});
