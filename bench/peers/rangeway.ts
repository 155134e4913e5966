/** Rangeway as people run it: one process, the disk store with memory in front of it. */

import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConfigInput } from '../../src/config/schema.ts';
import { makeManyEntries } from '../many-entries.ts';
import { blockBytes, cacheSizeBytes, type Peer, type PeerPlace } from './peer.ts';
import { startServer } from './server-process.ts';

/** A checkout of Rangeway. */
export interface Checkout {
  readonly name: string;
  /** Its root folder, dependencies installed. */
  readonly root: string;
  /** Arguments of Node, before the program. */
  readonly nodeArgs: readonly string[];
  /** Whether it is to have the system send from its files, as nginx has, where it knows `store.sendfile`. */
  readonly sendsFiles: boolean;
}

/** Rangeway from a checkout. Requests are not logged, as they are not by the other peers. */
export function rangewayPeer({ name, root, nodeArgs, sendsFiles }: Checkout): Peer {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const hasSendfile = sendsFiles && readFileSync(join(root, 'config.schema.json'), 'utf8').includes('"sendfile"');
  return {
    name,
    version: `${version} on Node ${process.versions.node}`,
    async start(place) {
      const file = join(place.dir, 'rangeway.json');
      await writeFile(file, JSON.stringify(configuration(place, hasSendfile)));
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

function configuration(place: PeerPlace, hasSendfile: boolean): ConfigInput {
  const { port, originPort, dir, memoryBytes, workers, certificate, isDefault, isLogged } = place;
  const address = `127.0.0.1:${port}`;
  return {
    listen: certificate === undefined ? address : [{ address, tls: { certificates: [certificate] } }],
    workers,
    store: isDefault
      ? { dir: join(dir, 'cache') }
      : {
          type: 'disk',
          dir: join(dir, 'cache'),
          maxSizeBytes: cacheSizeBytes,
          memoryBytes,
          blockSizeBytes: blockBytes,
          ...(hasSendfile && { sendfile: true }),
        },
    // All clients are one here.
    limits: { connectionsPerClient: 0 },
    log: { level: isLogged ? 'info' : 'warn' },
    shutdownGraceSeconds: 0,
    routes: [{ origin: `http://127.0.0.1:${originPort}` }],
  };
}
