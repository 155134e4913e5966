/** Rangeway as people run it: one process, the disk store with memory in front of it. */

import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConfigInput } from '../../src/config/schema.ts';
import { blockBytes, cacheSizeBytes, type Peer, type PeerPlace } from './peer.ts';
import { freePort, startServer } from './server-process.ts';

/** Holds the entry of every workload that is to be read from memory. nginx has the page cache for that. */
const ampleMemoryBytes = 1024 ** 3;

/** A checkout of Rangeway. */
export interface Checkout {
  readonly name: string;
  /** Its root folder, dependencies installed. */
  readonly root: string;
  /** Arguments of Node, before the program. */
  readonly nodeArgs: readonly string[];
}

/** Rangeway from a checkout. Requests are not logged, as they are not by the other peers. */
export function rangewayPeer({ name, root, nodeArgs }: Checkout): Peer {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  return {
    name,
    version: `${version} on Node ${process.versions.node}`,
    async start(place) {
      const port = await freePort();
      const file = join(place.dir, 'rangeway.json');
      await writeFile(file, JSON.stringify(configuration(place, port)));
      const program = join(root, 'bin/rangeway.js');
      const command = [process.execPath, ...nodeArgs, program, 'serve', '--config', file];
      return await startServer(command, { port, core: place.core });
    },
  };
}

function configuration({ originPort, dir, memoryBytes = ampleMemoryBytes }: PeerPlace, port: number): ConfigInput {
  return {
    listen: `127.0.0.1:${port}`,
    store: {
      type: 'disk',
      dir: join(dir, 'cache'),
      maxSizeBytes: cacheSizeBytes,
      memoryBytes,
      blockSizeBytes: blockBytes,
    },
    log: { level: 'warn' },
    shutdownGraceSeconds: 0,
    routes: [{ origin: `http://127.0.0.1:${originPort}` }],
  };
}
