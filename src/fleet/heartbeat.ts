/** Finds out whether a process still answers: its event loop may hang while it lives. */

import type { Clock } from '../http/clock.ts';

/** How much patience there is. */
export interface HeartbeatOptions {
  /** Milliseconds from one question to the next. */
  readonly intervalMs: number;
  /** After so many intervals without an answer it counts as silent. */
  readonly silentAfter: number;
  /** After so many it counts as dead. */
  readonly deadAfter: number;
}

/** Half a minute, and others help out after four seconds. */
export const workerHeartbeat: HeartbeatOptions = { intervalMs: 2000, silentAfter: 2, deadAfter: 15 };

/** Who is asked, and who is told. */
export interface HeartbeatParts {
  readonly clock: Pick<Clock, 'after'>;
  /** Asks; resolves with the answer. */
  readonly beat: () => Promise<unknown>;
  readonly onSilent: () => void;
  /** It answers again after it was silent. */
  readonly onHeard: () => void;
  /** Called once, and the last that is called. */
  readonly onDead: () => void;
}

/**
 * Asks again and again, until the returned function is called. Intervals are counted, not time: who was stopped together with
 * those it asks, and wakes up before them, has missed one interval and not an hour.
 */
export function watchHeartbeat(parts: HeartbeatParts, options: HeartbeatOptions): () => void {
  const { clock, beat, onSilent, onHeard, onDead } = parts;
  let missed = 0;
  let isWaiting = false;
  let isOver = false;
  let cancel = () => {};

  const ask = async (): Promise<void> => {
    isWaiting = true;
    try {
      await beat();
    } catch {
      // Its end is told elsewhere.
      return;
    }
    isWaiting = false;
    if (!isOver && missed >= options.silentAfter) onHeard();
    missed = 0;
  };
  const tick = (): void => {
    if (isWaiting) missed += 1;
    else void ask();
    if (missed === options.silentAfter) onSilent();
    if (missed >= options.deadAfter) {
      isOver = true;
      onDead();
      return;
    }
    cancel = clock.after(options.intervalMs, tick);
  };
  tick();
  return () => {
    isOver = true;
    cancel();
  };
}
