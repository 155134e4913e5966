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

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

/** Creates an empty set of waiters. */
export function createWaiters(): Waiters {
  const waiting = new Set<Waiter>();

  function settle(waiter: Waiter): void {
    try {
      if (!waiter.isMet()) return;
      waiting.delete(waiter);
      waiter.resolve();
    } catch (error) {
      waiting.delete(waiter);
      waiter.reject(error);
    }
  }

  function enlist(isMet: () => boolean, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        waiting.delete(waiter);
        reject(signal?.reason);
      };
      const waiter: Waiter = {
        isMet,
        resolve: () => {
          signal?.removeEventListener('abort', leave);
          resolve();
        },
        reject: (reason) => {
          signal?.removeEventListener('abort', leave);
          reject(reason);
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      waiting.add(waiter);
    });
  }

  return {
    async wait(isMet, signal) {
      signal?.throwIfAborted();
      if (!isMet()) await enlist(isMet, signal);
    },
    changed() {
      for (const waiter of waiting) settle(waiter);
    },
  };
}
