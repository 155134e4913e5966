/** How long past its lifetime a stored response may be served (RFC 9111 §4.2.4, RFC 5861). */

import type { CacheControl, RequestDirectives } from './cache-control.ts';

/** What the operator decided about stale responses, in seconds past their lifetime. */
export interface StalePolicy {
  /** For responses that do not say how long they may be served while they are validated; 0 for not at all. */
  readonly staleWhileRevalidateSeconds: number;
  /** For responses that do not say how long they may be served when the origin fails; 0 for not at all. */
  readonly staleIfErrorSeconds: number;
}

/** Milliseconds past the lifetime; 0 for not at all. */
export interface Staleness {
  /** While it is validated in the background (RFC 5861 §3). */
  readonly whileRevalidateMs: number;
  /** When the origin fails (RFC 5861 §4). */
  readonly ifErrorMs: number;
}

const never: Staleness = { whileRevalidateMs: 0, ifErrorMs: 0 };

/** A directive of a response that forbids to serve it stale. */
export type StaleBan = 'must-revalidate' | 'proxy-revalidate' | 's-maxage' | 'no-cache' | 'private' | 'no-store';

/** The first directive that forbids to serve the response stale (RFC 9111 §4.2.4, §5.2.2.10); undefined where none does. */
export function staleBan(control: CacheControl): StaleBan | undefined {
  if (control.mustRevalidate) return 'must-revalidate';
  if (control.proxyRevalidate) return 'proxy-revalidate';
  if (control.sMaxage !== undefined) return 's-maxage';
  if (control.noCache === true) return 'no-cache';
  if (control.private === true) return 'private';
  return control.noStore ? 'no-store' : undefined;
}

/** Whether the origin leaves it open to serve the response stale. */
export function mayServeStale(control: CacheControl): boolean {
  return staleBan(control) === undefined;
}

/**
 * How long a response may be served stale: as long as it says itself, else as the operator does; when the origin fails
 * also as long as the request says (RFC 5861 §4: the directive of a request is for that request alone). Never where the
 * origin forbids it, or where the request has no-cache.
 */
export function decideStaleness(control: CacheControl, request: RequestDirectives, policy: StalePolicy): Staleness {
  if (!mayServeStale(control) || request.noCache) return never;
  const whileRevalidate = control.staleWhileRevalidate ?? policy.staleWhileRevalidateSeconds;
  const ifError = Math.max(control.staleIfError ?? policy.staleIfErrorSeconds, request.staleIfError ?? 0);
  return { whileRevalidateMs: whileRevalidate * 1000, ifErrorMs: ifError * 1000 };
}

/** The statuses by which an origin says that it fails (RFC 5861 §4). */
const failures: ReadonlySet<number> = new Set([500, 502, 503, 504]);

/** Whether a response to a validation may be put aside for a stale one (RFC 9111 §4.3.3, RFC 5861 §4). */
export function isOriginFailure(status: number): boolean {
  return failures.has(status);
}
