/** Waiting that a signal ends, while what is waited for goes on. */

/** The promise, or a rejection with the signal's reason as soon as it is aborted. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
