/**
 * Reports the state of the server to systemd (sd_notify(3)). Node cannot open the datagram socket that this takes, so the program
 * `systemd-notify` sends the messages: the unit needs `NotifyAccess=all`.
 */

import { execFile } from 'node:child_process';
import type { Emit, LifeEvent } from '../telemetry/events.ts';
import { redact } from '../telemetry/redact.ts';
import type { CliIo } from './io.ts';

/** The service manager. Nothing happens where none has asked for notifications. */
export interface ServiceManager extends Disposable {
  /** Wraps `emit`: passes events on, and reports life events to the manager. */
  follow(emit: Emit): Emit;
  /** Sends watchdog notifications twice per interval of the manager, as long as `isWell` is true. Ends with disposal. */
  watch(isWell: () => boolean | Promise<boolean>): void;
  /** Waits, up to 10 s, until the notifications before the one of the stop were sent. */
  settle(): Promise<void>;
}

/** The process, the sender and the clock of notifications. */
export interface ServiceManagerParts {
  /** The id of this process. */
  readonly pid: number;
  /** Sends assignments such as `READY=1` to a socket. Rejects where that fails. */
  readonly send: (assignments: readonly string[], socket: string) => Promise<void>;
  /** Microseconds of CLOCK_MONOTONIC. */
  readonly monotonicMicros: () => bigint;
}

/** How long `systemd-notify` may take. It waits up to 5 s itself until the manager has read the message. */
const PATIENCE_MS = 10_000;

/** Node fires longer timers at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const systemParts: ServiceManagerParts = {
  pid: process.pid,
  send: runSystemdNotify,
  monotonicMicros: () => process.hrtime.bigint() / 1000n,
};

const noManager: ServiceManager = {
  follow: (emit) => emit,
  watch: () => undefined,
  settle: async () => undefined,
  [Symbol.dispose]: () => undefined,
};

/**
 * Opens the manager that the environment names. Its variables are removed from the environment, so that no child process reports
 * for this one.
 */
export function openServiceManager({ env, stderr }: CliIo, parts: ServiceManagerParts = systemParts): ServiceManager {
  const socket = take(env, 'NOTIFY_SOCKET');
  const watchdogMs = readWatchdog(take(env, 'WATCHDOG_USEC'), take(env, 'WATCHDOG_PID'), parts.pid);
  if (socket === undefined || socket === '') return noManager;

  // Notifications are sent one after the other: "reloading" must not arrive after the "ready" that ends it.
  let last = Promise.resolve();
  let beforeEnd = Promise.resolve();
  let hasComplained = false;
  const tell = (assignments: readonly string[]): Promise<void> => {
    last = last.then(async () => {
      try {
        await parts.send(assignments, socket);
      } catch (error) {
        if (!hasComplained) stderr.write(`rangeway: the service manager cannot be notified: ${describe(error)}\n`);
        hasComplained = true;
      }
    });
    return last;
  };

  let stage: LifeEvent['stage'] | undefined;
  let heart: NodeJS.Timeout | undefined;
  return {
    follow: (emit) => (event) => {
      emit(event);
      if (event.kind !== 'life') return;
      // Each problem of a configuration is an event of its own; only the first one is reported.
      const isMore = event.stage === 'reload_failed' && stage === 'reload_failed';
      stage = event.stage;
      if (stage === 'stopping') beforeEnd = last;
      if (!isMore) void tell(assignmentsFor(event, parts.monotonicMicros));
    },
    watch(isWell) {
      if (watchdogMs === undefined || heart !== undefined) return;
      let isBusy = false;
      const beat = async (): Promise<void> => {
        if (isBusy) return;
        isBusy = true;
        if (await mayBeat(isWell)) await tell(['WATCHDOG=1']);
        isBusy = false;
      };
      heart = setInterval(() => void beat(), Math.min(watchdogMs / 2, LONGEST_TIMER_MS)).unref();
    },
    async settle() {
      // The timer also keeps the process alive; a notification under way does not.
      const { promise, resolve } = Promise.withResolvers<void>();
      const patience = setTimeout(resolve, PATIENCE_MS);
      await Promise.race([beforeEnd, promise]);
      clearTimeout(patience);
    },
    [Symbol.dispose]: () => clearInterval(heart),
  };
}

/** Returns the assignments that report an event of the server's life. */
function assignmentsFor({ stage, message }: LifeEvent, monotonicMicros: () => bigint): readonly string[] {
  const status = `STATUS=${redact(message)}`;
  switch (stage) {
    case 'ready':
    case 'reloaded':
    case 'reload_failed':
      // After a failed reload the server goes on as before. For the manager the reload has ended too.
      return ['READY=1', status];
    case 'reloading':
      return ['RELOADING=1', `MONOTONIC_USEC=${monotonicMicros()}`, status];
    case 'stopping':
      return ['STOPPING=1', status];
    default:
      return [status];
  }
}

async function mayBeat(isWell: () => boolean | Promise<boolean>): Promise<boolean> {
  try {
    return await isWell();
  } catch {
    return false;
  }
}

/** Returns the watchdog interval in milliseconds; undefined where the manager does not watch this process. */
function readWatchdog(micros = '', watched: string | undefined, pid: number): number | undefined {
  if (!/^[1-9]\d{0,15}$/.test(micros) || (watched !== undefined && watched !== String(pid))) return undefined;
  return Number(micros) / 1000;
}

function take(environment: CliIo['env'], name: string): string | undefined {
  const value = environment[name];
  delete environment[name];
  return value;
}

function runSystemdNotify(assignments: readonly string[], socket: string): Promise<void> {
  const { PATH = '/usr/bin:/bin' } = process.env;
  const options = { env: { PATH, NOTIFY_SOCKET: socket }, timeout: PATIENCE_MS };
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const child = execFile('systemd-notify', assignments, options, (error) =>
    error === null ? resolve() : reject(error),
  );
  // The last notification must not keep the process alive.
  child.unref();
  return promise;
}

function describe(error: unknown): string {
  const { code, message = String(error) }: Partial<NodeJS.ErrnoException> = error instanceof Error ? error : {};
  if (code === 'ENOENT') return 'there is no program systemd-notify in PATH';
  return message.trim().replaceAll(/\s*\n\s*/g, ': ');
}
