/** The origin of a workload, and what it was asked. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type CoreList, pinned } from '../cores.ts';

/** What an origin has and how fast it is. */
export type OriginOptions = WindowOriginOptions | PeriodicOriginOptions;

/** A legacy origin, for what is timed: its files are windows on a pattern. */
export interface WindowOriginOptions {
  readonly kind: 'windows';
  /** Files end before this offset of the pattern. */
  readonly patternBytes: number;
  /** The speed of its line; undefined where it is as fast as it can be. */
  readonly bytesPerSecond: number | undefined;
  /** The value of Vary that all answers have. */
  readonly vary?: string;
}

/** An origin for what is counted: every path is the same large body. */
export interface PeriodicOriginOptions {
  readonly kind: 'periodic';
  readonly sizeBytes: number;
  /** Whether it answers `Range` and `If-Range`, or always sends the whole. */
  readonly hasRanges: boolean;
  /** For each path: the offsets at which transfers are cut off, each of them once. */
  readonly cutAt: readonly number[];
  /** The speed of its line. */
  readonly bytesPerSecond: number;
}

/** What an origin was asked so far. */
export interface OriginCounters {
  readonly requests: number;
  /** Of transfers that broke off, as much as was sent. */
  readonly bodyBytes: number;
  /** Paced responses that are under way. */
  readonly running: number;
}

/** A running origin. */
export interface Origin extends Disposable {
  readonly port: number;
  counters(): Promise<OriginCounters>;
}

const programs = {
  windows: fileURLToPath(new URL('window-origin-process.ts', import.meta.url)),
  periodic: fileURLToPath(new URL('periodic-origin-process.ts', import.meta.url)),
} as const;

/** Starts an origin on these cores. It ends when it is disposed, or when this process ends. */
export async function startOrigin(options: OriginOptions, cores: CoreList | undefined): Promise<Origin> {
  const [command = '', ...args] = pinned(cores, [process.execPath, programs[options.kind], JSON.stringify(options)]);
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
