/** Runs a server as a process, pinned to cores. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { pinned } from '../cores.ts';
import { BenchFault } from '../fault.ts';
import type { PeerPlace, RunningPeer } from './peer.ts';

/** Interval between connection attempts to a starting server. */
const retryMs = 10;

/** Maximum time for a server to start, and to stop before it is killed. */
const patienceMs = 10_000;

/** Characters of the latest output that are kept, to report why a server failed. */
const keptOutput = 4000;

/** Returns a free port of loopback. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Starts a server, and resolves once it accepts connections on this port. The server is killed when this process exits.
 * Throws `BenchFault` where it does not start.
 */
export async function startServer(
  command: readonly string[],
  { port, dir, cores, isLogged }: Pick<PeerPlace, 'port' | 'dir' | 'cores' | 'isLogged'>,
): Promise<RunningPeer> {
  const [program = '', ...args] = pinned(cores, command);
  // A log of requests goes into a file, as the output of a service does.
  const log = isLogged ? openSync(join(dir, 'output.log'), 'a') : undefined;
  // `detached` creates a process group, so that the server's workers can be killed with it.
  const child = spawn(program, args, { stdio: ['ignore', log ?? 'pipe', 'pipe'], detached: true });
  if (log !== undefined) closeSync(log);
  const kill = () => killGroup(child);
  // Prepended: the server must be killed before another listener removes the files that it has open.
  process.prependOnceListener('exit', kill);
  child.once('exit', () => process.off('exit', kill));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-keptOutput);
    });
  }
  const giveUpAt = performance.now() + patienceMs;
  while (!(await accepts(port))) {
    if (isOver(child) || performance.now() > giveUpAt) {
      kill();
      throw new BenchFault(`${command.join(' ')} did not start:\n${output}`);
    }
    await wait(retryMs);
  }
  return { port, dir, pid: child.pid ?? 0, [Symbol.asyncDispose]: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (isOver(child)) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const impatience = setTimeout(() => killGroup(child), patienceMs);
  await exited;
  clearTimeout(impatience);
}

function killGroup(child: ChildProcess): void {
  if (child.pid !== undefined && !isOver(child)) process.kill(-child.pid, 'SIGKILL');
}

function isOver(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
