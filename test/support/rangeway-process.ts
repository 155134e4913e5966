/** Rangeway as people start it: a process of its own. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const executable = fileURLToPath(new URL('../../bin/rangeway.js', import.meta.url));

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
  stop(signal: 'SIGINT' | 'SIGTERM'): Promise<number | null>;
}

/** Starts `rangeway` with these arguments, in an environment with these changes. Disposing kills it. */
export function startRangeway(args: readonly string[], environment: NodeJS.ProcessEnv = {}): RangewayProcess {
  const child = spawn(process.execPath, [executable, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  });
  const exited = once(child, 'close');
  let output = '';
  let check = (): void => {};
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      check();
    });
  }
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
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
        void exited.then(() => reject(new Error(`rangeway ended before ${pattern} was written:\n${output}`)));
      });
    },
    ended,
    stop(signal) {
      if (!isOver()) child.kill(signal);
      return ended();
    },
    async [Symbol.asyncDispose]() {
      if (!isOver()) child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Starts a proxy in front of an origin, on a free port, and waits until it listens. Gives its address. */
export async function startProxy(origin: string): Promise<RangewayProcess & { readonly url: string }> {
  const started = startRangeway([origin, '--store', 'memory', '--listen', '127.0.0.1:0']);
  const pattern = new RegExp(`http://127\\.0\\.0\\.1:(?!${new URL(origin).port}\\b)\\d+`);
  const [url] = await started.waitFor(pattern);
  return { ...started, url };
}

/** Starts the demo on a free port, and waits until it says what to try. Gives its address and its origin's. */
export async function startDemo(
  environment: NodeJS.ProcessEnv = {},
): Promise<RangewayProcess & { readonly url: string; readonly origin: string }> {
  const started = startRangeway(['demo', '--listen', '127.0.0.1:0'], environment);
  const [, url = '', origin = ''] = await started.waitFor(/Rangeway\s+(http:\S+)\s[\s\S]*origin\s+(http:\S+)\s/);
  return { ...started, url, origin };
}
