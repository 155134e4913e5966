/** What an unsafe request makes invalid in a cache (RFC 9111 §4.4). */

import { type Fields, fieldLines } from '../http/fields.ts';
import { isSafeMethod } from './method.ts';

/** An exchange that went past the cache. */
export interface InvalidationInput {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly authority: string;
  /** Origin-form. */
  readonly target: string;
  readonly response: { readonly status: number; readonly fields: Fields };
}

/**
 * The targets (origin-form, of the request's own scheme and authority) whose stored responses are invalid after an
 * exchange: none unless the method is unsafe and the response no error; otherwise the request's target as it was
 * received and those of Location and Content-Location. A URI of another origin is left alone, or one site could empty
 * another's cache.
 */
export function targetsToInvalidate({ method, scheme, authority, target, response }: InvalidationInput): string[] {
  if (isSafeMethod(method) || response.status < 200 || response.status >= 400) return [];
  const others = ['location', 'content-location']
    .flatMap((name) => fieldLines(response.fields, name))
    .map((reference) => resolveOwn(reference, { scheme, authority, target }))
    .filter((other) => other !== undefined);
  return [...new Set([target, ...others])];
}

/** The target (origin-form) that a reference in a response names; undefined where it is none of the same origin. */
export function resolveOwn(
  reference: string,
  { scheme, authority, target }: Pick<InvalidationInput, 'scheme' | 'authority' | 'target'>,
): string | undefined {
  const url = URL.parse(reference, `${scheme}://${authority}${target}`);
  return url === null || url.origin !== URL.parse(`${scheme}://${authority}`)?.origin
    ? undefined
    : url.pathname + url.search;
}
