/**
 * Limits how long clients may take to send a request and to read a response, and their minimum rates. Connections are checked
 * periodically, so that no request needs a timer of its own.
 */

import type { Socket } from 'node:net';
import { ShortLivedSet } from '../http/collections.ts';
import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import type { ListenerLimits } from './listener.ts';

/** Bounds of the period between two checks, in milliseconds. */
const period = { least: 20, most: 5_000 };

/** The progress of a client that reads a response or sends a request body. */
export interface ClientProgress {
  /** Whether the proxy waits for the client: to take written bytes, or to send wanted bytes. */
  readonly isBehind: boolean;
  /** Bytes that the client has taken or sent so far. */
  readonly takenBytes: number;
}

/** Ends responses and request bodies whose client is too slow. */
export interface RateLimits {
  /** Watches a response or a request body. `giveUp` is called at most once. The returned function ends the watch. */
  watch(client: ClientProgress, giveUp: (error: ProxyError) => void): () => void;
}

/** Options of a pace. */
interface PaceOptions<Limits extends keyof ListenerLimits> {
  readonly limits: Pick<ListenerLimits, Limits>;
  /** Returns the time in milliseconds. */
  readonly now: () => number;
  readonly after: After;
}

/** The limits of a pace; 0 sets no limit. */
interface PaceRules {
  readonly timeoutMs: number;
  readonly bytesPerSecond: number;
  /** The time that the rate is averaged over. */
  readonly averageMs: number;
  /** The code of the error for `giveUp`, and the verb in its detail. */
  readonly code: ErrorCode;
  readonly verb: 'took' | 'sent';
}

/** One watched response or request body. */
interface Watch {
  readonly client: ClientProgress;
  readonly startedAt: number;
  readonly giveUp: (error: ProxyError) => void;
  /** The check since which the client has been behind at every check, and the bytes taken by then. */
  behindSince: number | undefined;
  takenBefore: number;
}

const nothing = (): void => {};
const unwatched: RateLimits = { watch: () => nothing };

/**
 * Creates the pace of responses, with two limits: the time from the head of a response to its end, and a minimum rate at which
 * the client reads, averaged over `idleTimeoutMs`. The rate does not apply to a client that has taken everything written so far.
 * Responses are checked periodically, so that a short response costs almost nothing.
 */
export function createRateLimits({
  limits: { responseTimeoutMs, minBytesPerSecond, idleTimeoutMs },
  now,
  after,
}: PaceOptions<'responseTimeoutMs' | 'minBytesPerSecond' | 'idleTimeoutMs'>): RateLimits {
  const rates = { bytesPerSecond: minBytesPerSecond, averageMs: idleTimeoutMs };
  return createSteadyPace({ timeoutMs: responseTimeoutMs, ...rates, code: 'client_gone', verb: 'took' }, now, after);
}

/**
 * Creates the pace of request bodies: a minimum rate at which the client sends, averaged over `idleTimeoutMs`. The rate does not
 * apply while the proxy does not wait for the client, because the origin is slower or not connected yet.
 */
export function createUploadPace({
  limits: { minUploadBytesPerSecond, idleTimeoutMs },
  now,
  after,
}: PaceOptions<'minUploadBytesPerSecond' | 'idleTimeoutMs'>): RateLimits {
  const rates = { bytesPerSecond: minUploadBytesPerSecond, averageMs: idleTimeoutMs };
  return createSteadyPace({ timeoutMs: 0, ...rates, code: 'request_timeout', verb: 'sent' }, now, after);
}

function createSteadyPace(rules: PaceRules, now: () => number, after: After): RateLimits {
  const hasRate = rules.bytesPerSecond > 0 && rules.averageMs > 0;
  return rules.timeoutMs > 0 || hasRate ? new SteadyPace(rules, now, after) : unwatched;
}

class SteadyPace implements RateLimits {
  readonly #rules: PaceRules;
  readonly #now: () => number;
  readonly #watches = new ShortLivedSet<Watch>();
  readonly #rounds: PeriodicCheck;

  constructor(rules: PaceRules, now: () => number, after: After) {
    this.#rules = rules;
    this.#now = now;
    const limits = [rules.timeoutMs, rules.bytesPerSecond > 0 ? rules.averageMs : 0];
    this.#rounds = createPeriodicCheck(after, roundPeriod(limits, period), () => this.#look());
  }

  watch(client: ClientProgress, giveUp: (error: ProxyError) => void): () => void {
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

/** Added to the advertised keep-alive time, because a client may send a request at the last moment. In milliseconds. */
const keepAliveExtraMs = 1_000;

/** What a connection waits for: its first request, the next request, the rest of a head, the rest of a body, or none of these. */
export type ConnectionPhase = 'first' | 'next' | 'head' | 'body' | 'nothing';

/** The state of a connection at one check. */
export interface ConnectionSnapshot {
  readonly waiting: ConnectionPhase;
  /** Number of requests that have begun on the connection. */
  readonly requests: number;
  /** A number that changes whenever the client sends or takes bytes. */
  readonly progress: number;
  /** Whether only the client can make progress. */
  readonly isClientsTurn: boolean;
}

/** The exceeded limit: the time for a request, or the time without any byte in either direction. */
type Passed = 'request' | 'quiet' | undefined;

/** A client that has ended its side counts as gone where it gets nothing for this time, in milliseconds. */
const halfClosedMs = 3_000;

/** Time limits, as numbers of checks; Infinity for no limit. */
export class Timeouts {
  /** The time between two checks, in milliseconds. */
  readonly periodMs: number;
  readonly headLooks: number;
  readonly requestLooks: number;
  readonly keptLooks: number;
  readonly idleLooks: number;
  /** How long a client that has ended its side may get nothing before it counts as gone, in milliseconds. */
  readonly halfClosedMs: number;

  constructor({ headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, idleTimeoutMs }: ListenerLimits) {
    const requestLimits = [headersTimeoutMs, requestTimeoutMs].filter((limitMs) => limitMs > 0);
    // The limit of a request also limits its head.
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
    this.halfClosedMs = idleTimeoutMs > 0 ? Math.min(halfClosedMs, idleTimeoutMs) : halfClosedMs;
  }
}

/** Checks one connection against the time limits. A time starts at the first check that sees it. */
export class ConnectionWatch {
  readonly #timeouts: Timeouts;
  #requests = -1;
  #requestLooks = 0;
  #progress = -1;
  #quietLooks = 0;

  constructor(timeouts: Timeouts) {
    this.#timeouts = timeouts;
  }

  look({ waiting, requests, progress, isClientsTurn }: ConnectionSnapshot): Passed {
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

/** Calls back once after `delayMs`. The returned function cancels that. */
export type After = (delayMs: number, callback: () => void) => () => void;

/** Node's timers, unreferenced: they do not keep the process alive. */
export const unreferencedTimers: After = (delayMs, callback) => {
  const timer = setTimeout(callback, delayMs).unref();
  return () => clearTimeout(timer);
};

/** A periodic check. */
export interface PeriodicCheck {
  /** Starts the rounds unless they are running. */
  begin(): void;
  /** Stops the rounds. */
  end(): void;
}

/** Returns the period for checking time limits: a quarter of the shortest limit, within the bounds. All in milliseconds. */
export function roundPeriod(limitsMs: readonly number[], { least, most }: { least: number; most: number }): number {
  const shortest = Math.min(...limitsMs.filter((limit) => limit > 0));
  return Math.min(most, Math.max(least, Math.ceil(shortest / 4)));
}

/** Creates rounds. The first check comes one period after `begin`; the rounds go on as long as `look` returns true. */
export function createPeriodicCheck(after: After, periodMs: number, look: () => boolean): PeriodicCheck {
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

/** The libuv handle of a socket, with the counts of bytes that the kernel has not taken yet. */
interface Handle {
  /** Bytes that Node has passed to the handle. */
  readonly bytesWritten?: number;
  /** Bytes of these that the kernel has not taken yet. */
  readonly writeQueueSize?: number;
}

/** A connection that bytes were written to. */
interface Written {
  readonly socket: Socket;
  /** Bytes that sendfile has put into the socket; Node does not count them. */
  readonly movedBytes?: number;
}

/**
 * Returns how many written bytes the kernel has taken. The handle tells; Node's own counts know only whole writes, of any size.
 * Without a handle, as after the close, Node's counts have to do.
 */
export function takenBytes({ socket, movedBytes = 0 }: Written): number {
  const handle = (socket as { readonly _handle?: Handle | null })._handle;
  const { bytesWritten, writeQueueSize } = handle ?? {};
  if (bytesWritten === undefined || writeQueueSize === undefined) {
    return socket.bytesWritten - socket.writableLength + movedBytes;
  }
  return bytesWritten - writeQueueSize + movedBytes;
}
