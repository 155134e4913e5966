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
  readonly #waiting = new Set<Place>();
  #busy = 0;

  constructor(connections: number) {
    this.#connections = connections;
  }

  /** Takes a place in the queue. */
  join(): Turn {
    return new Place(this);
  }

  /** Lets a place have its turn when it comes. */
  admit(place: Place): void {
    this.#waiting.add(place);
    this.#proceed();
  }

  /** Gives up a place, and the connection that it has, if it has one. */
  release(place: Place, isBusy: boolean): void {
    this.#waiting.delete(place);
    if (!isBusy) return;
    this.#busy -= 1;
    // The pool learns of the connection in the course of this turn.
    if (this.#waiting.size > 0) queueMicrotask(() => this.#proceed());
  }

  #proceed(): void {
    for (const place of this.#waiting) {
      if (this.#busy >= this.#connections) return;
      this.#waiting.delete(place);
      this.#busy += 1;
      place.go();
    }
  }
}

class Place implements Turn {
  readonly #queue: ConnectionQueue;
  #state: 'new' | 'waiting' | 'busy' | 'over' = 'new';
  #send: (() => void) | undefined;

  constructor(queue: ConnectionQueue) {
    this.#queue = queue;
  }

  begin(send: () => void): void {
    if (this.#state !== 'new') return;
    this.#state = 'waiting';
    this.#send = send;
    this.#queue.admit(this);
  }

  /** There is a connection for it. */
  go(): void {
    this.#state = 'busy';
    this.#send?.();
    this.#send = undefined;
  }

  leave(): void {
    const wasBusy = this.#state === 'busy';
    this.#state = 'over';
    this.#send = undefined;
    this.#queue.release(this, wasBusy);
  }
}
