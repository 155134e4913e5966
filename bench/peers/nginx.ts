/** nginx as a caching proxy that cuts ranges out of whole files. */

import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findProgram } from '../programs.ts';
import { nginxConfiguration } from './nginx-configuration.ts';
import type { FoundPeer } from './peer.ts';
import { freePort, startServer } from './server-process.ts';

/** Looks for nginx. */
export function findNginx(): FoundPeer {
  const program = findProgram('nginx');
  if (program === undefined) return { kind: 'missing', name: 'nginx', hint: 'apt-get install nginx-light' };
  const build = spawnSync(program, ['-V'], { encoding: 'utf8' }).stderr;
  const version = /nginx\/(\S+)/.exec(build)?.[1] ?? 'of unknown version';
  const tempPaths = [...build.matchAll(/--http-([a-z-]+)-temp-path=/g)].map(([, module = '']) => module);
  return {
    kind: 'found',
    peer: {
      name: 'nginx',
      version,
      async start({ dir, core, originPort }) {
        const port = await freePort();
        const file = join(dir, 'nginx.conf');
        await writeFile(file, nginxConfiguration({ dir, port, originPort, tempPaths }));
        // Until it has read its configuration it writes where its packagers said.
        const command = [program, '-p', dir, '-e', join(dir, 'error.log'), '-c', file];
        return await startServer(command, { port, core });
      },
    },
  };
}
