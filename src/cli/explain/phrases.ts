/** The words of explanations as sentences for people. */

import type { Decision } from '../../cache/explanation.ts';
import type { RangeReading } from '../../delivery/range-plan.ts';

/** By kind and reason, or by kind alone. */
const decisions: Readonly<Record<string, string>> = {
  'hit fresh': 'what is stored is fresh',
  'hit fragment': 'a stored part holds what is wanted',
  'hit pinned': 'a replaced version is kept for clients that resume',
  'stale pinned': 'a replaced version is kept for clients that resume',
  'stale request': 'what is stored is stale, and the request takes it so',
  'stale-while-revalidate': 'what is stored is stale, and is validated while it is served',
  complete: 'what is stored holds a part of what is wanted; the rest is fetched',
  join: 'another request has asked the origin already, and this one waits for it',
  'revalidate stale': 'what is stored is stale',
  'revalidate invalid': 'what is stored is known to have changed at the origin',
  'revalidate response': 'what is stored wants the origin to be asked each time',
  'revalidate request': 'the request wants the origin to be asked',
  'fill uri-miss': 'nothing is stored under this key',
  'fill vary-miss': 'nothing that is stored under this key can be used for this request',
  'pass method': 'no stored response answers this method',
  'pass bypass': 'the route sends it past the cache',
  'pass request': 'the request forbids to store its response',
  'pass unshared': 'a moment ago the response turned out not to be for sharing',
  'pass few-uses': 'it was not asked for often enough to be stored',
  'pass store-unavailable': 'what is stored is held by others who read it',
  refuse: 'the request wants a stored response only, and none may be used',
};

/** Why a decision was taken. */
export function describeDecision({ kind, reason, directive }: Decision): string {
  const sentence = decisions[`${kind} ${reason}`] ?? decisions[kind] ?? reason;
  return directive === undefined ? sentence : `${sentence} (${directive})`;
}

const refusals: Readonly<Record<string, string>> = {
  authorization: 'it answers a request with Authorization, and does not say that it may be shared',
  bypass: 'the route sends such requests past the cache',
  'close-delimited':
    'the end of its connection is its end, and the route does not store such responses (origin.closeDelimited)',
  'digest-mismatch': 'its bytes were not those that its digest tells',
  'few-uses': 'it was not asked for often enough (cache.storeAfterUses)',
  generation_changed: 'it changed at the origin while it was transferred',
  method: 'no stored response answers this method',
  'no-freshness': 'it could never be reused: it has neither a lifetime nor a validator',
  'no-store': 'it has no-store',
  'origin-failure': 'it is a failure of the origin, and what is stored may be served in its place',
  origin_body_short: 'the origin sent fewer bytes than it promised',
  origin_reset: 'the origin broke it off',
  origin_tls_truncated: 'it ended with its connection, and TLS was closed without close_notify',
  origin_timeout: 'the origin stopped sending',
  outdated: 'it was invalidated, or a later one stored, while it was on its way',
  part: 'it is a part that cannot be combined with others',
  private: 'it has private',
  provoked: 'it is an error that fields of the request may have provoked',
  request: 'the request has no-store',
  'lease-unavailable': 'another worker was fetching it, and could not be reached',
  'set-cookie': 'it has Set-Cookie (cache.setCookie)',
  status: 'its status is not stored',
  stopped: 'nobody waited for it any more',
  'store-unavailable': 'the store took no more',
  unread: 'it came while a stale one was served, and nobody waited for it (fill)',
  'too-large': 'it is larger than the store takes (store.maxObjectSizeBytes)',
  'vary-star': 'it has Vary: *',
};

/** Why a response was not stored. */
export function describeRefusal(reason: string): string {
  return refusals[reason] ?? reason;
}

const ignored: Readonly<Record<string, string>> = {
  condition: 'a condition decides before it',
  'costs-more-than-whole': 'its parts would cost more than the whole',
  'if-range': 'If-Range does not hold',
  malformed: 'it is malformed',
  method: 'it means something for GET only',
  repeated: 'it is there more than once',
  status: 'it means something for a 200 only',
  'too-long': 'it is too long',
  'too-many': 'it has too many ranges',
  'unknown-unit': 'its unit is unknown',
};

/** What becomes of a Range field. */
export function describeRange({ isObeyed, reason = '' }: RangeReading): string {
  if (isObeyed === undefined) return 'obeyed where the response allows it';
  return isObeyed ? 'obeyed' : `ignored: ${ignored[reason] ?? reason}`;
}

const staleBans: Readonly<Record<string, string>> = {
  request: 'the request (no-cache)',
  invalid: 'what the origin has let be known of it',
};

/** What forbids to serve a response stale. */
export function describeStaleBan(ban: string): string {
  return staleBans[ban] ?? ban;
}
