/** Waiting that a signal ends, while what is waited for goes on. */

/** The promise, or a rejection with the signal's reason as soon as it is aborted. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    const stay = () => signal.removeEventListener('abort', leave);
    signal.addEventListener('abort', leave, { once: true });
    promise.then(
      (value) => {
        stay();
        resolve(value);
      },
      (thrown) => {
        stay();
        reject(thrown);
      },
    );
  });
}
