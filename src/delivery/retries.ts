/** Other ways to answer a request whose stored bytes turn out to be of no use before anything of them was sent. */

import { toProxyError } from '../http/proxy-error.ts';

/** What is found out about stored bytes when they are opened: they are damaged, cannot be read now, or have changed. */
const outdated: ReadonlySet<string> = new Set(['bytes_gone', 'generation_changed']);

/** The response, or what one of the other ways gives, the next one each time that stored bytes were of no use. */
export function withRetries<T>(response: T | Promise<T>, others: readonly (() => T | Promise<T>)[]): T | Promise<T> {
  if (!(response instanceof Promise)) return response;
  return others.reduce<Promise<T>>(
    (tried, next) =>
      tried.catch((thrown: unknown) => (outdated.has(toProxyError(thrown).code) ? next() : Promise.reject(thrown))),
    response,
  );
}
