/** Chooses the level of a warning that may come again with every request: `warn` once per interval, otherwise `debug`. */

/** What was told aloud is told so again after this time, in milliseconds. */
const ALOUD_AGAIN_AFTER_MS = 600_000;

/** Remembers what was told when. */
export class LogThrottle {
  readonly #toldAt = new Map<string, number>();

  /** The level for a fault of this kind, of which there are few, at this instant (epoch milliseconds). */
  levelOf(kind: string, now: number): 'warn' | 'debug' {
    if (now < (this.#toldAt.get(kind) ?? Number.NEGATIVE_INFINITY) + ALOUD_AGAIN_AFTER_MS) return 'debug';
    this.#toldAt.set(kind, now);
    return 'warn';
  }
}
