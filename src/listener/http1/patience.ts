/** How long a connection may take for what, counted in looks, so that no request costs a timer or a look at the clock. */

import type { ListenerLimits } from '../listener.ts';
import { roundPeriod } from '../rounds.ts';

/** How often connections are looked at, in milliseconds. */
const period = { least: 20, most: 5_000 };

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
export type Passed = 'request' | 'quiet' | undefined;

/** Limits of time as numbers of looks; Infinity where there is none. */
export class Patience {
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
export class Watch {
  readonly #patience: Patience;
  #requests = -1;
  #requestLooks = 0;
  #progress = -1;
  #quietLooks = 0;

  constructor(patience: Patience) {
    this.#patience = patience;
  }

  look({ waiting, requests, progress, isClientsTurn }: View): Passed {
    const { headLooks, requestLooks, keptLooks, idleLooks } = this.#patience;
    const isArriving = waiting !== 'next' && waiting !== 'nothing';
    this.#requestLooks = isArriving && requests === this.#requests ? this.#requestLooks + 1 : 0;
    this.#quietLooks = isClientsTurn && progress === this.#progress ? this.#quietLooks + 1 : 0;
    this.#requests = requests;
    this.#progress = progress;
    if (isArriving && this.#requestLooks >= (waiting === 'body' ? requestLooks : headLooks)) return 'request';
    return this.#quietLooks >= (waiting === 'next' ? keptLooks : idleLooks) ? 'quiet' : undefined;
  }
}
