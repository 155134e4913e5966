/** Looking after something again and again, as long as there is something to look after. */

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
