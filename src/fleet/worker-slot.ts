/**
 * The place of one worker: its process, the heartbeat that finds a hanging event loop, and the delay before a worker that died
 * is replaced. There are never two workers in one slot.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Clock } from '../http/clock.ts';
import type { Emit, FleetEvent } from '../telemetry/events.ts';
import {
  type Calls,
  type ChannelEnd,
  ChannelGone,
  openChannel,
  type Remote,
  type SupervisorCalls,
  type WorkerCalls,
} from './channel.ts';

/** The process in a slot. */
export interface SlotProcess {
  /** Identifies it among all workers that ever ran in the fleet. */
  readonly instance: string;
  readonly process: WorkerProcess;
}

/** The parts that a slot is made of. */
interface SlotParts {
  /** Its number, from 1 on. */
  readonly id: number;
  readonly clock: Clock;
  /** A random number from 0 to 1. */
  readonly random: () => number;
  readonly emit: Emit;
  readonly backoff: BackoffOptions;
  readonly heartbeat: HeartbeatOptions;
  /** Starts a process. */
  readonly fork: () => SlotProcess;
  /** Makes a process serve. Rejects where it cannot. */
  readonly admit: (incumbent: SlotProcess) => Promise<void>;
  /** Called when the worker begins or ceases to serve or to answer. */
  readonly onChange: () => void;
  /** Whether no worker of the fleet serves. */
  readonly isAlone: () => boolean;
  /** Called when the process has ended. */
  readonly onEnded: (incumbent: SlotProcess) => void;
}

/** The state of a slot; `away` while it has no process. */
type SlotState = 'away' | 'starting' | 'serving' | 'stopping';

/** How long a process whose channel is closed may take to end by itself, in milliseconds. */
const FAREWELL_MS = 1000;

/** How long a worker may take to end beyond the grace period of its connections, in milliseconds. */
const STOP_MARGIN_MS = 5000;

/** Keeps one worker running. */
export class WorkerSlot {
  readonly #parts: SlotParts;
  #state: SlotState = 'away';
  #incumbent: SlotProcess | undefined;
  #isSilent = false;
  #unreadyReason: string | undefined;
  #hasServed = false;
  /** `kept`: a worker that ends is replaced. Begins when the first worker serves; `over` from the moment the slot is to end. */
  #course: 'opening' | 'kept' | 'over' = 'opening';
  #deaths = 0;
  #startedAt = 0;
  /** Why the current worker could not serve, or was killed by the supervisor. */
  #reason: string | undefined;
  #cancelRestart = () => {};
  #stopped: Promise<void> | undefined;

  constructor(parts: SlotParts) {
    this.#parts = parts;
  }

  get id(): number {
    return this.#parts.id;
  }

  get state(): SlotState {
    return this.#state;
  }

  /** The process, from its start to its end. */
  get incumbent(): SlotProcess | undefined {
    return this.#incumbent;
  }

  /** Whether the worker accepts connections and answers. */
  get isFit(): boolean {
    return this.#state === 'serving' && !this.#isSilent;
  }

  /** Why requests should be sent to other machines, as the worker says; undefined where there is no reason. */
  get unreadyReason(): string | undefined {
    return this.#state === 'serving' ? this.#unreadyReason : undefined;
  }

  /** Whether a worker of this slot has ever served. */
  get hasServed(): boolean {
    return this.#hasServed;
  }

  /** Starts the first worker, which is replaced from then on. Rejects with the reason where it cannot serve. */
  async open(): Promise<void> {
    const failure = await this.#raise();
    if (failure !== undefined) throw failure;
    if (this.#course === 'over') return;
    this.#course = 'kept';
    // The worker may have died since it served.
    if (this.#incumbent === undefined) this.#scheduleRestart(0);
  }

  /** Stops the worker; running requests get `graceMs` milliseconds. Resolves when it has ended. No other one is started. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  /** Kills the worker. It is replaced as long as the slot is `kept`. */
  kill(reason?: string): void {
    this.#reason ??= reason;
    this.#incumbent?.process.kill();
  }

  /** Kills the worker, and starts no other one. */
  abandon(): void {
    this.#course = 'over';
    this.#cancelRestart();
    this.kill();
  }

  async #stop(graceMs: number): Promise<void> {
    this.#course = 'over';
    this.#cancelRestart();
    const incumbent = this.#incumbent;
    if (incumbent === undefined) return;
    const isServing = this.#state === 'serving';
    this.#state = 'stopping';
    this.#parts.onChange();
    const cancel = this.#parts.clock.after(isServing ? graceMs + STOP_MARGIN_MS : 0, () => incumbent.process.kill());
    // The process ends, also where the call fails.
    if (isServing) incumbent.process.remote.stop(graceMs).catch(() => undefined);
    await incumbent.process.ended;
    cancel();
  }

  /** Starts a process, and makes it serve. Returns the error where that fails. */
  async #raise(): Promise<Error | undefined> {
    const incumbent = this.#parts.fork();
    const { process } = incumbent;
    this.#incumbent = incumbent;
    this.#state = 'starting';
    this.#isSilent = false;
    this.#unreadyReason = undefined;
    this.#reason = undefined;
    this.#startedAt = this.#parts.clock.now();
    const endWatch = this.#watch(process);
    const ended = process.ended.then((ending) => {
      endWatch();
      this.#leave(incumbent, ending);
      return ending;
    });
    try {
      await Promise.race([this.#parts.admit(incumbent), ended.then(() => Promise.reject(new ChannelGone()))]);
    } catch (thrown) {
      const failure = thrown as Error;
      if (!(failure instanceof ChannelGone)) this.kill(`it could not start: ${failure.message}`);
      const ending = await ended;
      if (!(failure instanceof ChannelGone)) return failure;
      return new Error(`worker ${this.id} ${describeEnding(ending)} before it served`);
    }
    if (this.#incumbent === incumbent && this.#state === 'starting') this.#serve(incumbent);
    return undefined;
  }

  #serve({ process }: SlotProcess): void {
    this.#state = 'serving';
    const message = `worker ${this.id} serves`;
    if (this.#hasServed) this.#tell('info', 'replaced', `${message} again`, `process ${process.pid}`);
    else this.#tell('debug', 'started', message, `process ${process.pid}`);
    this.#hasServed = true;
    this.#parts.onChange();
  }

  #watch(process: WorkerProcess): () => void {
    const { clock, heartbeat } = this.#parts;
    let endFarewell = () => {};
    let isOver = false;
    const endBeats = watchHeartbeat(
      {
        clock,
        beat: async () => {
          this.#unreadyReason = await process.remote.beat();
        },
        onSilent: () => this.#noteSilence(true),
        onHeard: () => this.#noteSilence(false),
        onDead: () => {
          const seconds = (heartbeat.intervalMs * heartbeat.deadAfter) / 1000;
          this.#tell('error', 'stuck', `worker ${this.id} has not answered for ${seconds} s: it is ended`, undefined);
          process.kill();
        },
      },
      heartbeat,
    );
    void process.gone.then(() => {
      if (!isOver) endFarewell = clock.after(FAREWELL_MS, () => process.kill());
    });
    return () => {
      isOver = true;
      endBeats();
      endFarewell();
    };
  }

  #noteSilence(isSilent: boolean): void {
    this.#isSilent = isSilent;
    if (this.#state === 'serving') this.#parts.onChange();
  }

  #leave(incumbent: SlotProcess, ending: Ending): void {
    const wasStopping = this.#state === 'stopping';
    this.#incumbent = undefined;
    this.#state = 'away';
    this.#parts.onEnded(incumbent);
    this.#parts.onChange();
    if (wasStopping) return;
    const { clock, random, backoff, isAlone } = this.#parts;
    this.#deaths = countDeaths(this.#deaths, clock.now() - this.#startedAt, backoff);
    const delayMs = restartDelayMs(this.#deaths, random(), isAlone(), backoff);
    if (this.#course === 'kept') {
      const next = delayMs === 0 ? 'another one is started' : `another one is started in ${delayMs} ms`;
      this.#tell('error', 'ended', `worker ${this.id} ${describeEnding(ending)}: ${next}`, this.#reason);
      this.#scheduleRestart(delayMs);
    }
  }

  #scheduleRestart(delayMs: number): void {
    // Errors have been reported, and the end of the process has scheduled the next start.
    const restart = () => void this.#raise();
    if (delayMs === 0) restart();
    else this.#cancelRestart = this.#parts.clock.after(delayMs, restart);
  }

  #tell(level: FleetEvent['level'], stage: FleetEvent['stage'], message: string, detail: string | undefined): void {
    this.#parts.emit({ kind: 'fleet', level, worker: this.id, stage, message, detail });
  }
}

/** How a process ended. */
export type Ending =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: string }
  /** The process could not be started. */
  | { readonly kind: 'unstarted'; readonly message: string };

/** A worker that runs or is about to. */
export interface WorkerProcess {
  readonly pid: number;
  readonly remote: Remote<WorkerCalls>;
  /** Resolves when it can no longer be called, which may be before it has ended. */
  readonly gone: Promise<void>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<Ending>;
  /** Kills it at once. */
  kill(): void;
}

/** Starts a worker, which can make these calls. */
export type ForkWorker = (calls: SupervisorCalls) => WorkerProcess;

/**
 * Starts this executable again, Node or the single executable, with these arguments. The program opens its end of the channel with
 * `openChannel`. Not `fork` of Node: it demands a file that Node runs, which the single executable does not have.
 */
export function forkWorker(args: readonly string[], calls: SupervisorCalls): WorkerProcess {
  // Options of a profiler or a tracer apply to the workers too; only one process can have the port of a debugger. The single
  // executable brings its own option against SIGUSR1, and would take it for one of the command.
  const options = process.execArgv.filter((option) => !/^--(?:inspect|disable-sigusr1)/.test(option));
  let child: ChildProcess;
  try {
    child = spawn(process.execPath, [...options, ...args], {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
  } catch (error) {
    return unstarted((error as Error).message);
  }
  const { remote, gone, leave } = openChannel<WorkerCalls>(child as ChannelEnd, calls as unknown as Calls);
  const ended = endOf(child);
  // A process that was never started emits no `disconnect`.
  void ended.then(leave);
  return { pid: child.pid ?? 0, remote, gone, ended, kill: () => void child.kill('SIGKILL') };
}

/** Returns a worker that the system could not start, for example for want of memory. */
function unstarted(message: string): WorkerProcess {
  const ended = Promise.resolve<Ending>({ kind: 'unstarted', message });
  const nobody: ChannelEnd = { on: () => undefined, once: () => undefined };
  const { remote, gone, leave } = openChannel<WorkerCalls>(nobody, {});
  leave();
  return { pid: 0, remote, gone, ended, kill: () => undefined };
}

function endOf(child: ChildProcess): Promise<Ending> {
  const { promise, resolve } = Promise.withResolvers<Ending>();
  child.once('exit', (code, signal) => {
    resolve(signal === null ? { kind: 'exit', code: code ?? 0 } : { kind: 'signal', signal });
  });
  child.on('error', ({ message }) => {
    // Errors of a running child are those of sending; the end of the channel reports them.
    if (child.pid === undefined) resolve({ kind: 'unstarted', message });
  });
  return promise;
}

/** Describes an end, in words that follow the name of the process. */
export function describeEnding(ending: Ending): string {
  switch (ending.kind) {
    case 'exit':
      return `ended with exit code ${ending.code}`;
    case 'signal':
      return `was ended by ${ending.signal}`;
    case 'unstarted':
      return `could not be started: ${ending.message}`;
  }
}

/** When a worker counts as silent or dead. */
export interface HeartbeatOptions {
  /** Milliseconds from one beat to the next. */
  readonly intervalMs: number;
  /** The number of intervals without an answer after which the worker counts as silent. */
  readonly silentAfter: number;
  /** The number of intervals after which it counts as dead. */
  readonly deadAfter: number;
}

/** A worker is silent after 4 s, and then others cover its socket; it is dead after 30 s. */
export const workerHeartbeat: HeartbeatOptions = { intervalMs: 2000, silentAfter: 2, deadAfter: 15 };

/** The parts of a heartbeat. */
interface HeartbeatParts {
  readonly clock: Pick<Clock, 'after'>;
  /** Sends a beat. Resolves with the answer. */
  readonly beat: () => Promise<unknown>;
  readonly onSilent: () => void;
  /** Called when it answers again after it was silent. */
  readonly onHeard: () => void;
  /** Called once; no call follows it. */
  readonly onDead: () => void;
}

/**
 * Sends beats until the returned function is called. Counts intervals, not time: a supervisor that was suspended together with its
 * workers, and resumes before them, has missed one interval, not an hour.
 */
export function watchHeartbeat(parts: HeartbeatParts, options: HeartbeatOptions): () => void {
  const { clock, beat, onSilent, onHeard, onDead } = parts;
  let missed = 0;
  let isWaiting = false;
  let isOver = false;
  let cancel = () => {};

  const ask = async (): Promise<void> => {
    isWaiting = true;
    try {
      await beat();
    } catch {
      // The end of the process is handled elsewhere.
      return;
    }
    isWaiting = false;
    if (!isOver && missed >= options.silentAfter) onHeard();
    missed = 0;
  };
  const tick = (): void => {
    if (isWaiting) missed += 1;
    else void ask();
    if (missed === options.silentAfter) onSilent();
    if (missed >= options.deadAfter) {
      isOver = true;
      onDead();
      return;
    }
    cancel = clock.after(options.intervalMs, tick);
  };
  tick();
  return () => {
    isOver = true;
    cancel();
  };
}

/** How the delay between a death and the next start grows. */
export interface BackoffOptions {
  /** The delay after two deaths in a row, in milliseconds. Each further death doubles it. */
  readonly firstMs: number;
  /** Maximum delay, in milliseconds. */
  readonly mostMs: number;
  /** Maximum delay where no other worker serves, in milliseconds: clients wait for it. */
  readonly mostAloneMs: number;
  /** A death after at least this lifetime is the first in a row again. In milliseconds. */
  readonly steadyAfterMs: number;
}

/** The delays of a running server. */
export const workerBackoff: BackoffOptions = {
  firstMs: 500,
  mostMs: 30_000,
  mostAloneMs: 1000,
  steadyAfterMs: 60_000,
};

/** Returns the number of deaths in a row, this one included. `deaths` is the number before it; the worker lived for `livedMs`. */
export function countDeaths(deaths: number, livedMs: number, { steadyAfterMs }: BackoffOptions): number {
  return livedMs >= steadyAfterMs ? 1 : deaths + 1;
}

/**
 * Returns the delay before the next start in milliseconds; 0 after the first death. `fraction` is a random number from 0 to 1. It
 * shortens the delay by up to half, so that workers that died together are not started together. `isAlone`: no other worker
 * serves.
 */
export function restartDelayMs(
  deaths: number,
  fraction: number,
  isAlone: boolean,
  { firstMs, mostMs, mostAloneMs }: BackoffOptions,
): number {
  if (deaths <= 1) return 0;
  const delayMs = Math.min(isAlone ? mostAloneMs : mostMs, firstMs * 2 ** (deaths - 2));
  return Math.round(delayMs * (1 - fraction / 2));
}
