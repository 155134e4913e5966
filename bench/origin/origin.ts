/** The origin of a workload, and what it was asked. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { pinned } from '../cores.ts';

/** What an origin has and how fast it is. */
export interface OriginOptions {
  /** Files end before this offset of the pattern. */
  readonly patternBytes: number;
  /** The speed of its line; undefined where it is as fast as it can be. */
  readonly bytesPerSecond: number | undefined;
}

/** What an origin was asked so far. */
export interface OriginCounters {
  readonly requests: number;
  readonly bodyBytes: number;
  /** Paced responses that are under way. */
  readonly running: number;
}

/** A running origin. */
export interface Origin extends Disposable {
  readonly port: number;
  counters(): Promise<OriginCounters>;
}

const program = fileURLToPath(new URL('origin-process.ts', import.meta.url));

/** Starts an origin on a core. It ends when it is disposed, or when this process ends. */
export async function startOrigin(options: OriginOptions, core: number | undefined): Promise<Origin> {
  const [command = '', ...args] = pinned(core, [process.execPath, program, JSON.stringify(options)]);
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const told = async (): Promise<unknown> => {
    const failure = new AbortController();
    const ended = () => failure.abort(new Error('the origin has ended'));
    child.once('exit', ended);
    try {
      const [message] = (await once(child, 'message', { signal: failure.signal })) as [unknown];
      return message;
    } finally {
      child.off('exit', ended);
    }
  };
  const { port } = (await told()) as { port: number };
  return {
    port,
    counters: async () => {
      const answer = told();
      child.send('counters');
      return (await answer) as OriginCounters;
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}
