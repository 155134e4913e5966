/**
 * The fields that tell a client its rate limit: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11), and
 * Retry-After.
 */

import type { Field, Fields } from '../http/fields.ts';

/** A limit, and what is left of it for one client. */
export interface RateState {
  /** At most this many requests in this many seconds; both are positive integers. */
  readonly requests: number;
  readonly seconds: number;
  /** Requests that are allowed at once now: not negative. */
  readonly remaining: number;
  /** Seconds until one more request is allowed: not negative. */
  readonly nextSeconds: number;
}

/** The name of the limit in both fields. An origin may add limits of its own under other names. */
const name = '"rangeway"';

/** An sf-integer has 15 digits at most (RFC 9651 §3.3.1). */
const maxInteger = 999_999_999_999_999;

/**
 * Returns both fields, as structured lists of one item (§3, §4). The effective window `t` is the time in which the remaining
 * requests are replenished, at least the time until the next request is allowed. A client that spreads its remaining requests
 * over `t` stays within the limit (§6: the ratio of the two must be capped, and Retry-After must not be earlier).
 */
export function rateLimitFields({ requests, seconds, remaining, nextSeconds }: RateState): Fields {
  const windowSeconds = Math.max((remaining * seconds) / requests, nextSeconds);
  return [
    ['ratelimit-policy', `${name};q=${whole(requests)};w=${whole(seconds)}`],
    ['ratelimit', `${name};r=${Math.floor(remaining)};t=${whole(windowSeconds)}`],
  ];
}

/** Returns Retry-After: the delay in whole seconds, at least one (RFC 9110 §10.2.3). */
export function retryAfter(delayMs: number): Field {
  return ['retry-after', String(Math.max(1, whole(delayMs / 1000)))];
}

function whole(value: number): number {
  return Math.min(maxInteger, Math.ceil(value));
}
