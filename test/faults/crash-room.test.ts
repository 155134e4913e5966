/** A server that is killed during fills, again and again: its files stay within the size of the store all the time. */

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
/** Allowance for the directories, and for what the index and its log take beyond the counted rows. */
const besidesBytes = 12_000_000;
/** Allowance for files that are removed and written while the files are measured one after the other. */
const inBetweenBytes = 1_000_000;
const rounds = Math.ceil(faultRounds / 10);
const requestsAtOnce = 12;
/** The server is killed after at most this many chunks have arrived. */
const maxChunks = 400;
const sizes = [40_000, 900_001, 3_000_001, 7_000_000];

/** Disk usage in bytes: of the body files, and of all files. */
interface Allocated {
  readonly bodies: number;
  readonly all: number;
}

/** Returns the disk usage of all files in a directory. */
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

/** Starts a server, requests files, and kills it while it fills them; returns the highest disk usage, and the usage afterwards. */
async function killAmidFills(
  config: { readonly store: { readonly dir: string } },
  dir: string,
  random: () => number,
): Promise<{ readonly highest: Allocated; readonly left: Allocated }> {
  await using server = await startConfigured(dir, config);
  let isOver = false;
  const highest = { bodies: 0, all: 0 };
  const measure = async (): Promise<void> => {
    const { bodies, all } = await allocatedBytes(config.store.dir);
    highest.bodies = Math.max(highest.bodies, bodies);
    highest.all = Math.max(highest.all, all);
  };
  const watch = async (): Promise<void> => {
    for (; !isOver; await setImmediate()) await measure();
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
  // More is being filled at once than the store has room for, so "no room left" is allowed.
  expect(storeLines(server.output()).filter((line) => !line.includes('no room left'))).toEqual([]);
  return { highest, left };
}

describe('a store of 20 MB whose server is killed during fills', () => {
  const fleets: readonly (readonly [string, object])[] = [
    ['alone', {}],
    ['with workers', { workers: 2 }],
  ];
  for (const [name, options] of fleets) {
    itOnLinux(
      `${name}, ${rounds} times, never takes more room on the disk (seed ${faultSeed})`,
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
            const { highest, left } = await killAmidFills(config, dir, random);
            expect(left.bodies, `left in round ${round}`).toBeLessThanOrEqual(storeBytes);
            expect(highest.bodies, `bodies in round ${round}`).toBeLessThanOrEqual(storeBytes + inBetweenBytes);
            expect(highest.all, `all files in round ${round}`).toBeLessThanOrEqual(storeBytes + besidesBytes);
          }
        } finally {
          await rm(dir, { recursive: true, force: true });
        }
      },
      60_000 + rounds * 8000,
    );
  }
});
