/** The Cache-Status field: how this cache handled a request (RFC 9211). */

import type { Fields } from '../http/fields.ts';

/** Why a request went to the origin (RFC 9211 §2.2). */
export type ForwardReason = 'bypass' | 'method' | 'uri-miss' | 'vary-miss' | 'miss' | 'request' | 'stale' | 'partial';

/** How one request was handled, in the parameters of RFC 9211 §2. */
export interface CacheStatus {
  /** Answered without going to the origin; excludes `fwd`. */
  readonly hit?: boolean;
  readonly fwd?: ForwardReason;
  /** The status of the origin's response, where it differs from that of the client's response. */
  readonly fwdStatus?: number;
  readonly stored?: boolean;
  /** True: shared the origin's answer to another request. False: tried to share one, but could not. */
  readonly collapsed?: boolean;
  /** The remaining lifetime in seconds; negative once it is over. Rounded down to a whole number. */
  readonly ttlSeconds?: number;
  /** Further details for people, such as the reason of a refusal. */
  readonly detail?: string;
}

/** Formats the Cache-Status member of one request, as a structured field item (RFC 9211 §2, RFC 9651 §4.1). */
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

/** Returns a copy with one more member, after those of the caches nearer to the origin (RFC 9211 §2). */
export function withCacheStatus(fields: Fields, member: string): Fields {
  return [...fields, ['cache-status', member]];
}

/** An sf-integer has 15 digits at most (RFC 9651 §3.3.1). */
function formatInteger(value: number): string {
  const limit = 999_999_999_999_999;
  return String(Math.max(-limit, Math.min(limit, Math.floor(value) || 0)));
}

/** A token where the text is one, otherwise a string. Characters that a string cannot hold become `?` (RFC 9651 §3.3.3, §3.3.4). */
function formatText(text: string): string {
  if (/^[A-Za-z*][!#$%&'*+\-.^_`|~\w:/]*$/.test(text)) return text;
  return `"${text.replace(/[^ -~]/g, '?').replace(/["\\]/g, '\\$&')}"`;
}
