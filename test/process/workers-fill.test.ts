/** All workers share one fill per key; and what happens to its readers when the worker that fills is killed. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { PatternDownload } from '../support/clients/pattern-download.ts';
import { until } from '../support/clocks/until.ts';
import { type FileManners, SlowFileOrigin } from '../support/origins/slow-file-origin.ts';
import { type FleetProcess, startFleetProcess } from '../support/processes/fleet-process.ts';
import { itOnLinux } from '../support/processes/process-status.ts';
import { ownerOf } from '../support/processes/socket-owners.ts';

const sizeBytes = 2_000_000;
const heldAt = sizeBytes / 2;

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-workers-fill-'));
});
afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

const start = (origin: SlowFileOrigin) =>
  startFleetProcess(dir, { store: { dir: join(dir, 'store') }, routes: [{ origin: { url: origin.url } }] });

const downloads = (fleet: FleetProcess, count: number) =>
  Array.from({ length: count }, () => new PatternDownload(`${fleet.url}/file`));

/** Returns the process id of the worker that a client is connected to. */
function workerOf(fleet: FleetProcess, { port }: PatternDownload): number | undefined {
  return ownerOf(
    fleet.port,
    port,
    fleet.workers().map(({ pid }) => pid),
  );
}

/** Returns the process id of the worker that sent the first request to the origin. */
function askerOf(fleet: FleetProcess, { url, questions }: SlowFileOrigin): number | undefined {
  const pids = fleet.workers().map(({ pid }) => pid);
  return ownerOf(questions[0]?.port ?? 0, Number(new URL(url).port), pids);
}

describe('a file that clients of all workers ask for', () => {
  itOnLinux('is fetched once, and each client gets the bytes as they arrive', async () => {
    await using origin = await SlowFileOrigin.open(sizeBytes, { hasRanges: true, hasValidator: true });
    await using fleet = await start(origin);
    const clients = downloads(fleet, 40);
    await until('all have the first half', async () => clients.every(({ bytes }) => bytes >= heldAt - 300_000));
    expect(new Set(clients.map((client) => workerOf(fleet, client))).size).toBe(2);
    origin.goOn();
    expect(await Promise.all(clients.map(({ ended }) => ended))).toEqual(clients.map(() => sizeBytes));
    expect(origin.questions.map(({ asked }) => asked)).toEqual(['whole']);
    // Later clients get a hit from every worker.
    expect(await Promise.all(downloads(fleet, 8).map(({ ended }) => ended))).toEqual(Array(8).fill(sizeBytes));
    expect(origin.questions).toHaveLength(1);
  });
});

describe('a worker that is killed in the middle of a fill', () => {
  const rows: readonly (readonly [string, FileManners, RegExp])[] = [
    ['an origin with ranges', { hasRanges: true, hasValidator: true }, /^bytes=[1-9][0-9]*- if "v1"$/],
    ['a legacy origin', { hasRanges: false, hasValidator: true }, /^(whole|bytes=[0-9]+- if "v1")$/],
    ['a legacy origin without a validator', { hasRanges: false, hasValidator: false }, /^whole$/],
  ];
  for (const [name, manners, second] of rows) {
    itOnLinux(`does not keep readers at the other worker from getting every byte: ${name}`, async () => {
      await using origin = await SlowFileOrigin.open(sizeBytes, manners);
      await using fleet = await start(origin);
      const clients = downloads(fleet, 12);
      await until('all have the first half', async () => clients.every(({ bytes }) => bytes >= heldAt - 300_000));
      const filling = askerOf(fleet, origin) ?? 0;
      const others = clients.filter((client) => workerOf(fleet, client) !== filling);
      expect(others.length).toBeGreaterThan(0);
      expect(others.length).toBeLessThan(clients.length);
      process.kill(filling, 'SIGKILL');
      expect(await Promise.all(others.map(({ ended }) => ended))).toEqual(others.map(() => sizeBytes));
      const own = clients.filter((client) => !others.includes(client));
      expect((await Promise.allSettled(own.map(({ ended }) => ended))).map(({ status }) => status)).toEqual(
        own.map(() => 'rejected'),
      );
      expect(origin.questions).toHaveLength(2);
      expect(origin.questions[1]?.asked).toMatch(second);
      await fleet.waitForServing(3);
      expect(await Promise.all(downloads(fleet, 6).map(({ ended }) => ended))).toEqual(Array(6).fill(sizeBytes));
      expect(origin.questions).toHaveLength(2);
    });
  }
});
