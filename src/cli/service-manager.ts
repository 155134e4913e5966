/**
 * Tells the service manager that has started us, systemd, what becomes of the server (sd_notify(3)). It listens at a socket of a
 * kind that Node cannot make, so its own program, `systemd-notify`, speaks for us: the unit needs `NotifyAccess=all`.
 */

import { execFile } from 'node:child_process';
import type { Emit, LifeEvent } from '../telemetry/events.ts';
import { redact } from '../telemetry/redact.ts';
import type { CliIo } from './io.ts';

/** The service manager, or nobody: where none has asked to be told, nothing happens. */
export interface ServiceManager extends Disposable {
  /** Passes events on, and tells the manager of those that mean something to it. */
  follow(emit: Emit): Emit;
  /** Sends signs of life as often as the manager wants them, as long as `isWell` says yes. Ends with disposal. */
  watch(isWell: () => boolean | Promise<boolean>): void;
  /** Waits until the manager is being told of the end, if there is one: what it was told before may still be on its way. */
  settle(): Promise<void>;
}

/** What the manager is told with, and tells the time by. */
export interface ServiceManagerParts {
  /** This process. */
  readonly pid: number;
  /** Sends assignments such as `READY=1` to a socket. Rejects where that could not be done. */
  readonly send: (assignments: readonly string[], socket: string) => Promise<void>;
  /** Microseconds of CLOCK_MONOTONIC. */
  readonly monotonicMicros: () => bigint;
}

/** A program that takes longer than this is given up. It waits up to 5 s itself for the manager to have read. */
const PATIENCE_MS = 10_000;

/** Timers that are longer fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const systemParts: ServiceManagerParts = {
  pid: process.pid,
  send: runSystemdNotify,
  monotonicMicros: () => process.hrtime.bigint() / 1000n,
};

const nobody: ServiceManager = {
  follow: (emit) => emit,
  watch: () => undefined,
  settle: async () => undefined,
  [Symbol.dispose]: () => undefined,
};

/**
 * The manager that the environment tells of. What it tells is taken out of the environment, so that no process that is started
 * from here speaks for this one.
 */
export function openServiceManager({ env, stderr }: CliIo, parts: ServiceManagerParts = systemParts): ServiceManager {
  const socket = take(env, 'NOTIFY_SOCKET');
  const watchdogMs = readWatchdog(take(env, 'WATCHDOG_USEC'), take(env, 'WATCHDOG_PID'), parts.pid);
  if (socket === undefined || socket === '') return nobody;

  // One after the other: "reloading" must not arrive after the "ready" that ends it.
  let last = Promise.resolve();
  let beforeEnd = Promise.resolve();
  let hasComplained = false;
  const tell = (assignments: readonly string[]): Promise<void> => {
    last = last.then(async () => {
      try {
        await parts.send(assignments, socket);
      } catch (error) {
        if (!hasComplained) stderr.write(`rangeway: the service manager cannot be told: ${describe(error)}\n`);
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
      // Each problem of a configuration is an event: the first one says it.
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
      // It also keeps the process alive: what is being told does not.
      const { promise, resolve } = Promise.withResolvers<void>();
      const patience = setTimeout(resolve, PATIENCE_MS);
      await Promise.race([beforeEnd, promise]);
      clearTimeout(patience);
    },
    [Symbol.dispose]: () => clearInterval(heart),
  };
}

/** What an event of the server's life means to the manager. */
function assignmentsFor({ stage, message }: LifeEvent, monotonicMicros: () => bigint): readonly string[] {
  const status = `STATUS=${redact(message)}`;
  switch (stage) {
    case 'ready':
    case 'reloaded':
    case 'reload_failed':
      // Whoever could not change goes on as before: to the manager that is the end of the reload all the same.
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

/** How long the manager waits for a sign of life, in milliseconds; undefined where it waits for none of this process. */
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
  // What is told last must not keep the process from ending.
  child.unref();
  return promise;
}

function describe(error: unknown): string {
  const { code, message = String(error) }: Partial<NodeJS.ErrnoException> = error instanceof Error ? error : {};
  if (code === 'ENOENT') return 'there is no program systemd-notify in PATH';
  return message.trim().replaceAll(/\s*\n\s*/g, ': ');
}
