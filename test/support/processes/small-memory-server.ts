/** Servers whose memory in front of the disk is so small that what they tell comes from their files, and files to ask for. */

import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { askVerified } from '../clients/versioned-client.ts';
import { until } from '../clocks/until.ts';
import { pathOf } from '../origins/versioned-origin.ts';
import { startConfigured } from './rangeway-process.ts';

/** A started server. */
export type Server = Awaited<ReturnType<typeof startConfigured>>;

/** Starts a server on a store's directory. Its files are closed after a second or two without a read. */
export async function startSmall(origin: string, dir: string): Promise<Server> {
  const store = { type: 'disk', dir, memoryBytes: '1MB', idleFileSeconds: 1 };
  const config = { listen: '127.0.0.1:0', origin, store, log: { level: 'debug', format: 'json' } };
  return await startConfigured(await mkdtemp(join(tmpdir(), 'rangeway-small-')), config);
}

let lastFile = 0;

/** The path of a file that was not asked for before and stays as it is; every second one is at an origin with ranges. */
export function newPath(sizeBytes: number): string {
  lastFile += 1;
  return pathOf({ kind: lastFile % 2 === 0 ? 'ranged' : 'whole', freshSeconds: 36_000, sizeBytes, file: lastFile });
}

/** Asks until the whole is served by the store alone. */
export function untilHit(server: Server, path: string): Promise<void> {
  return until(`${path} is a hit`, async () => (await askWhole(server, path)).isHit);
}

/** Asks until the whole has come uncut: a body that is found damaged after its head was sent is cut. */
export function untilWhole(server: Server, path: string): Promise<void> {
  return until(`${path} comes whole`, async () => (await askWhole(server, path)).isComplete);
}

/** Asks for the whole; what comes may be cut and is then no hit. */
async function askWhole(server: Server, path: string): Promise<{ isHit: boolean; isComplete: boolean }> {
  const { status, isHit, isComplete } = await askVerified({ base: server.url, path });
  expect(status, `${path}\n${warnings(server)}`).toBe(200);
  return { isHit: isHit && isComplete, isComplete };
}

/** What the log has above `info`, for a test that fails. */
function warnings(server: Server): string {
  const lines = server.output().split('\n');
  return lines.filter((line) => !/^\{"level":"(?:debug|info)"/.test(line)).join('\n');
}
