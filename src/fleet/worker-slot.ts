/** The place of one worker: whoever dies in it is replaced, and there are never two in it. */

import type { Clock } from '../http/clock.ts';
import type { Emit, FleetEvent } from '../telemetry/events.ts';
import { type BackoffOptions, countDeaths, restartDelayMs } from './backoff.ts';
import { ChannelGone } from './channel.ts';
import { type HeartbeatOptions, watchHeartbeat } from './heartbeat.ts';
import { describeEnding, type Ending, type WorkerProcess } from './worker-process.ts';

/** One process in a slot. */
export interface Incumbent {
  /** Names it among all that there were. */
  readonly instance: string;
  readonly process: WorkerProcess;
}

/** What a slot does with its worker, and tells of it. */
export interface SlotParts {
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
export type SlotState = 'away' | 'starting' | 'serving' | 'stopping';

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
