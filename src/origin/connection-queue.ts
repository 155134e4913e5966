/** Requests that wait for a connection: in the order in which they came, and gone as soon as nobody wants them. */

/** One request's place. */
export interface Turn {
  /** Calls back once when there is a connection for it, in this call if there is one now; not after `leave`. */
  begin(send: () => void): void;
  /** It is over, or not wanted any more. A second call does nothing. */
  leave(): void;
}

/**
 * Stands before a pool that would keep every request until its turn: one that was given up would still cost a connection then,
 * and keep others waiting.
 */
export class ConnectionQueue {
  readonly #connections: number;
  readonly #waiting = new Set<() => void>();
  #busy = 0;

  constructor(connections: number) {
    this.#connections = connections;
  }

  /** Takes a place in the queue. */
  join(): Turn {
    let state: 'new' | 'waiting' | 'busy' | 'over' = 'new';
    let go = () => {};
    return {
      begin: (send) => {
        if (state !== 'new') return;
        state = 'waiting';
        go = () => {
          state = 'busy';
          send();
        };
        this.#waiting.add(go);
        this.#proceed();
      },
      leave: () => {
        this.#waiting.delete(go);
        const wasBusy = state === 'busy';
        state = 'over';
        if (!wasBusy) return;
        this.#busy -= 1;
        // The pool learns of the connection in the course of this turn.
        queueMicrotask(() => this.#proceed());
      },
    };
  }

  #proceed(): void {
    for (const go of this.#waiting) {
      if (this.#busy >= this.#connections) return;
      this.#waiting.delete(go);
      this.#busy += 1;
      go();
    }
  }
}
