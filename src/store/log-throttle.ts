/** Chooses the level of a warning that may be repeated with every request: `warn` once per interval, otherwise `debug`. */

/** Interval between two `warn` lines of one kind, in milliseconds. */
const WARN_INTERVAL_MS = 600_000;

/** Remembers when each kind was last logged at `warn`. */
export class LogThrottle {
  readonly #warnedAt = new Map<string, number>();

  /** Returns the level for a fault of this kind at this time (epoch milliseconds). Kinds are never forgotten, so there must be few. */
  levelOf(kind: string, now: number): 'warn' | 'debug' {
    if (now < (this.#warnedAt.get(kind) ?? Number.NEGATIVE_INFINITY) + WARN_INTERVAL_MS) return 'debug';
    this.#warnedAt.set(kind, now);
    return 'warn';
  }
}
