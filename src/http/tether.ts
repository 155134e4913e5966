/** A signal that follows another one for a while. */

/** What `AbortSignal.any` would give, without what that costs: weak references, and a visit of the garbage collector. */
export interface Tether {
  readonly signal: AbortSignal;
  /** Aborts it whatever becomes of the other one. */
  abort(reason: unknown): void;
  /** It follows no more. To be called in the end, for the other one holds on to it. */
  release(): void;
}

/** Creates a signal that is aborted with this one, for the same reason. */
export function createTether(followed: AbortSignal): Tether {
  const own = new AbortController();
  const follow = () => own.abort(followed.reason);
  if (followed.aborted) follow();
  else followed.addEventListener('abort', follow, { once: true });
  return {
    signal: own.signal,
    abort: (reason) => own.abort(reason),
    release: () => followed.removeEventListener('abort', follow),
  };
}
