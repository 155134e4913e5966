/** A disk that others fill, and a directory that is closed to the server: requests go on, and storing comes back. */

import { chmod, chown, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { askVerified, type Verified } from '../support/clients/versioned-client.ts';
import { recoversWithinMs, until } from '../support/clocks/until.ts';
import { openVersionedOrigin, pathOf } from '../support/origins/versioned-origin.ts';
import { faultRounds } from '../support/processes/fault-rounds.ts';
import { descriptorsOf, expectNothingKept, expectPromptEnd } from '../support/processes/process-remains.ts';
import { startProxy } from '../support/processes/rangeway-process.ts';
import { itAsRoot, mountSmallDisk, startUnprivilegedProxy, unprivilegedId } from '../support/processes/root-only.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

type Proxy = Awaited<ReturnType<typeof startProxy>>;

/** How often a disk is full, or a directory closed, one time after the other. */
const times = Math.ceil(faultRounds / 50);
const timeoutMs = 60_000 + times * 3 * recoversWithinMs;

const diskBytes = 64_000_000;
/** In the index, in one block, in many. */
const sizes = [1000, 20_000, 40_000, 300_001, 2_500_001];

let lastFile = 0;
function newPaths(): string[] {
  return sizes.flatMap((sizeBytes) =>
    (['ranged', 'whole'] as const).map((kind) => {
      lastFile += 1;
      return pathOf({ kind, freshSeconds: 36_000, sizeBytes, file: lastFile });
    }),
  );
}

async function askWhole(proxy: Proxy, path: string): Promise<Verified> {
  const verified = await askVerified({ base: proxy.url, path });
  expect([verified.status, verified.isComplete], path).toEqual([200, true]);
  return verified;
}

/** Asks for new files, and for parts and all of them again, while nothing can be stored, or little. */
async function expectRequestsGoOn(proxy: Proxy): Promise<void> {
  for (let at = 0; at < 3; at += 1) {
    const paths = newPaths();
    await Promise.all(paths.map((path) => askWhole(proxy, path)));
    for (const path of paths) {
      const { status, isComplete } = await askVerified({ base: proxy.url, path, range: 'bytes=300-699' });
      expect([status, isComplete], path).toEqual([206, true]);
      await askWhole(proxy, path);
    }
  }
}

/** Sooner or later each of these is stored, and served from the store alone. */
async function expectStored(proxy: Proxy, paths: readonly string[]): Promise<void> {
  for (const path of paths) await until(`${path} is a hit`, async () => (await askWhole(proxy, path)).isHit);
}

/** Writes a file until the disk has no byte left. */
async function fillUp(path: string): Promise<void> {
  const file = await open(path, 'w');
  try {
    for (let pieceBytes = 1024 * 1024; pieceBytes >= 1; ) {
      const piece = patternBytes(0, pieceBytes);
      const isWritten = await file.write(piece).then(({ bytesWritten }) => bytesWritten === pieceBytes, isFull);
      if (!isWritten) pieceBytes = Math.floor(pieceBytes / 16);
    }
  } finally {
    await file.close();
  }
}

function isFull(error: unknown): false {
  if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') return false;
  throw error;
}

describe('a disk that another one fills', () => {
  itAsRoot(
    ['mount', 'umount'],
    'to the last byte, while the server runs: it is told once, requests go on, and storing comes back with the room',
    async () => {
      await using origin = await openVersionedOrigin();
      await using disk = await mountSmallDisk(diskBytes);
      const flags = ['--dir', join(disk.dir, 'store'), '--max-size', '30MB', '--memory', '1MB', '--log-level', 'debug'];
      await using proxy = await startProxy(origin.url, flags);
      const descriptors = descriptorsOf(proxy);
      const kept = newPaths();
      await expectStored(proxy, kept);

      for (let time = 1; time <= times; time += 1) {
        await fillUp(join(disk.dir, 'other'));
        await expectRequestsGoOn(proxy);
        const told = storeLines(proxy.output());
        // Once in ten minutes at the most, however often the disk is full.
        expect(told.filter((line) => line.includes('Storing is off: the disk is full.'))).toHaveLength(1);
        // Beside it one for the first body that was under way, for each of the two reasons that it can have.
        expect(told.length, told.join('\n')).toBeLessThanOrEqual(4);
        await rm(join(disk.dir, 'other'));
        await expectStored(proxy, newPaths());
      }
      expect(storeLines(proxy.output(), /^info$/).join()).toContain('Storing is on again.');
      await expectNothingKept(proxy, descriptors);
      await expectPromptEnd(proxy);
    },
    timeoutMs,
  );
});

describe('a directory that is closed to the server', () => {
  itAsRoot(
    ['setpriv'],
    'while it runs: it is told, requests go on, and storing comes back with the right to it',
    async () => {
      await using origin = await openVersionedOrigin();
      const dir = await mkdtemp(join(tmpdir(), 'rangeway-closed-'));
      try {
        await chown(dir, unprivilegedId, unprivilegedId);
        await using proxy = await startUnprivilegedProxy(origin.url, [
          '--dir',
          dir,
          '--memory',
          '1MB',
          '--log-level',
          'debug',
        ]);
        const descriptors = descriptorsOf(proxy);
        const kept = newPaths();
        await expectStored(proxy, kept);

        for (let time = 1; time <= times; time += 1) {
          await chmod(dir, 0);
          await expectRequestsGoOn(proxy);
          for (const path of kept) await askWhole(proxy, path);
          const told = storeLines(proxy.output());
          expect(told.filter((line) => line.includes('Storing is off: the disk cannot be written.'))).toHaveLength(1);
          // Beside it one for the first body that was under way, and one for the first that could not be opened.
          expect(told.length, told.join('\n')).toBeLessThanOrEqual(4);
          await chmod(dir, 0o700);
          // Nothing has been lost by it.
          const before = origin.requests;
          for (const path of kept) expect((await askWhole(proxy, path)).isHit, path).toBe(true);
          expect(origin.requests).toBe(before);
          await expectStored(proxy, newPaths());
        }
        await expectNothingKept(proxy, descriptors);
        await expectPromptEnd(proxy);
      } finally {
        await chmod(dir, 0o700);
        await rm(dir, { recursive: true, force: true });
      }
    },
    timeoutMs,
  );
});
