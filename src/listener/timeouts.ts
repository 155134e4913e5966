/**
 * Limits how long clients may take: to send a request, to take a response, and at which rate. Connections are looked at in
 * rounds, so that no request costs a timer.
 */

import type { Socket } from 'node:net';
import { ShortLivedSet } from '../http/collections.ts';
import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import type { ListenerLimits } from './listener.ts';

/** How often clients are looked at, in milliseconds. */
const period = { least: 20, most: 5_000 };

/** What is known of how a client takes its response, or sends its request. */
export interface Pacer {
  /** Whether it has yet to take something that was written, or to send something that is waited for. */
  readonly isBehind: boolean;
  /** Bytes that it has taken, or sent, so far. */
  readonly takenBytes: number;
}

/** Gives up on clients that take too long. */
export interface Pace {
  /** Begins with a response, or with the body of a request. The function that it returns ends it. */
  watch(client: Pacer, giveUp: (error: ProxyError) => void): () => void;
}

/** The time, and what a pace is set with. */
interface PaceOptions<Limits extends keyof ListenerLimits> {
  readonly limits: Pick<ListenerLimits, Limits>;
  /** Tells the time in milliseconds. */
  readonly now: () => number;
  readonly after: After;
}

/** What is watched for; 0 sets no limit. */
interface PaceRules {
  readonly timeoutMs: number;
  readonly bytesPerSecond: number;
  /** The time over which the rate is an average. */
  readonly averageMs: number;
  /** The code of the error that a client is given up with, and what it has done too slowly. */
  readonly code: ErrorCode;
  readonly verb: 'took' | 'sent';
}

/** One response under way. */
interface Watch {
  readonly client: Pacer;
  readonly startedAt: number;
  readonly giveUp: (error: ProxyError) => void;
  /** Since when it has been behind each time that it was looked at, and how much it had taken then. */
  behindSince: number | undefined;
  takenBefore: number;
}

const nothing = (): void => {};
const unwatched: Pace = { watch: () => nothing };

/**
 * Sets two limits: of the time from a response's head to its end, and of the bytes that a client takes per second, as an
 * average over `idleTimeoutMs`. A client that has taken everything waits for us, and the second limit is not for it.
 * Responses are looked at from time to time, so that those that are over at once cost next to nothing.
 */
export function createPace({
  limits: { responseTimeoutMs, minBytesPerSecond, idleTimeoutMs },
  now,
  after,
}: PaceOptions<'responseTimeoutMs' | 'minBytesPerSecond' | 'idleTimeoutMs'>): Pace {
  const rates = { bytesPerSecond: minBytesPerSecond, averageMs: idleTimeoutMs };
  return createSteadyPace({ timeoutMs: responseTimeoutMs, ...rates, code: 'client_gone', verb: 'took' }, now, after);
}

/**
 * Sets a limit of the bytes that a client sends of a body per second, as an average over `idleTimeoutMs`. A client that is not
 * waited for, because the origin is slower or there is no connection to it yet, is not asked for any.
 */
export function createUploadPace({
  limits: { minUploadBytesPerSecond, idleTimeoutMs },
  now,
  after,
}: PaceOptions<'minUploadBytesPerSecond' | 'idleTimeoutMs'>): Pace {
  const rates = { bytesPerSecond: minUploadBytesPerSecond, averageMs: idleTimeoutMs };
  return createSteadyPace({ timeoutMs: 0, ...rates, code: 'request_timeout', verb: 'sent' }, now, after);
}

function createSteadyPace(rules: PaceRules, now: () => number, after: After): Pace {
  const hasRate = rules.bytesPerSecond > 0 && rules.averageMs > 0;
  return rules.timeoutMs > 0 || hasRate ? new SteadyPace(rules, now, after) : unwatched;
}

class SteadyPace implements Pace {
  readonly #rules: PaceRules;
  readonly #now: () => number;
  readonly #watches = new ShortLivedSet<Watch>();
  readonly #rounds: Rounds;

  constructor(rules: PaceRules, now: () => number, after: After) {
    this.#rules = rules;
    this.#now = now;
    const limits = [rules.timeoutMs, rules.bytesPerSecond > 0 ? rules.averageMs : 0];
    this.#rounds = createRounds(after, roundPeriod(limits, period), () => this.#look());
  }

  watch(client: Pacer, giveUp: (error: ProxyError) => void): () => void {
    const startedAt = this.#now();
    const watch: Watch = { client, startedAt, giveUp, behindSince: undefined, takenBefore: 0 };
    const place = this.#watches.add(watch);
    this.#rounds.begin();
    return () => void this.#watches.delete(place);
  }

  #look(): boolean {
    const now = this.#now();
    for (const place of this.#watches.places) {
      const watch = place.member;
      const detail = this.#isOverdue(watch, now) ?? this.#isTooSlow(watch, now);
      if (detail === undefined) continue;
      this.#watches.delete(place);
      watch.giveUp(new ProxyError(this.#rules.code, { detail }));
    }
    return this.#watches.size > 0;
  }

  #isOverdue({ startedAt }: Watch, now: number): string | undefined {
    const { timeoutMs } = this.#rules;
    if (timeoutMs === 0 || now - startedAt < timeoutMs) return undefined;
    return `the response took more than ${timeoutMs} ms`;
  }

  #isTooSlow(watch: Watch, now: number): string | undefined {
    const { bytesPerSecond, averageMs, verb } = this.#rules;
    if (bytesPerSecond === 0 || averageMs === 0) return undefined;
    const { isBehind, takenBytes } = watch.client;
    if (!isBehind || watch.behindSince === undefined) {
      watch.behindSince = isBehind ? now : undefined;
      watch.takenBefore = takenBytes;
      return undefined;
    }
    const elapsedMs = now - watch.behindSince;
    if (elapsedMs < averageMs) return undefined;
    const bytes = takenBytes - watch.takenBefore;
    watch.behindSince = now;
    watch.takenBefore = takenBytes;
    if (bytes * 1000 >= bytesPerSecond * elapsedMs) return undefined;
    return `the client ${verb} ${bytes} bytes in ${elapsedMs} ms`;
  }
}

/** A client that is told how long its connection is kept may send a request at the last moment. */
const keepAliveExtraMs = 1_000;

/** What a connection waits for: its first request, another one, the rest of a head or of a body, or none of that. */
export type Waiting = 'first' | 'next' | 'head' | 'body' | 'nothing';

/** A connection, as it is seen when it is looked at. */
export interface View {
  readonly waiting: Waiting;
  /** How many requests have begun on it. */
  readonly requests: number;
  /** Something that changes whenever the client sends or takes something. */
  readonly progress: number;
  /** Whether only the client can bring it forward. */
  readonly isClientsTurn: boolean;
}

/** Which limit was passed: of the time for a request, or of the time in which nothing comes and nothing leaves. */
type Passed = 'request' | 'quiet' | undefined;

/** Limits of time as numbers of looks; Infinity where there is none. */
export class Timeouts {
  /** The time between two looks, in milliseconds. */
  readonly periodMs: number;
  readonly headLooks: number;
  readonly requestLooks: number;
  readonly keptLooks: number;
  readonly idleLooks: number;

  constructor({ headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, idleTimeoutMs }: ListenerLimits) {
    const requestLimits = [headersTimeoutMs, requestTimeoutMs].filter((limitMs) => limitMs > 0);
    // A head takes no longer than its request.
    const headMs = requestTimeoutMs > 0 ? Math.min(...requestLimits) : headersTimeoutMs;
    const keptMs = keepAliveTimeoutMs > 0 ? keepAliveTimeoutMs + keepAliveExtraMs : idleTimeoutMs;
    const limits = [headMs, requestTimeoutMs, keptMs, idleTimeoutMs];
    const periodMs = roundPeriod(limits, period);
    const looks = (limitMs: number): number => (limitMs > 0 ? Math.ceil(limitMs / periodMs) : Number.POSITIVE_INFINITY);
    this.periodMs = periodMs;
    this.headLooks = looks(headMs);
    this.requestLooks = looks(requestTimeoutMs);
    this.keptLooks = looks(keptMs);
    this.idleLooks = looks(idleTimeoutMs);
  }
}

/** What earlier looks at one connection have seen. A time begins with the look that sees it first. */
export class ConnectionWatch {
  readonly #timeouts: Timeouts;
  #requests = -1;
  #requestLooks = 0;
  #progress = -1;
  #quietLooks = 0;

  constructor(timeouts: Timeouts) {
    this.#timeouts = timeouts;
  }

  look({ waiting, requests, progress, isClientsTurn }: View): Passed {
    const { headLooks, requestLooks, keptLooks, idleLooks } = this.#timeouts;
    const isArriving = waiting !== 'next' && waiting !== 'nothing';
    this.#requestLooks = isArriving && requests === this.#requests ? this.#requestLooks + 1 : 0;
    this.#quietLooks = isClientsTurn && progress === this.#progress ? this.#quietLooks + 1 : 0;
    this.#requests = requests;
    this.#progress = progress;
    if (isArriving && this.#requestLooks >= (waiting === 'body' ? requestLooks : headLooks)) return 'request';
    return this.#quietLooks >= (waiting === 'next' ? keptLooks : idleLooks) ? 'quiet' : undefined;
  }
}

/** Calls back once after a time in milliseconds; the function that it gives calls it off. */
export type After = (delayMs: number, callback: () => void) => () => void;

/** The machine's timers, which keep no process alive. */
export const unreferencedTimers: After = (delayMs, callback) => {
  const timer = setTimeout(callback, delayMs).unref();
  return () => clearTimeout(timer);
};

/** Rounds that are made one after the other. */
export interface Rounds {
  /** Begins them, unless they are being made. */
  begin(): void;
  /** No further one is made. */
  end(): void;
}

/** The period in which to look after limits of time: a quarter of the shortest, within these bounds. All in milliseconds. */
export function roundPeriod(limitsMs: readonly number[], { least, most }: { least: number; most: number }): number {
  const shortest = Math.min(...limitsMs.filter((limit) => limit > 0));
  return Math.min(most, Math.max(least, Math.ceil(shortest / 4)));
}

/** Rounds begin one period after the call of `begin`, and go on for as long as `look` returns true. */
export function createRounds(after: After, periodMs: number, look: () => boolean): Rounds {
  let callOff: (() => void) | undefined;
  const wait = (): void => {
    callOff = after(periodMs, () => {
      callOff = undefined;
      if (look()) begin();
    });
  };
  const begin = (): void => {
    if (callOff === undefined) wait();
  };
  return {
    begin,
    end() {
      callOff?.();
      callOff = undefined;
    },
  };
}

/** What a socket is made of, as far as it tells what is still on its way into the kernel. */
interface Handle {
  /** What it was given so far. */
  readonly bytesWritten?: number;
  /** What of that it still has. */
  readonly writeQueueSize?: number;
}

/** What was written to. */
interface Written {
  readonly socket: Socket;
  /** Bytes that the system has put into the socket by itself, which Node knows nothing of. */
  readonly movedBytes?: number;
}

/**
 * Bytes that the kernel has taken of what was written. Node knows that for whole writes only, which may be of any size; its
 * own timeout of sockets asks the handle too. Without a handle, as after the end, all of it counts.
 */
export function takenBytes({ socket, movedBytes = 0 }: Written): number {
  const handle = (socket as { readonly _handle?: Handle | null })._handle;
  const { bytesWritten, writeQueueSize } = handle ?? {};
  if (bytesWritten === undefined || writeQueueSize === undefined) {
    return socket.bytesWritten - socket.writableLength + movedBytes;
  }
  return bytesWritten - writeQueueSize + movedBytes;
}
