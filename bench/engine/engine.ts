/** An engine of the benchmark: a redis-server of its own, without persistence, and what it counts. */

import { join } from 'node:path';
import { createClient } from '@redis/client';
import type { CoreList } from '../cores.ts';
import { processSeconds } from '../cpu-time.ts';
import { BenchFault } from '../fault.ts';
import { freePort, startServer } from '../peers/server-process.ts';
import { findProgram } from '../programs.ts';

/** The programs that fleet workloads need, and the package that has them. */
const programs = ['redis-server', 'redis-benchmark'] as const;
const packageHint = 'apt-get install redis-server';

/** The work of an engine since its start. */
export interface EngineCounters {
  /** Bytes that it has sent, replies to this question left out. */
  readonly sentBytes: number;
  /** GET commands that it has executed. */
  readonly gets: number;
  /** Processor time in seconds; undefined where /proc is missing. */
  readonly seconds: number | undefined;
}

/** A running engine. */
export interface Engine extends AsyncDisposable {
  /** Path of its Unix socket. */
  readonly socket: string;
  /** Its port on loopback. */
  readonly port: number;
  counters(): Promise<EngineCounters>;
}

/** Returns a sentence about the programs that are missing for fleet workloads; undefined where all are installed. */
export function missingEngine(): string | undefined {
  const missing = programs.filter((name) => findProgram(name) === undefined);
  return missing.length === 0 ? undefined : `${missing.join(' and ')} not installed (${packageHint})`;
}

/** Starts an engine in a folder, on these cores. It evicts by `allkeys-lru`. Throws `BenchFault`. */
export async function startEngine(dir: string, maxMemoryBytes: number, cores: CoreList | undefined): Promise<Engine> {
  const program = findProgram('redis-server');
  if (program === undefined) throw new BenchFault(`redis-server is not installed (${packageHint})`);
  const port = await freePort();
  const socket = join(dir, 'engine.sock');
  const options = {
    port,
    bind: '127.0.0.1',
    unixsocket: socket,
    dir,
    save: '',
    appendonly: 'no',
    maxmemory: maxMemoryBytes,
    'maxmemory-policy': 'allkeys-lru',
  };
  const command = [program, ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])];
  const server = await startServer(command, { port, dir, cores, isLogged: false });
  const client = createClient({ RESP: 2, socket: { path: socket, tls: false, reconnectStrategy: false } });
  client.on('error', () => {});
  await client.connect();
  let ownBytes = 0;
  return {
    socket,
    port,
    async counters() {
      const stats = String(await client.sendCommand(['INFO', 'stats']));
      const commands = String(await client.sendCommand(['INFO', 'commandstats']));
      // A reply is counted when it was sent: after the figures in it.
      const sentBytes = Number(/^total_net_output_bytes:(\d+)/m.exec(stats)?.[1]) - ownBytes;
      ownBytes += replyBytes(stats) + replyBytes(commands);
      const gets = Number(/^cmdstat_get:calls=(\d+)/m.exec(commands)?.[1] ?? 0);
      return { sentBytes, gets, seconds: processSeconds(server.pid) };
    },
    async [Symbol.asyncDispose]() {
      client.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** Returns the bytes of a bulk text on the wire (RESP 2): its length, the text, and two ends of a line. */
function replyBytes(text: string): number {
  const length = Buffer.byteLength(text);
  return `$${length}`.length + length + 4;
}
