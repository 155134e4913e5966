/** Rangeway as a peer: the disk store with memory in front of it, one process unless a workload wants workers. */

import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConfigInput } from '../../src/config/schema.ts';
import { makeManyEntries } from '../many-entries.ts';
import { bearerToken, blockBytes, cacheSizeBytes, guardedRate, type Peer, type PeerPlace, pageOrigin } from './peer.ts';
import { startServer } from './server-process.ts';

/** A checkout of Rangeway. */
export interface Checkout {
  readonly name: string;
  /** Root folder, with installed dependencies. */
  readonly root: string;
  /** Arguments of Node itself. */
  readonly nodeArgs: readonly string[];
}

/** Returns Rangeway from a checkout as a peer. Requests are logged only where a workload wants that, as with nginx. */
export function rangewayPeer({ name, root, nodeArgs }: Checkout): Peer {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  return {
    name,
    version: `${version} on Node ${process.versions.node}`,
    async start(place) {
      const file = join(place.dir, 'rangeway.json');
      if (place.isGuarded) await writeFile(join(place.dir, 'tokens'), `bench:${bearerToken}\n`, { mode: 0o600 });
      await writeFile(fleetSecretIn(place.dir), 'the secret of the nodes of a benchmark', { mode: 0o600 });
      await writeFile(file, JSON.stringify(configuration(place)));
      const program = join(root, 'bin/rangeway.js');
      const command = [process.execPath, ...nodeArgs, program, 'serve', '--config', file];
      return await startServer(command, place);
    },
    async multiply(dir, entries, pathOf) {
      const keyOf = (key: string, number: number) => key.replace(pathOf(0), pathOf(number));
      makeManyEntries({ dir: join(dir, 'cache'), blockSizeBytes: blockBytes, entries, keyOf });
    },
  };
}

/** Returns the route options of a guarded peer: access, CORS and rate limit. */
function guard(dir: string): Omit<ConfigInput['routes'][number], 'origin'> {
  return {
    access: { bearer: `file:${join(dir, 'tokens')}` },
    cors: { origins: [pageOrigin] },
    limits: { rate: { requests: guardedRate, seconds: 1 } },
  };
}

function storeOf({ dir, memoryBytes, isDefault, isCopying, engineUrl }: PeerPlace): NonNullable<ConfigInput['store']> {
  if (engineUrl !== undefined) return { type: 'redis', url: engineUrl, ...(!isDefault && { memoryBytes }) };
  const place = { dir: join(dir, 'cache'), ...(isCopying && ({ sendfile: 'off' } as const)) };
  if (isDefault) return place;
  return { ...place, type: 'disk', maxSizeBytes: cacheSizeBytes, memoryBytes, blockSizeBytes: blockBytes };
}

function fleetSecretIn(dir: string): string {
  return join(dir, 'fleet-secret');
}

function configuration(place: PeerPlace): ConfigInput {
  const { port, originPort, dir, workers, certificate, isLogged, isGuarded, engineUrl } = place;
  const address = `127.0.0.1:${port}`;
  return {
    listen: certificate === undefined ? address : [{ address, tls: { certificates: [certificate] } }],
    workers,
    store: storeOf(place),
    ...(engineUrl !== undefined && { fleet: { secret: `file:${fleetSecretIn(dir)}` } }),
    // All connections come from one address, which counts as one client.
    limits: { connectionsPerClient: 0 },
    log: { level: isLogged ? 'info' : 'warn' },
    shutdownGraceSeconds: 0,
    routes: [{ origin: `http://127.0.0.1:${originPort}`, ...(isGuarded && guard(dir)) }],
  };
}
