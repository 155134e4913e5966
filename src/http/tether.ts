/** A signal that follows another one until it is released. */

/** Like the result of `AbortSignal.any`, but without its cost: weak references and work for the garbage collector. */
export interface FollowingSignal {
  readonly signal: AbortSignal;
  /** Aborts this signal, whether or not the followed one is aborted. */
  abort(reason: unknown): void;
  /** Stops following. Must be called in the end, because the followed signal holds a reference to this one. */
  release(): void;
}

/** Creates a signal that is aborted with `followed`, for the same reason. */
export function createFollowingSignal(followed: AbortSignal): FollowingSignal {
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
