/** What a client is told of a rate limit: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11). */

import type { Field, Fields } from '../http/fields.ts';

/** A limit, and what is left of it for one client. */
export interface RateState {
  /** So many requests in so many seconds, both whole and positive. */
  readonly requests: number;
  readonly seconds: number;
  /** Requests that may be made at once now: not negative. */
  readonly remaining: number;
  /** Seconds until there is one more: not negative. */
  readonly nextSeconds: number;
}

/** The name of the limit in both fields; an origin may tell of its own besides, under other names. */
const name = '"rangeway"';

/** An sf-integer has 15 digits at most (RFC 9651 §3.3.1). */
const maxInteger = 999_999_999_999_999;

/**
 * Both fields, as structured lists of one item (§3, §4). The effective window `t` is the time in which as many requests as
 * there are left come back, and never less than until the next one does: who spreads what is left over it keeps to the limit
 * for good (§6: the ratio of the two is to be capped, and Retry-After is not to be earlier).
 */
export function rateLimitFields({ requests, seconds, remaining, nextSeconds }: RateState): Fields {
  const windowSeconds = Math.max((remaining * seconds) / requests, nextSeconds);
  return [
    ['ratelimit-policy', `${name};q=${whole(requests)};w=${whole(seconds)}`],
    ['ratelimit', `${name};r=${Math.floor(remaining)};t=${whole(windowSeconds)}`],
  ];
}

/** When to come back: whole seconds from now, at least one (RFC 9110 §10.2.3). */
export function retryAfter(delayMs: number): Field {
  return ['retry-after', String(Math.max(1, whole(delayMs / 1000)))];
}

function whole(value: number): number {
  return Math.min(maxInteger, Math.ceil(value));
}
