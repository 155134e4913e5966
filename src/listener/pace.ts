/** How fast clients must take their responses, and send their requests. */

import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import { ShortLivedSet } from '../http/short-lived.ts';
import type { ListenerLimits } from './listener.ts';
import { type After, createRounds, type Rounds, roundPeriod } from './rounds.ts';

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
export interface PaceOptions<Limits extends keyof ListenerLimits> {
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
    const number = this.#watches.add(watch);
    this.#rounds.begin();
    return () => void this.#watches.delete(number);
  }

  #look(): boolean {
    const now = this.#now();
    for (const [number, watch] of this.#watches.numbered) {
      const detail = this.#isOverdue(watch, now) ?? this.#isTooSlow(watch, now);
      if (detail === undefined) continue;
      this.#watches.delete(number);
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
