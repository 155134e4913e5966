/** Lets changes of the index that come in one turn share a transaction. */

import { setImmediate } from 'node:timers';
import type { IndexStatements } from './index-statements.ts';

/** A change, and who waits for it. */
interface WaitingChange {
  /** Changes the index within a transaction; changes nothing else, for it may be run again. */
  readonly change: (statements: IndexStatements) => unknown;
  /** Goes on after the transaction, before anything else is asked of the index. */
  readonly settle: (result: never) => void;
  readonly fail: (error: unknown) => void;
}

/** Runs a change in a transaction of its own, all or nothing. */
type Run = <T>(change: (statements: IndexStatements) => T) => T;

/**
 * The changes that wait for the end of this turn. A transaction costs as much as a few rows: the pages that it touches go
 * to the log anew, and those who store many entries at once touch the same ones.
 */
export class ChangeGroup {
  readonly #run: Run;
  #waiting: WaitingChange[] = [];

  constructor(run: Run) {
    this.#run = run;
  }

  /**
   * Makes a change at the end of this turn, or before the next `flush`, after those that were added before it. Resolves
   * with what `settle` makes of its result. Rejects with what this change throws: others succeed without it.
   */
  add<T, R>(change: (statements: IndexStatements) => T, settle: (result: T) => R): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.flush());
      this.#waiting.push({ change, settle: (result: T) => resolve(settle(result)), fail: reject });
    });
  }

  /** Makes the changes that wait. Does not throw. */
  flush(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    try {
      const results = this.#run((statements) => waiting.map(({ change }) => change(statements)));
      for (const [at, each] of waiting.entries()) settle(each, results[at]);
    } catch (error) {
      if (waiting.length === 1) waiting[0]?.fail(error);
      // Which of them cannot be made shows when each is made by itself.
      else for (const each of waiting) this.#makeAlone(each);
    }
  }

  #makeAlone(waiting: WaitingChange): void {
    try {
      settle(waiting, this.#run(waiting.change));
    } catch (error) {
      waiting.fail(error);
    }
  }
}

/** Whoever waits gets what goes wrong here too. */
function settle(waiting: WaitingChange, result: unknown): void {
  try {
    waiting.settle(result as never);
  } catch (error) {
    waiting.fail(error);
  }
}
