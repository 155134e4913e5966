/** Rangeway as people run it: one process, the disk store with memory in front of it. */

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
  const sendfile = sendfileOptions(root);
  return {
    name,
    version: `${version} on Node ${process.versions.node}`,
    async start(place) {
      const file = join(place.dir, 'rangeway.json');
      if (place.isGuarded) await writeFile(join(place.dir, 'tokens'), `bench:${bearerToken}\n`, { mode: 0o600 });
      const store = sendsFiles ? sendfile.on : sendfile.off;
      await writeFile(file, JSON.stringify(configuration(place, store, sendsFiles)));
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

/** How a checkout is told to have the system send from its files, and not to; nothing where it cannot. */
function sendfileOptions(root: string): Readonly<Record<'on' | 'off', { sendfile?: boolean }>> {
  const schema = readFileSync(join(root, 'config.schema.json'), 'utf8');
  const [, option] = /"sendfile": \{([^}]*)\}/.exec(schema) ?? [];
  if (option === undefined) return { on: {}, off: {} };
  const isNamed = option.includes('"enum"');
  // Checkouts differ, and so the type of this one is not what counts.
  const as = (value: unknown) => ({ sendfile: value as boolean });
  return isNamed ? { on: as('on'), off: as('off') } : { on: as(true), off: as(false) };
}

/** Who may pass, what pages may read, and how much each client may ask. */
function guard(dir: string): Omit<ConfigInput['routes'][number], 'origin'> {
  return {
    access: { bearer: `file:${join(dir, 'tokens')}` },
    cors: { origins: [pageOrigin] },
    limits: { rate: { requests: guardedRate, seconds: 1 } },
  };
}

function configuration(place: PeerPlace, sendfile: { sendfile?: boolean }, sendsFiles: boolean): ConfigInput {
  const { port, originPort, dir, memoryBytes, workers, certificate, isDefault, isLogged, isGuarded } = place;
  const address = `127.0.0.1:${port}`;
  return {
    listen: certificate === undefined ? address : [{ address, tls: { certificates: [certificate] } }],
    workers,
    store: isDefault
      ? { dir: join(dir, 'cache'), ...(!sendsFiles && sendfile) }
      : {
          type: 'disk',
          dir: join(dir, 'cache'),
          maxSizeBytes: cacheSizeBytes,
          memoryBytes,
          blockSizeBytes: blockBytes,
          ...sendfile,
        },
    // All clients are one here.
    limits: { connectionsPerClient: 0 },
    log: { level: isLogged ? 'info' : 'warn' },
    shutdownGraceSeconds: 0,
    routes: [{ origin: `http://127.0.0.1:${originPort}`, ...(isGuarded && guard(dir)) }],
  };
}
