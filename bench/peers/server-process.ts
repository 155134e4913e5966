/** A server as a process of its own, pinned to cores. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { pinned } from '../cores.ts';
import { BenchFault } from '../fault.ts';
import type { PeerPlace, RunningPeer } from './peer.ts';

/** How often a server that is starting is tried. */
const retryMs = 10;

/** How long a server may take to start, and to stop before it is killed. */
const patienceMs = 10_000;

/** The last of its output is kept, to tell why it failed, in characters. */
const keptOutput = 4000;

/** A port of loopback that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts a server that will listen on this port, and waits until it does. It never outlives this process. Throws `BenchFault`. */
export async function startServer(
  command: readonly string[],
  { port, dir, cores, isLogged }: Pick<PeerPlace, 'port' | 'dir' | 'cores' | 'isLogged'>,
): Promise<RunningPeer> {
  const [program = '', ...args] = pinned(cores, command);
  // A process group of its own, so that its workers can be killed with it.
  // A log of requests goes into a file, as the output of a service does.
  const log = isLogged ? openSync(join(dir, 'output.log'), 'a') : undefined;
  const child = spawn(program, args, { stdio: ['ignore', log ?? 'pipe', 'pipe'], detached: true });
  if (log !== undefined) closeSync(log);
  const kill = () => killGroup(child);
  // Ahead of what removes the files that it has open.
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
