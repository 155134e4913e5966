/**
 * The place of one worker: its process, the heartbeat that finds a hanging event loop, and the delay before a worker that died
 * is replaced. There are never two workers in one slot.
 */

import { type ChildProcess, fork } from 'node:child_process';
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

/** One process in a slot. */
export interface Incumbent {
  /** Names it among all that there were. */
  readonly instance: string;
  readonly process: WorkerProcess;
}

/** What a slot does with its worker, and tells of it. */
interface SlotParts {
  /** Its number, from 1 on. */
  readonly id: number;
  readonly clock: Clock;
  /** Chance, from 0 to 1. */
  readonly random: () => number;
  readonly emit: Emit;
  readonly backoff: BackoffOptions;
  readonly heartbeat: HeartbeatOptions;
  /** Starts a process. */
  readonly fork: () => Incumbent;
  /** Brings a process to serve; rejects where it cannot. */
  readonly admit: (incumbent: Incumbent) => Promise<void>;
  /** Whether its worker serves, or answers, has changed. */
  readonly onChange: () => void;
  /** Whether no worker serves. */
  readonly isAlone: () => boolean;
  /** There is no such process any more. */
  readonly onEnded: (incumbent: Incumbent) => void;
}

/** What the worker of a slot is at: there is none, it is not ready yet, it serves, it ends. */
type SlotState = 'away' | 'starting' | 'serving' | 'stopping';

/** How long a process that can no longer be spoken to may take to end by itself, in milliseconds. */
const FAREWELL_MS = 1000;

/** How long a worker may take to end beyond the time that its connections get, in milliseconds. */
const STOP_MARGIN_MS = 5000;

/** Keeps one worker running. */
export class WorkerSlot {
  readonly #parts: SlotParts;
  #state: SlotState = 'away';
  #incumbent: Incumbent | undefined;
  #isSilent = false;
  #hasServed = false;
  /** A worker that ends is replaced: from when the first one serves until the end is wanted. */
  #course: 'opening' | 'kept' | 'over' = 'opening';
  #deaths = 0;
  #startedAt = 0;
  /** Why the present one could not serve, or was ended by us. */
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
  get incumbent(): Incumbent | undefined {
    return this.#incumbent;
  }

  /** Whether it accepts connections and answers. */
  get isFit(): boolean {
    return this.#state === 'serving' && !this.#isSilent;
  }

  /** Whether somebody has served in it. */
  get hasServed(): boolean {
    return this.#hasServed;
  }

  /** Starts the first worker; from then on there is one. Rejects with why it could not serve. */
  async open(): Promise<void> {
    const failure = await this.#raise();
    if (failure !== undefined) throw failure;
    if (this.#course === 'over') return;
    this.#course = 'kept';
    // It may have died since.
    if (this.#incumbent === undefined) this.#scheduleRestart(0);
  }

  /** Lets the worker finish what is under way for so many milliseconds. Resolves when there is none, and will be none. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  /** Ends the worker at once. Where it is kept, another one comes. */
  kill(reason?: string): void {
    this.#reason ??= reason;
    this.#incumbent?.process.kill();
  }

  /** Starts no other worker, and ends the one that there is at once. */
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
    // Whether it can stop in peace or not, it ends.
    if (isServing) incumbent.process.remote.stop(graceMs).catch(() => undefined);
    await incumbent.process.ended;
    cancel();
  }

  /** Starts a process, and brings it to serve. Gives why that has not come to pass. */
  async #raise(): Promise<Error | undefined> {
    const incumbent = this.#parts.fork();
    const { process } = incumbent;
    this.#incumbent = incumbent;
    this.#state = 'starting';
    this.#isSilent = false;
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

  #serve({ process }: Incumbent): void {
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
        beat: () => process.remote.beat(),
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

  #leave(incumbent: Incumbent, ending: Ending): void {
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
    // Errors have been told, and its end has called for the next one.
    const restart = () => void this.#raise();
    if (delayMs === 0) restart();
    else this.#cancelRestart = this.#parts.clock.after(delayMs, restart);
  }

  #tell(level: FleetEvent['level'], stage: FleetEvent['stage'], message: string, detail: string | undefined): void {
    this.#parts.emit({ kind: 'fleet', level, worker: this.id, stage, message, detail });
  }
}

/** How a process has ended. */
export type Ending =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: string }
  /** It never was one. */
  | { readonly kind: 'unstarted'; readonly message: string };

/** A worker that runs, or is about to. */
export interface WorkerProcess {
  readonly pid: number;
  readonly remote: Remote<WorkerCalls>;
  /** Resolves when nothing can be asked of it any more, which may be before it has ended. */
  readonly gone: Promise<void>;
  /** Resolves when there is no such process any more. */
  readonly ended: Promise<Ending>;
  /** Ends it at once, whatever it does. */
  kill(): void;
}

/** Starts a worker that may ask for these. */
export type ForkWorker = (calls: SupervisorCalls) => WorkerProcess;

/** Forks a program of Node with these arguments, which opens its channel by `openChannel`. */
export function forkWorker(program: string, args: readonly string[], calls: SupervisorCalls): WorkerProcess {
  let child: ChildProcess;
  try {
    child = fork(program, args, {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // What observes the supervisor observes its workers; only one process can have the port of a debugger.
      execArgv: process.execArgv.filter((option) => !option.startsWith('--inspect')),
    });
  } catch (error) {
    return unstarted((error as Error).message);
  }
  const { remote, gone, leave } = openChannel<WorkerCalls>(child as ChannelEnd, calls as unknown as Calls);
  const ended = endOf(child);
  // Who was never started has no channel that could end.
  void ended.then(leave);
  return { pid: child.pid ?? 0, remote, gone, ended, kill: () => void child.kill('SIGKILL') };
}

/** What the system could not even begin with, for want of memory for example. */
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
    // Errors of a running child are those of sending, which the end of the channel tells of.
    if (child.pid === undefined) resolve({ kind: 'unstarted', message });
  });
  return promise;
}

/** An end in words that follow the name of who has ended. */
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

/** How much patience there is. */
export interface HeartbeatOptions {
  /** Milliseconds from one question to the next. */
  readonly intervalMs: number;
  /** After so many intervals without an answer it counts as silent. */
  readonly silentAfter: number;
  /** After so many it counts as dead. */
  readonly deadAfter: number;
}

/** Half a minute, and others help out after four seconds. */
export const workerHeartbeat: HeartbeatOptions = { intervalMs: 2000, silentAfter: 2, deadAfter: 15 };

/** Who is asked, and who is told. */
interface HeartbeatParts {
  readonly clock: Pick<Clock, 'after'>;
  /** Asks; resolves with the answer. */
  readonly beat: () => Promise<unknown>;
  readonly onSilent: () => void;
  /** It answers again after it was silent. */
  readonly onHeard: () => void;
  /** Called once, and the last that is called. */
  readonly onDead: () => void;
}

/**
 * Asks again and again, until the returned function is called. Intervals are counted, not time: who was stopped together with
 * those it asks, and wakes up before them, has missed one interval and not an hour.
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
      // Its end is told elsewhere.
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

/** How the time between one death and the next start grows. */
export interface BackoffOptions {
  /** The second of two deaths in a row is waited for so long, in milliseconds; each further one twice as long. */
  readonly firstMs: number;
  /** No wait is longer, in milliseconds. */
  readonly mostMs: number;
  /** No wait is longer where nobody else serves, in milliseconds: clients wait for it. */
  readonly mostAloneMs: number;
  /** Who has lived for so many milliseconds has not died in a row. */
  readonly steadyAfterMs: number;
}

/** How a running server waits. */
export const workerBackoff: BackoffOptions = {
  firstMs: 500,
  mostMs: 30_000,
  mostAloneMs: 1000,
  steadyAfterMs: 60_000,
};

/** Deaths in a row, the latest included, when the one before was the `deaths`-th and this one came after `livedMs`. */
export function countDeaths(deaths: number, livedMs: number, { steadyAfterMs }: BackoffOptions): number {
  return livedMs >= steadyAfterMs ? 1 : deaths + 1;
}

/**
 * Milliseconds until the next start after so many deaths in a row: none after the first one. `fraction` is chance, from 0 to 1:
 * it takes up to half of a wait away, so that places that were left together are not taken together. `isAlone` says that nobody
 * else serves.
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
