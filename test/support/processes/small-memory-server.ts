/** Servers with so little memory in front of the disk that hits come from files; and paths of files for them. */

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
  const config = { listen: '127.0.0.1:0', routes: [{ origin }], store, log: { level: 'debug', format: 'json' } };
  return await startConfigured(await mkdtemp(join(tmpdir(), 'rangeway-small-')), config);
}

let lastFile = 0;

/** Returns the path of a file that was not requested before and does not change. Every second file has ranges. */
export function newPath(sizeBytes: number): string {
  lastFile += 1;
  return pathOf({ kind: lastFile % 2 === 0 ? 'ranged' : 'whole', freshSeconds: 36_000, sizeBytes, file: lastFile });
}

/** Repeats a request until the whole body is a hit. */
export function untilHit(server: Server, path: string): Promise<void> {
  return until(`${path} is a hit`, async () => (await askWhole(server, path)).isHit);
}

/** Repeats a request until the whole body arrives. A body is cut where damage is found after its head was sent. */
export function untilWhole(server: Server, path: string): Promise<void> {
  return until(`${path} comes whole`, async () => (await askWhole(server, path)).isComplete);
}

/** Requests a whole body. A body that is cut counts as no hit. */
async function askWhole(server: Server, path: string): Promise<{ isHit: boolean; isComplete: boolean }> {
  const { status, isHit, isComplete } = await askVerified({ base: server.url, path });
  expect(status, `${path}\n${warnings(server)}`).toBe(200);
  return { isHit: isHit && isComplete, isComplete };
}

/** Returns the log lines above `info`, for the message of a failed test. */
function warnings(server: Server): string {
  const lines = server.output().split('\n');
  return lines.filter((line) => !/^\{"level":"(?:debug|info)"/.test(line)).join('\n');
}
