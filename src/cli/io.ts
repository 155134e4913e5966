/**
 * The process around a command: streams, signals, the log on standard output, and exit codes. Tests pass their own.
 */

import { constants, homedir } from 'node:os';
import { isatty } from 'node:tty';
import type { LogStream } from '../telemetry/log.ts';
import { openProcessLog } from './process-log.ts';

/** The signals that stop a server. SIGHUP is one only where the command cannot reload, or where its terminal is gone. */
export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGQUIT' | 'SIGHUP';

/**
 * Signals that other servers know and this one has no use for. Left to Node, SIGUSR1 opens a debugger, by which any user of the
 * machine can run code in this process, and SIGUSR2 ends the process.
 */
const ignoredSignals = ['SIGUSR1', 'SIGUSR2'] as const;

/** The process around a command. */
export interface CliIo {
  readonly stdout: LogStream;
  readonly stderr: LogStream;
  /** Opens standard output for the log of a server. Lines are gathered, and a slow reader blocks nothing. */
  openLog(): LogStream;
  readonly env: Record<string, string | undefined>;
  readonly home: string;
  /** Calls the listener at each signal to stop, until the returned function is called. */
  onStopSignal(listener: (signal: StopSignal) => void): () => void;
  /** Calls the listener at each signal to read the configuration again, until the returned function is called. */
  onReloadSignal(listener: () => void): () => void;
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /** Ends the process now. */
  exit(code: number): void;
}

/**
 * Decides what SIGHUP means. It reloads the configuration, as with other servers. It stops the server where standard output was
 * a terminal and no longer is one.
 */
export function decideHangup(hadTerminal: boolean, hasTerminal: boolean): 'reload' | 'stop' {
  return hadTerminal && !hasTerminal ? 'stop' : 'reload';
}

/** Creates the `CliIo` of this process. */
export function createProcessIo(): CliIo {
  for (const stream of [process.stdout, process.stderr]) {
    // A log reader that exits (EPIPE) must not end the server.
    stream.on('error', () => undefined);
  }
  for (const signal of ignoredSignals) process.on(signal, () => undefined);
  const hadTerminal = process.stdout.isTTY === true;
  let reloaders = 0;
  return {
    stdout: process.stdout,
    stderr: process.stderr,
    openLog: openProcessLog,
    env: process.env,
    home: homedir(),
    onStopSignal: (listener) => {
      const forget = [
        onSignal('SIGINT', () => listener('SIGINT')),
        onSignal('SIGTERM', () => listener('SIGTERM')),
        onSignal('SIGQUIT', () => listener('SIGQUIT')),
        onSignal('SIGHUP', () => {
          if (decideHangup(hadTerminal, isatty(1)) === 'stop' || reloaders === 0) listener('SIGHUP');
        }),
      ];
      return () => {
        for (const each of forget) each();
      };
    },
    onReloadSignal: (listener) => {
      reloaders += 1;
      const forget = onSignal('SIGHUP', () => {
        if (decideHangup(hadTerminal, isatty(1)) === 'reload') listener();
      });
      return () => {
        reloaders -= 1;
        forget();
      };
    },
    now: () => performance.now(),
    exit: (code) => process.exit(code),
  };
}

function onSignal(signal: StopSignal, listener: () => void): () => void {
  process.on(signal, listener);
  return () => process.off(signal, listener);
}

/** 0: done; 1: failed; 2: misuse, such as a wrong flag or configuration. */
export const exitCode = { done: 0, failed: 1, misused: 2 } as const;

type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** Prints the reason; returns the exit code. */
export function fail(io: CliIo, reason: string, code: ExitCode): ExitCode {
  io.stderr.write(`rangeway: ${reason}\n`);
  return code;
}

/** Under npm, Ctrl-C arrives twice: from the terminal and from npm. A second signal within this time does not count. */
const sameSignalMs = 500;

/** Listens for stop signals until it is disposed. */
interface StopRequest extends Disposable {
  /** Resolves at the first signal. */
  readonly requested: Promise<undefined>;
}

/** Listens for stop signals. The first requests a stop. A later one exits at once, with 128 + the signal number as in shells. */
export function openStopRequest(io: CliIo): StopRequest {
  const { promise: requested, resolve: request } = Promise.withResolvers<undefined>();
  let requestedAt: number | undefined;
  const forget = io.onStopSignal((signal) => {
    if (requestedAt === undefined) {
      requestedAt = io.now();
      request(undefined);
    } else if (io.now() - requestedAt > sameSignalMs) {
      io.exit(128 + constants.signals[signal]);
    }
  });
  return { requested, [Symbol.dispose]: forget };
}
