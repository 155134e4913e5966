/** Starts the origin of a workload as a process, and reads its counters. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type CoreList, pinned } from '../cores.ts';

/** The files and the speed of an origin. */
export type OriginOptions = WindowOriginOptions | PeriodicOriginOptions;

/** A legacy origin for timed workloads: its files are windows on a pattern. */
export interface WindowOriginOptions {
  readonly kind: 'windows';
  /** Length of the pattern: all windows lie in it. */
  readonly patternBytes: number;
  /** Speed of the origin's line; undefined: unlimited. */
  readonly bytesPerSecond: number | undefined;
  /** Value of Vary in all responses. */
  readonly vary?: string;
  /**
   * Set where all responses have to be validated before each use (`no-cache`): what the origin takes for a response, and how often the
   * entity tags change, in milliseconds.
   */
  readonly validated?: { readonly delayMs: number; readonly changeEveryMs: number };
}

/** An origin for counted workloads: every path has the same large body. */
export interface PeriodicOriginOptions {
  readonly kind: 'periodic';
  readonly sizeBytes: number;
  /** Whether the origin answers `Range` and `If-Range`; otherwise it always sends the whole. */
  readonly hasRanges: boolean;
  /** Offsets at which the origin cuts off a transfer: each offset once per path. */
  readonly cutAt: readonly number[];
  /** Speed of the origin's line. */
  readonly bytesPerSecond: number;
}

/** The work of an origin since its start. */
export interface OriginCounters {
  readonly requests: number;
  /** Body bytes sent, including those of transfers that broke off. */
  readonly bodyBytes: number;
  /** Paced responses in progress. */
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

/** Starts an origin on these cores. It ends on disposal, or when this process ends. */
export async function startOrigin(options: OriginOptions, cores: CoreList | undefined): Promise<Origin> {
  const [command = '', ...args] = pinned(cores, [process.execPath, programs[options.kind], JSON.stringify(options)]);
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const nextMessage = async (): Promise<unknown> => {
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
  const { port } = (await nextMessage()) as { port: number };
  return {
    port,
    counters: async () => {
      const answer = nextMessage();
      child.send('counters');
      return (await answer) as OriginCounters;
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}
