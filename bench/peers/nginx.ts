/** nginx as a caching proxy. It fetches slices where the origin has ranges and the build has the slice module; otherwise whole files. */

import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findProgram } from '../programs.ts';
import { multiplyNginxFiles } from './nginx-cache-files.ts';
import { nginxConfiguration } from './nginx-configuration.ts';
import type { FoundPeer } from './peer.ts';
import { startServer } from './server-process.ts';

/** Finds nginx, its version and the modules of its build. */
export function findNginx(): FoundPeer {
  const program = findProgram('nginx');
  if (program === undefined) return { kind: 'missing', name: 'nginx', hint: 'apt-get install nginx-light' };
  const build = spawnSync(program, ['-V'], { encoding: 'utf8' }).stderr;
  const version = /nginx\/(\S+)/.exec(build)?.[1] ?? 'of unknown version';
  const tempPaths = [...build.matchAll(/--http-([a-z-]+)-temp-path=/g)].map(([, module = '']) => module);
  const canSlice = build.includes('--with-http_slice_module');
  return {
    kind: 'found',
    peer: {
      name: 'nginx',
      version,
      async start(place) {
        const { dir, originHasRanges } = place;
        const file = join(dir, 'nginx.conf');
        const isSliced = originHasRanges && canSlice;
        await writeFile(file, nginxConfiguration({ ...place, tempPaths, isSliced }));
        // Without -e, nginx opens the error log of its package before it reads the configuration.
        const command = [program, '-p', dir, '-e', join(dir, 'error.log'), '-c', file];
        return await startServer(command, place);
      },
      multiply: multiplyNginxFiles,
    },
  };
}
