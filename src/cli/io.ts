/** What a command has of the world around it, passed in so that tests can stand in for it. */

import { homedir } from 'node:os';
import type { LogStream } from '../telemetry/log.ts';

/** The signals that stop a server. */
export type StopSignal = 'SIGINT' | 'SIGTERM';

/** The world around a command. */
export interface CliIo {
  readonly stdout: LogStream;
  readonly stderr: LogStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Calls the listener at each signal to stop, until the returned function is called. */
  onStopSignal(listener: (signal: StopSignal) => void): () => void;
  /** Milliseconds of a clock that only goes forward. */
  now(): number;
  /** Ends the process now. */
  exit(code: number): void;
}

/** The world of this process. */
export function createProcessIo(): CliIo {
  for (const stream of [process.stdout, process.stderr]) {
    // A reader of the log that goes away (EPIPE) must not take the server with it.
    stream.on('error', () => undefined);
  }
  return {
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    home: homedir(),
    onStopSignal(listener) {
      const signals: readonly StopSignal[] = ['SIGINT', 'SIGTERM'];
      for (const signal of signals) process.on(signal, listener);
      return () => {
        for (const signal of signals) process.off(signal, listener);
      };
    },
    now: () => performance.now(),
    exit: (code) => process.exit(code),
  };
}
