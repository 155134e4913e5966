/** Apache Traffic Server as a peer: one network thread, and memory in front of the disk cache. */

import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BenchFault } from '../fault.ts';
import { findProgram } from '../programs.ts';
import type { FoundPeer } from './peer.ts';
import { startServer } from './server-process.ts';
import { trafficServerFiles } from './traffic-server-files.ts';

/** Finds Traffic Server. */
export function findTrafficServer(): FoundPeer {
  const name = 'traffic-server';
  const program = findProgram('traffic_server');
  if (program === undefined) return { kind: 'missing', name, hint: 'apt-get install trafficserver' };
  const about = spawnSync(program, ['--version'], { encoding: 'utf8' });
  const version = /Traffic Server ([0-9.]+)/.exec(about.stdout + about.stderr)?.[1] ?? 'of unknown version';
  return {
    kind: 'found',
    peer: {
      name,
      version,
      async start(place) {
        if (place.workers > 1) throw new BenchFault('it has threads and no workers');
        if (place.isLogged || place.isGuarded) throw new BenchFault('it is not set up with a log or access rules here');
        for (const folder of ['etc', 'run', 'log', 'cache']) await mkdir(join(place.dir, folder), { recursive: true });
        for (const [file, text] of Object.entries(trafficServerFiles(place))) {
          await writeFile(join(place.dir, file), text);
        }
        const command = [program, `--run-root=${join(place.dir, 'runroot.yaml')}`];
        return await startServer(command, place);
      },
    },
  };
}
