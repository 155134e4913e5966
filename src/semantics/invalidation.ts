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
  const own = URL.parse(`${scheme}://${authority}`);
  const others = ['location', 'content-location']
    .flatMap((name) => fieldLines(response.fields, name))
    .map((reference) => URL.parse(reference, `${scheme}://${authority}${target}`))
    .filter((url) => url !== null)
    .filter((url) => url.origin === own?.origin)
    .map((url) => url.pathname + url.search);
  return [...new Set([target, ...others])];
}
