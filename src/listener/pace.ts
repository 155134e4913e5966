/** How fast clients must take their responses. */

import { ProxyError } from '../http/proxy-error.ts';
import { ShortLivedSet } from '../http/short-lived.ts';
import type { ListenerLimits } from './listener.ts';
import { type After, createRounds, type Rounds, roundPeriod } from './rounds.ts';

/** How often clients are looked at, in milliseconds. */
const period = { least: 20, most: 5_000 };

/** What is known of how a client takes its response. */
export interface Pacer {
  /** Whether it has yet to take something that was written. */
  readonly isBehind: boolean;
  /** Bytes that it has taken so far. */
  readonly takenBytes: number;
}

/** Gives up on clients that take too long. */
export interface Pace {
  /** Begins with a response. The function that it returns ends it. */
  watch(client: Pacer, giveUp: (error: ProxyError) => void): () => void;
}

/** What a pace is set with. */
export interface PaceOptions {
  readonly limits: Pick<ListenerLimits, 'responseTimeoutMs' | 'minBytesPerSecond' | 'idleTimeoutMs'>;
  /** Tells the time in milliseconds. */
  readonly now: () => number;
  readonly after: After;
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
export function createPace(options: PaceOptions): Pace {
  const { responseTimeoutMs, minBytesPerSecond, idleTimeoutMs } = options.limits;
  const hasRate = minBytesPerSecond > 0 && idleTimeoutMs > 0;
  return responseTimeoutMs > 0 || hasRate ? new SteadyPace(options) : unwatched;
}

class SteadyPace implements Pace {
  readonly #options: PaceOptions;
  readonly #watches = new ShortLivedSet<Watch>();
  readonly #rounds: Rounds;

  constructor(options: PaceOptions) {
    this.#options = options;
    const { responseTimeoutMs, idleTimeoutMs, minBytesPerSecond } = options.limits;
    const limits = [responseTimeoutMs, minBytesPerSecond > 0 ? idleTimeoutMs : 0];
    this.#rounds = createRounds(options.after, roundPeriod(limits, period), () => this.#look());
  }

  watch(client: Pacer, giveUp: (error: ProxyError) => void): () => void {
    const startedAt = this.#options.now();
    const watch: Watch = { client, startedAt, giveUp, behindSince: undefined, takenBefore: 0 };
    const number = this.#watches.add(watch);
    this.#rounds.begin();
    return () => void this.#watches.delete(number);
  }

  #look(): boolean {
    const now = this.#options.now();
    for (const [number, watch] of this.#watches.numbered) {
      const reason = this.#isOverdue(watch, now) ?? this.#isTooSlow(watch, now);
      if (reason === undefined) continue;
      this.#watches.delete(number);
      watch.giveUp(new ProxyError('client_gone', { detail: reason }));
    }
    return this.#watches.size > 0;
  }

  #isOverdue({ startedAt }: Watch, now: number): string | undefined {
    const { responseTimeoutMs } = this.#options.limits;
    if (responseTimeoutMs === 0 || now - startedAt < responseTimeoutMs) return undefined;
    return `the response took more than ${responseTimeoutMs} ms`;
  }

  #isTooSlow(watch: Watch, now: number): string | undefined {
    const { minBytesPerSecond, idleTimeoutMs } = this.#options.limits;
    if (minBytesPerSecond === 0 || idleTimeoutMs === 0) return undefined;
    const { isBehind, takenBytes } = watch.client;
    if (!isBehind || watch.behindSince === undefined) {
      watch.behindSince = isBehind ? now : undefined;
      watch.takenBefore = takenBytes;
      return undefined;
    }
    const elapsedMs = now - watch.behindSince;
    if (elapsedMs < idleTimeoutMs) return undefined;
    const bytes = takenBytes - watch.takenBefore;
    watch.behindSince = now;
    watch.takenBefore = takenBytes;
    if (bytes * 1000 >= minBytesPerSecond * elapsedMs) return undefined;
    return `the client took ${bytes} bytes in ${elapsedMs} ms`;
  }
}
