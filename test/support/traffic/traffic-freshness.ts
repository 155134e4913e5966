/** Checks that responses of random traffic are fresh enough for their clients (RFC 9111 §4.2, RFC 5861). */

import { expect } from 'vitest';
import { type Fields, fieldValue } from '../../../src/http/fields.ts';
import type { Asked } from './traffic-check.ts';
import type { Plan } from './traffic-plan.ts';

/** The freshness lifetime of each Cache-Control value of a plan, in seconds; 0 for others. */
const seconds: Readonly<Record<string, number>> = {
  'max-age=60': 60,
  'max-age=1': 1,
  'max-age=1, must-revalidate': 1,
  'max-age=1, stale-if-error=3': 1,
  'max-age=1, stale-while-revalidate=3': 1,
};

/** Cache-Control values under which no response may be served stale. */
const strictLifetimes = ['no-cache', 'no-store', 'private', 'max-age=1, must-revalidate'];

/**
 * Fails where a response was older, at the time of the request, than the rules allow. Responses without a lifetime are not
 * checked: one that is still arriving counts as current, however long that takes.
 */
export function expectFreshEnough(plan: Plan, { sent, sentAt }: Asked, fields: Fields): void {
  const date = Date.parse(fieldValue(fields, 'date') ?? '');
  const { 'cache-control': wish = '', 'if-range': ifRange, 'if-match': ifMatch } = sent.fields ?? {};
  // A client that resumes gets the version that it began with.
  if (Number.isNaN(date) || plan.lifetime === '' || ifRange !== undefined || ifMatch !== undefined) return;
  // Date counts whole seconds.
  const leastAgeMs = sentAt - date - 999;
  const cacheStatus = fieldValue(fields, 'cache-status') ?? '';
  // The time of the origin does not count for requests that were collapsed into another one's.
  if (cacheStatus.includes('collapsed')) return;
  const allowedMs = 1000 * ((seconds[plan.lifetime] ?? 0) + staleSeconds(plan, wish, cacheStatus));
  if (leastAgeMs >= Math.max(1, allowedMs)) {
    expect.fail(`${leastAgeMs} ms old under "${plan.lifetime}", where ${allowedMs} are allowed: ${cacheStatus}`);
  }
}

/** Returns how many seconds past its lifetime a response may be served. */
function staleSeconds({ lifetime, ...policy }: Plan, wish: string, cacheStatus: string): number {
  if (strictLifetimes.includes(lifetime) || wish === 'no-cache') return 0;
  if (wish === 'max-stale') return Number.POSITIVE_INFINITY;
  const hasFailed = /fwd-status=50[0234]|detail=/.test(cacheStatus);
  const ifError = lifetime.includes('stale-if-error') ? 3 : policy.staleIfErrorSeconds;
  const asked = Number(/stale-if-error=(\d+)/.exec(wish)?.[1] ?? 0);
  const whileRevalidate = lifetime.includes('stale-while-revalidate') ? 3 : policy.staleWhileRevalidateSeconds;
  const meanwhile = wish === 'max-age=0' ? 0 : whileRevalidate;
  return hasFailed ? Math.max(ifError, asked, meanwhile) : meanwhile;
}
