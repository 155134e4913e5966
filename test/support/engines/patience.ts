/** Command time-outs that are short only while an engine is away, so that no other step of a test depends on a quick machine. */

import type { RedisClientOptions } from '../../../src/store/redis/redis-client.ts';
import { realClock } from '../clocks/real-clock.ts';
import type { RedisServer } from './redis-server.ts';

const LONG_MS = 20_000;

/** The patience of the clients that are opened with its options. */
export class Patience {
  readonly #shortMs: number;
  #isShort = false;

  /** A longer `shortMs` is for steps in which a command has to succeed in the end. */
  constructor(shortMs = 200) {
    this.#shortMs = shortMs;
  }

  /** Options of a client: its command time-out is 20 s, and `shortMs` for what is sent within `end` or `whilePaused`. */
  readonly clientOptions: Partial<RedisClientOptions> = {
    commandTimeoutMs: LONG_MS,
    clock: {
      now: realClock.now,
      after: (delayMs, callback) =>
        realClock.after(delayMs === LONG_MS && this.#isShort ? this.#shortMs : delayMs, callback),
    },
  };

  /** Runs steps that wait for time-outs. */
  async end(steps: () => Promise<void>): Promise<void> {
    this.#isShort = true;
    try {
      await steps();
    } finally {
      this.#isShort = false;
    }
  }

  /** Runs steps while a server is paused. */
  async whilePaused(server: RedisServer, steps: () => Promise<void>): Promise<void> {
    server.signal('SIGSTOP');
    try {
      await this.end(steps);
    } finally {
      server.signal('SIGCONT');
    }
  }
}
