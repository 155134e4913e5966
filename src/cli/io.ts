/**
 * What commands have of the process around them: streams, signals, the log on standard output, and exit codes. Tests pass their
 * own.
 */

import { constants, homedir } from 'node:os';
import { isatty } from 'node:tty';
import type { LogStream } from '../telemetry/log.ts';
import { openProcessLog } from './process-log.ts';

/** The signals that stop a server; SIGHUP where nothing is read again for it, and where it tells that the terminal is gone. */
export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** The world around a command. */
export interface CliIo {
  readonly stdout: LogStream;
  readonly stderr: LogStream;
  /** Standard output for the log of a server: lines are gathered, and a reader that does not read holds nothing up. */
  openLog(): LogStream;
  readonly env: Record<string, string | undefined>;
  readonly home: string;
  /** Calls the listener at each signal to stop, until the returned function is called. */
  onStopSignal(listener: (signal: StopSignal) => void): () => void;
  /** Calls the listener at each signal to read the configuration again, until the returned function is called. */
  onReloadSignal(listener: () => void): () => void;
  /** Milliseconds of a clock that only goes forward. */
  now(): number;
  /** Ends the process now. */
  exit(code: number): void;
}

/**
 * What SIGHUP means: to read the configuration again, as with all servers; or, where the output went to a terminal that is there
 * no more, what it has always meant to what runs in a terminal.
 */
export function readHangup(hadTerminal: boolean, hasTerminal: boolean): 'reload' | 'stop' {
  return hadTerminal && !hasTerminal ? 'stop' : 'reload';
}

/** The world of this process. */
export function createProcessIo(): CliIo {
  for (const stream of [process.stdout, process.stderr]) {
    // A reader of the log that goes away (EPIPE) must not take the server with it.
    stream.on('error', () => undefined);
  }
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
        onSignal('SIGHUP', () => {
          if (readHangup(hadTerminal, isatty(1)) === 'stop' || reloaders === 0) listener('SIGHUP');
        }),
      ];
      return () => {
        for (const each of forget) each();
      };
    },
    onReloadSignal: (listener) => {
      reloaders += 1;
      const forget = onSignal('SIGHUP', () => {
        if (readHangup(hadTerminal, isatty(1)) === 'reload') listener();
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

/** 0: done; 1: it could not be done here and now; 2: it was asked for wrongly. */
export const exitCode = { done: 0, failed: 1, misused: 2 } as const;

type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** Prints the reason, and gives the exit code back. */
export function fail(io: CliIo, reason: string, code: ExitCode): ExitCode {
  io.stderr.write(`rangeway: ${reason}\n`);
  return code;
}

/** Under npm a Ctrl-C comes twice, from the terminal and from npm; so soon after the first it is no second wish. */
const sameSignalMs = 500;

/** Signals are heard until it is disposed. */
interface StopRequest extends Disposable {
  /** Resolves at the first signal. */
  readonly requested: Promise<undefined>;
}

/** Listens for signals: the first asks to stop; a later one ends the process at once, as a shell tells it of such an end. */
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
