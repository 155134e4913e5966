/** Those who wait for a condition over a state that changes. */

/** Waits without polling: conditions are looked at again when the owner of the state says that it changed. */
export interface Waiters {
  /**
   * Resolves once `isMet()` holds. Rejects with what `isMet` throws, or with the signal's reason when it is aborted before.
   */
  wait(isMet: () => boolean, signal?: AbortSignal): Promise<void>;
  /** Looks at every condition again. */
  changed(): void;
}

/** Creates an empty set of waiters. */
export function createWaiters(): Waiters {
  return new WaiterSet();
}

/** What holds already costs its waiter no promise of its own. */
const met = Promise.resolve();

class WaiterSet implements Waiters {
  #waiting: Set<Waiter> | undefined;

  wait(isMet: () => boolean, signal?: AbortSignal): Promise<void> {
    try {
      signal?.throwIfAborted();
      return isMet() ? met : new Promise((resolve, reject) => this.#enlist({ isMet, resolve, reject }, signal));
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  changed(): void {
    if (this.#waiting === undefined) return;
    for (const waiter of this.#waiting) this.#settle(waiter);
  }

  #enlist(waiter: Omit<Waiter, 'over'>, signal: AbortSignal | undefined): void {
    const leave = () => {
      this.#waiting?.delete(enlisted);
      waiter.reject(signal?.reason);
    };
    const enlisted = { ...waiter, over: () => signal?.removeEventListener('abort', leave) };
    signal?.addEventListener('abort', leave, { once: true });
    this.#waiting ??= new Set();
    this.#waiting.add(enlisted);
  }

  #settle(waiter: Waiter): void {
    try {
      if (!waiter.isMet()) return;
      waiter.resolve();
    } catch (thrown) {
      waiter.reject(thrown);
    }
    this.#waiting?.delete(waiter);
    waiter.over();
  }
}

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
  /** Told when it does not wait any more. */
  readonly over: () => void;
}
