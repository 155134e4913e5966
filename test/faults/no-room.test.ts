/** A disk that other programs fill, and a directory without permissions: requests are served, and storing goes on again later. */

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
import { itAsRoot, startUnprivilegedProxy, unprivilegedId } from '../support/processes/root-only.ts';
import { mountSmallDisk } from '../support/processes/small-disk.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

type Proxy = Awaited<ReturnType<typeof startProxy>>;

/** How often the disk is full, or the directory closed. */
const times = Math.ceil(faultRounds / 50);
const timeoutMs = 60_000 + times * 3 * recoversWithinMs;

const diskBytes = 64_000_000;
/** Bodies in the index, of one block, and of many blocks. */
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

/** Requests new files, then parts of them and all of them again, while little or nothing can be stored. */
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

/** Waits until each of these paths is stored and served from the store. */
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

describe('a disk that another program fills', () => {
  itAsRoot(
    ['mount', 'umount'],
    'to the last byte, while the server runs, is logged once; requests are served, and storing goes on once there is room',
    async () => {
      await using origin = await openVersionedOrigin();
      await using disk = await mountSmallDisk(diskBytes);
      const flags = ['--dir', join(disk.dir, 'store'), '--max-size', '30MB', '--memory', '1MB', '--log-level', 'debug'];
      await using proxy = await startProxy(origin.url, flags);
      const descriptors = descriptorsOf(proxy);
      const stored = newPaths();
      await expectStored(proxy, stored);

      for (let time = 1; time <= times; time += 1) {
        await fillUp(join(disk.dir, 'other'));
        await expectRequestsGoOn(proxy);
        const lines = storeLines(proxy.output());
        // At most once in ten minutes, however often the disk is full.
        expect(lines.filter((line) => line.includes('Storing is off: the disk is full.'))).toHaveLength(1);
        // The other lines are of the first bodies that could not be stored, for each possible reason.
        expect(lines.length, lines.join('\n')).toBeLessThanOrEqual(4);
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

describe('a directory without permissions', () => {
  itAsRoot(
    ['setpriv'],
    'while the server runs, is logged once; requests are served, and storing goes on once they are back',
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
        const stored = newPaths();
        await expectStored(proxy, stored);

        for (let time = 1; time <= times; time += 1) {
          await chmod(dir, 0);
          await expectRequestsGoOn(proxy);
          for (const path of stored) await askWhole(proxy, path);
          const lines = storeLines(proxy.output());
          expect(lines.filter((line) => line.includes('Storing is off: the disk cannot be written.'))).toHaveLength(1);
          // The other lines are of the first body that could not be stored, and the first that could not be opened.
          expect(lines.length, lines.join('\n')).toBeLessThanOrEqual(4);
          await chmod(dir, 0o700);
          // No entry was lost.
          const before = origin.requests;
          for (const path of stored) expect((await askWhole(proxy, path)).isHit, path).toBe(true);
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
