/** Starts the executable as a process, and follows its output. */

import { type ChildProcessByStdio, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { Server } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** The root directory of the project. */
export const projectDirectory = fileURLToPath(new URL('../../../', import.meta.url));
const executable = join(projectDirectory, 'bin/rangeway.js');

/** Time that a process may take to stop after its test before it is killed. */
const patienceMs = 20_000;

type Signal = 'SIGINT' | 'SIGTERM' | 'SIGQUIT' | 'SIGKILL';

/** A started process. */
export interface RangewayProcess extends AsyncDisposable {
  readonly pid: number;
  /** Returns the output so far, of both streams. */
  output(): string;
  /** Waits until the output matches, and returns the match. Throws when the process ends first. */
  waitFor(pattern: RegExp): Promise<RegExpExecArray>;
  /** Waits for the end. Returns the exit code, or null where a signal ended the process. */
  ended(): Promise<number | null>;
  /** Sends a signal, and waits for the end as `ended` does. */
  stop(signal: Signal): Promise<number | null>;
}

/** Starts `rangeway` with these arguments and changes to the environment. Disposing stops it, by SIGKILL if it takes too long. */
export function startRangeway(args: readonly string[], environment: NodeJS.ProcessEnv = {}): RangewayProcess {
  const child = spawn(process.execPath, [executable, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  });
  return follow(child, (signal) => child.kill(signal));
}

/** Starts any program, with exactly the environment, user and directory of the options. Disposing stops it, as above. */
export function startProgram(
  program: string,
  args: readonly string[],
  options: Pick<SpawnOptions, 'env' | 'cwd' | 'uid' | 'gid'>,
): RangewayProcess {
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  return follow(child, (signal) => child.kill(signal));
}

/**
 * Starts `rangeway` as systemd does for a socket unit: with these listening sockets under these names. The caller must close
 * its `servers`; until then they accept connections too.
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
  // LISTEN_PID must be the id of the process, which only the shell that becomes the process knows.
  const child = spawn('sh', ['-c', 'LISTEN_PID=$$ exec "$0" "$@"', process.execPath, executable, ...args], {
    stdio: ['ignore', 'pipe', 'pipe', ...descriptors],
    env: environment,
  }) as ChildProcessByStdio<null, Readable, Readable>;
  return follow(child, (signal) => child.kill(signal));
}

/**
 * Runs a shell command, by default in the project's directory. A signal goes to all processes of the command, as Ctrl-C does.
 * `ended` resolves when the last one has ended.
 */
export function startLine(
  line: string,
  environment: NodeJS.ProcessEnv = {},
  cwd: string = projectDirectory,
): RangewayProcess {
  const child = spawn('sh', ['-c', line], {
    cwd,
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
          if (match === null) return;
          // Further output is not searched: there may be much of it.
          check = () => {};
          resolve(match);
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

/** Writes a configuration file into a directory, starts a server with it, and waits until it listens. Adds its first URL. */
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

/** Starts a server in front of an origin on a free port, and waits until it listens. Adds its URL. */
export async function startProxy(
  origin: string,
  flags: readonly string[] = ['--store', 'memory'],
  environment: NodeJS.ProcessEnv = {},
): Promise<RangewayProcess & { readonly url: string }> {
  const started = startRangeway([origin, '--listen', '127.0.0.1:0', ...flags], environment);
  const [, url = ''] = await started.waitFor(/ready on (http:[^\s",]+),/);
  return { ...started, url };
}

/** Starts the demo, by default on a free port, and waits until it has printed its URLs. */
export async function startDemo(
  args: readonly string[] = ['--listen', '127.0.0.1:0'],
  environment: NodeJS.ProcessEnv = {},
): Promise<RangewayProcess & { readonly url: string; readonly origin: string }> {
  const started = startRangeway(['demo', ...args], environment);
  const [, url = '', origin = ''] = await started.waitFor(/Rangeway\s+(http:\S+)\s[\s\S]*origin\s+(http:\S+)\s/);
  return { ...started, url, origin };
}
