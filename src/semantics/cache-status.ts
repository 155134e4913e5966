/** The Cache-Status field: what this cache did with a request (RFC 9211). */

import type { Fields } from '../http/fields.ts';

/** Why a request went to the origin (RFC 9211 §2.2). */
export type ForwardReason = 'bypass' | 'method' | 'uri-miss' | 'vary-miss' | 'miss' | 'request' | 'stale' | 'partial';

/** What became of one request, in the parameters of RFC 9211 §2. */
export interface CacheStatus {
  /** Answered without going to the origin; excludes `fwd`. */
  readonly hit?: boolean;
  readonly fwd?: ForwardReason;
  /** The status that the origin answered with, where it is not the one that the client gets. */
  readonly fwdStatus?: number;
  readonly stored?: boolean;
  /** True: shared the origin's answer to another request. False: tried to, in vain. */
  readonly collapsed?: boolean;
  /** What is left of the lifetime in seconds; negative once it is over. Rounded down to a whole number. */
  readonly ttlSeconds?: number;
  /** More, for people; a refusal's reason, for instance. */
  readonly detail?: string;
}

/** The member of Cache-Status for one request, as a structured field item (RFC 9211 §2, RFC 9651 §4.1). */
export function formatCacheStatus(status: CacheStatus, name = 'rangeway'): string {
  const parameters = [
    status.hit === true ? 'hit' : undefined,
    status.hit !== true && status.fwd !== undefined ? `fwd=${status.fwd}` : undefined,
    status.fwdStatus === undefined ? undefined : `fwd-status=${status.fwdStatus}`,
    status.ttlSeconds === undefined ? undefined : `ttl=${formatInteger(status.ttlSeconds)}`,
    status.stored === true ? 'stored' : undefined,
    status.collapsed === undefined ? undefined : status.collapsed ? 'collapsed' : 'collapsed=?0',
    status.detail === undefined ? undefined : `detail=${formatText(status.detail)}`,
  ];
  return [formatText(name), ...parameters.filter((parameter) => parameter !== undefined)].join('; ');
}

/** A copy with one member more, after those of the caches nearer to the origin (RFC 9211 §2). */
export function withCacheStatus(fields: Fields, member: string): Fields {
  return [...fields, ['cache-status', member]];
}

/** An sf-integer has 15 digits at most (RFC 9651 §3.3.1). */
function formatInteger(value: number): string {
  const limit = 999_999_999_999_999;
  return String(Math.max(-limit, Math.min(limit, Math.floor(value) || 0)));
}

/**
 * A token where the text is one, otherwise a string; what a string cannot hold becomes `?` (RFC 9651 §3.3.3, §3.3.4).
 */
function formatText(text: string): string {
  if (/^[A-Za-z*][!#$%&'*+\-.^_`|~\w:/]*$/.test(text)) return text;
  return `"${text.replace(/[^ -~]/g, '?').replace(/["\\]/g, '\\$&')}"`;
}
