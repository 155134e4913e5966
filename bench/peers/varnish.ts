/** Varnish as a peer: objects in memory, or in a mapped file where a workload limits the memory. */

import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BenchFault } from '../fault.ts';
import { findProgram } from '../programs.ts';
import { ampleMemoryBytes, cacheSizeBytes, type FoundPeer, type PeerPlace } from './peer.ts';
import { startServer } from './server-process.ts';

/** Finds Varnish. It compiles its configuration, so it also needs a C compiler. */
export function findVarnish(): FoundPeer {
  const program = findProgram('varnishd');
  if (program === undefined) return { kind: 'missing', name: 'varnish', hint: 'apt-get install varnish' };
  const version = /varnish-([0-9.]+)/.exec(spawnSync(program, ['-V'], { encoding: 'utf8' }).stderr)?.[1];
  return {
    kind: 'found',
    peer: {
      name: 'varnish',
      version: version ?? 'of unknown version',
      async start(place) {
        if (place.certificate !== undefined) throw new BenchFault('it has no TLS');
        if (place.workers > 1) throw new BenchFault('it has threads and no workers');
        if (place.isLogged || place.isGuarded) throw new BenchFault('it is not set up with a log or access rules here');
        await writeFile(join(place.dir, 'bench.vcl'), configuration(place));
        return await startServer([program, ...options(place)], place);
      },
    },
  };
}

/** Returns the arguments: in the foreground, as the current user, without a management port. */
function options({ dir, port, memoryBytes }: PeerPlace): readonly string[] {
  const storage =
    memoryBytes < ampleMemoryBytes ? `file,${join(dir, 'storage')},${cacheSizeBytes}` : `malloc,${memoryBytes}`;
  const parameters = ['thread_pools=1', 'thread_pool_min=200', 'http_range_support=on', 'listen_depth=4096'];
  return [
    ...['-F', '-j', 'none', '-T', 'none', '-n', join(dir, 'work')],
    ...['-a', `127.0.0.1:${port}`, '-f', join(dir, 'bench.vcl'), '-s', storage],
    ...parameters.flatMap((parameter) => ['-p', parameter]),
  ];
}

function configuration({ originPort }: PeerPlace): string {
  return `vcl 4.1;
backend origin {
  .host = "127.0.0.1";
  .port = "${originPort}";
}
`;
}
