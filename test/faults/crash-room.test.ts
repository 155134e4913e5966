/** A store that is killed amid fills, again and again: what is on the disk stays within the store's size all the time. */

import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { askVerified } from '../support/clients/versioned-client.ts';
import { until } from '../support/clocks/until.ts';
import { openVersionedOrigin, pathOf } from '../support/origins/versioned-origin.ts';
import { faultRounds, faultSeed } from '../support/processes/fault-rounds.ts';
import { childrenOf, isRunning } from '../support/processes/fleet-process.ts';
import { itOnLinux } from '../support/processes/process-status.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { seededRandom } from '../support/stores/traces.ts';

const storeBytes = 20_000_000;
/** What the index and its log take beyond the rows that are counted, and the directories. */
const besidesBytes = 12_000_000;
/** What is removed and what is written while one file after the other is looked at. */
const inBetweenBytes = 1_000_000;
const rounds = Math.ceil(faultRounds / 10);
const requestsAtOnce = 12;
/** The server is killed when at most so many chunks have come. */
const maxChunks = 400;
const sizes = [40_000, 900_001, 3_000_001, 7_000_000];

/** What files take on the disk, in bytes: those of bodies, and all of them. */
interface Allocated {
  readonly bodies: number;
  readonly all: number;
}

/** What all files in a directory take. */
async function allocatedBytes(dir: string): Promise<Allocated> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true }).catch(() => []);
  let [bodies, all] = [0, 0];
  for (const { parentPath, name } of entries) {
    const stats = await lstat(join(parentPath, name)).catch(() => undefined);
    const bytes = (stats?.blocks ?? 0) * 512;
    all += bytes;
    if (/\.(?:body|sums)$/.test(name)) bodies += bytes;
  }
  return { bodies, all };
}

async function killAll({ pid, stop }: RangewayProcess): Promise<void> {
  const pids = childrenOf(pid);
  const stopped = stop('SIGKILL');
  for (const each of pids) if (isRunning(each)) process.kill(each, 'SIGKILL');
  await stopped;
  await until('all have ended', async () => !pids.some(isRunning));
}

/** Starts on a store, asks for files at once, and is killed while they are filled; gives the most that was on the disk, and what is left. */
async function killAmidFills(
  config: { readonly store: { readonly dir: string } },
  dir: string,
  random: () => number,
): Promise<{ readonly most: Allocated; readonly left: Allocated }> {
  await using server = await startConfigured(dir, config);
  let isOver = false;
  const most = { bodies: 0, all: 0 };
  const look = async (): Promise<void> => {
    const { bodies, all } = await allocatedBytes(config.store.dir);
    most.bodies = Math.max(most.bodies, bodies);
    most.all = Math.max(most.all, all);
  };
  const watch = async (): Promise<void> => {
    for (; !isOver; await setImmediate()) await look();
  };
  const watching = watch();
  let chunksLeft = 1 + Math.floor(random() * maxChunks);
  const { promise: killing, resolve: kill } = Promise.withResolvers<void>();
  const onChunk = (): void => {
    chunksLeft -= 1;
    if (chunksLeft === 0) kill();
  };
  const ask = async (): Promise<void> => {
    while (!isOver) {
      const sizeBytes = sizes[Math.floor(random() * sizes.length)] ?? 0;
      const file = Math.floor(random() * 1000);
      const path = pathOf({ kind: random() < 0.7 ? 'ranged' : 'whole', freshSeconds: 36_000, sizeBytes, file });
      const range = random() < 0.5 ? undefined : `bytes=${Math.floor(random() * sizeBytes)}-`;
      await askVerified({ base: server.url, path, range, onChunk });
    }
  };
  const asking = Promise.all(Array.from({ length: requestsAtOnce }, ask));
  await killing;
  isOver = true;
  await killAll(server);
  await Promise.all([asking, watching]);
  const left = await allocatedBytes(config.store.dir);
  // More is being filled at once than the store has room for.
  expect(storeLines(server.output()).filter((line) => !line.includes('no room left'))).toEqual([]);
  return { most, left };
}

describe('a store of 20 MB that is killed amid fills', () => {
  const fleets: readonly (readonly [string, object])[] = [
    ['alone', {}],
    ['with workers', { workers: 2 }],
  ];
  for (const [name, options] of fleets) {
    itOnLinux(
      `${name}, ${rounds} times, never has more on the disk (seed ${faultSeed})`,
      async () => {
        const random = seededRandom(faultSeed);
        const dir = await mkdtemp(join(tmpdir(), 'rangeway-room-'));
        try {
          await using origin = await openVersionedOrigin(() => Math.floor(random() * 100));
          const config = {
            ...options,
            listen: '127.0.0.1:0',
            store: { dir: join(dir, 'store'), maxSizeBytes: storeBytes, memoryBytes: 1_000_000 },
            routes: [{ origin: { url: origin.url } }],
          };
          for (let round = 1; round <= rounds; round += 1) {
            const { most, left } = await killAmidFills(config, dir, random);
            expect(left.bodies, `left in round ${round}`).toBeLessThanOrEqual(storeBytes);
            expect(most.bodies, `bodies in round ${round}`).toBeLessThanOrEqual(storeBytes + inBetweenBytes);
            expect(most.all, `all files in round ${round}`).toBeLessThanOrEqual(storeBytes + besidesBytes);
          }
        } finally {
          await rm(dir, { recursive: true, force: true });
        }
      },
      60_000 + rounds * 8000,
    );
  }
});
