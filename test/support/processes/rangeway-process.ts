/** Rangeway as people start it: a process of its own. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { Server } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** Where the project is, and where people type its commands. */
export const projectDirectory = fileURLToPath(new URL('../../../', import.meta.url));
const executable = join(projectDirectory, 'bin/rangeway.js');

/** How long a process may take to stop, when its test is over, before it is killed. */
const patienceMs = 20_000;

type Signal = 'SIGINT' | 'SIGTERM' | 'SIGKILL';

/** A started process. */
export interface RangewayProcess extends AsyncDisposable {
  readonly pid: number;
  /** All that it has written so far, both streams. */
  output(): string;
  /** Waits until the output matches, and gives the match. Throws when the process ends before. */
  waitFor(pattern: RegExp): Promise<RegExpExecArray>;
  /** Waits for the end; gives the exit code, or null where a signal ended the process. */
  ended(): Promise<number | null>;
  /** Sends a signal and waits for the end, as `ended` does. */
  stop(signal: Signal): Promise<number | null>;
}

/** Starts `rangeway` with these arguments, in an environment with these changes. Disposing stops it, if need be by force. */
export function startRangeway(args: readonly string[], environment: NodeJS.ProcessEnv = {}): RangewayProcess {
  const child = spawn(process.execPath, [executable, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  });
  return follow(child, (signal) => child.kill(signal));
}

/**
 * Starts `rangeway` as systemd does for a socket unit: with these listening sockets, under these names. They are still the
 * caller's to close, who accepts on them too until then.
 */
export function startActivated(
  args: readonly string[],
  servers: readonly Server[],
  names: readonly string[] = [],
): RangewayProcess {
  const environment = { ...process.env, LISTEN_FDS: String(servers.length), LISTEN_FDNAMES: names.join(':') };
  const descriptors = servers.map(
    (server) => (server as Server & { readonly _handle: { readonly fd: number } })._handle.fd,
  );
  // Only the process itself knows its id beforehand.
  const child = spawn('sh', ['-c', 'LISTEN_PID=$$ exec "$0" "$@"', process.execPath, executable, ...args], {
    stdio: ['ignore', 'pipe', 'pipe', ...descriptors],
    env: environment,
  }) as ChildProcessByStdio<null, Readable, Readable>;
  return follow(child, (signal) => child.kill(signal));
}

/**
 * Starts what a person types in the project's directory. A signal goes to all processes of the line, as Ctrl-C does, and the
 * end is that of the last one.
 */
export function startLine(line: string, environment: NodeJS.ProcessEnv = {}): RangewayProcess {
  const child = spawn('sh', ['-c', line], {
    cwd: projectDirectory,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
    detached: true,
  });
  return follow(child, (signal) => process.kill(-(child.pid ?? 0), signal));
}

function follow(child: ChildProcessByStdio<null, Readable, Readable>, send: (signal: Signal) => void): RangewayProcess {
  let isOver = false;
  const exited = once(child, 'close').then(() => {
    isOver = true;
  });
  let output = '';
  let check = (): void => {};
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      check();
    });
  }
  const ended = async (): Promise<number | null> => {
    await exited;
    return child.exitCode;
  };
  return {
    pid: child.pid ?? 0,
    output: () => output,
    waitFor(pattern) {
      return new Promise((resolve, reject) => {
        check = () => {
          const match = pattern.exec(output);
          if (match !== null) resolve(match);
        };
        check();
        void exited.then(() => reject(new Error(`it ended before ${pattern} was written:\n${output}`)));
      });
    },
    ended,
    stop(signal) {
      if (!isOver) send(signal);
      return ended();
    },
    async [Symbol.asyncDispose]() {
      if (isOver) return;
      send('SIGTERM');
      const impatience = setTimeout(() => send('SIGKILL'), patienceMs);
      await exited;
      clearTimeout(impatience);
    },
  };
}

/** Starts what a configuration says, written into this directory, and waits until it listens. Gives its first address. */
export async function startConfigured(
  dir: string,
  config: object,
  environment: NodeJS.ProcessEnv = {},
): Promise<RangewayProcess & { readonly url: string }> {
  const file = join(dir, 'rangeway.json');
  await writeFile(file, JSON.stringify(config));
  const started = startRangeway(['--config', file], environment);
  const [, url = ''] = await started.waitFor(/ready on (http:[^\s",]+)/);
  return { ...started, url };
}

/** Starts a proxy in front of an origin, on a free port, and waits until it listens. Gives its address. */
export async function startProxy(
  origin: string,
  flags: readonly string[] = ['--store', 'memory'],
  environment: NodeJS.ProcessEnv = {},
): Promise<RangewayProcess & { readonly url: string }> {
  const started = startRangeway([origin, '--listen', '127.0.0.1:0', ...flags], environment);
  const [, url = ''] = await started.waitFor(/ready on (http:[^\s",]+),/);
  return { ...started, url };
}

/** Starts the demo, on a free port if not told otherwise, and waits until it says what to try. */
export async function startDemo(
  args: readonly string[] = ['--listen', '127.0.0.1:0'],
  environment: NodeJS.ProcessEnv = {},
): Promise<RangewayProcess & { readonly url: string; readonly origin: string }> {
  const started = startRangeway(['demo', ...args], environment);
  const [, url = '', origin = ''] = await started.waitFor(/Rangeway\s+(http:\S+)\s[\s\S]*origin\s+(http:\S+)\s/);
  return { ...started, url, origin };
}
