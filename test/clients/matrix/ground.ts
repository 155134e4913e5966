/** Runs clients before an origin, with and without Rangeway between them, and measures both at relays. */

import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { startConfigured } from '../../support/processes/rangeway-process.ts';
import type { Client } from './client.ts';
import type { Fixtures } from './fixtures.ts';
import type { LegacyOrigin } from './origin.ts';
import { type LoggedRequest, openRelay, type Relay } from './relay.ts';

/** The time within which a client must be done, in milliseconds. */
const clientMs = 60_000;

/** One use of an origin by a client. */
export interface Use {
  /** Why it did not work; undefined where it did. */
  readonly fault: Error | undefined;
  /** The requests that the origin got for it. Their numbers may still grow after the client is done. */
  readonly atOrigin: readonly LoggedRequest[];
  /** The requests of the client. Without Rangeway they are those at the origin. */
  readonly ofClient: readonly LoggedRequest[];
}

/** An origin, and Rangeway before it. */
export interface Ground extends AsyncDisposable {
  /** Runs a client at the origin itself, or through Rangeway, each time with files of which Rangeway has nothing. */
  use(client: Client, way: 'without' | 'with'): Promise<Use>;
}

/** Starts an origin and Rangeway, with default options apart from CORS and HTTP/2, in a directory that all may read. */
export async function openGround(origin: LegacyOrigin, fixtures: Fixtures, dir: string): Promise<Ground> {
  await using started = new AsyncDisposableStack();
  const served = join(dir, 'served');
  for (const path of [served, join(dir, 'work'), join(dir, 'rangeway')]) await mkdir(path, { recursive: true });
  const server = started.use(await origin.start(served, join(dir, 'work')));
  // The buffers of a Unix socket are small: few bytes are under way when Rangeway ends a transfer.
  const socket = join(dir, 'work', 'relay');
  const before = started.use(await openRelay(server.target, socket));
  const rangeway = started.use(
    await startConfigured(join(dir, 'rangeway'), {
      listen: [{ address: '127.0.0.1:0', http2: true }],
      store: { dir: './store' },
      routes: [
        {
          origin: `unix:${socket}`,
          cors: { origins: ['*'] },
          // Some readers ask for the length first, which some origins do not state.
          fill: { headLength: 'fetch' },
        },
      ],
    }),
  );
  const front = started.use(await openRelay({ host: '127.0.0.1', port: Number(new URL(rangeway.url).port) }));
  const all = started.move();
  let count = 0;
  return {
    async use(client, way) {
      count += 1;
      const prefix = `/${count}`;
      const work = join(dir, `client-${count}`);
      await symlink(fixtures.dir, join(served, String(count)));
      await mkdir(work);
      const relay = way === 'with' ? front : before;
      const ofClient = logSince(relay, prefix);
      const atOrigin = logSince(before, prefix);
      const root = `http://127.0.0.1:${relay.port}`;
      const url = (name: string): string => root + server.targetOf(`${prefix}/${name}`);
      let fault: Error | undefined;
      const patienceMs = way === 'without' && !origin.habit.hasRanges ? (client.withoutMs ?? clientMs) : clientMs;
      try {
        await client.run({ url, root, prefix, fixtures, origin, dir: work, patienceMs, requests: ofClient.read });
      } catch (error) {
        fault = error instanceof Error ? error : new Error(String(error));
      }
      ofClient.close();
      atOrigin.close();
      return {
        fault,
        get atOrigin() {
          return atOrigin.read();
        },
        get ofClient() {
          return ofClient.read();
        },
      };
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The requests of one use. */
interface UseLog {
  read(): readonly LoggedRequest[];
  /** Ends the use. Requests below its path still count. */
  close(): void;
}

/** Begins a use. HTTP/2 shows no paths: all connections that speak it during the use count. */
function logSince({ log }: Relay, prefix: string): UseLog {
  const start = log.length;
  let end = Number.POSITIVE_INFINITY;
  return {
    read: () =>
      log.filter(({ method, target }, at) => (method === '' ? at >= start && at < end : target.includes(`${prefix}/`))),
    close() {
      end = log.length;
    },
  };
}

/** What the buffers of two connections and a relay may hold when Rangeway ends transfers, some of them at a time. */
const lostBytes = 6_000_000;

/**
 * Returns the most bytes that an origin may send for a client through Rangeway: each file once, or as often as the origin cuts it,
 * with heads and framing. Where Rangeway ends a transfer that is not read on, the bytes that are under way are lost.
 */
export function allowedBytes({ habit }: LegacyOrigin, fileBytes: number): number {
  const framing = 1.02 * fileBytes + 10_000;
  return habit.transfers * framing + (habit.isStrong ? Math.min(lostBytes, fileBytes / 2) : 0);
}
