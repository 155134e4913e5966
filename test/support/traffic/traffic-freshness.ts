/** How old a response of random traffic may be for the client that is given it (RFC 9111 §4.2, RFC 5861). */

import { expect } from 'vitest';
import { type Fields, fieldValue } from '../../../src/http/fields.ts';
import type { Asked } from './traffic-check.ts';
import type { Plan } from './traffic-plan.ts';

/** What each lifetime of a plan comes to, in seconds; the others are none. */
const seconds: Readonly<Record<string, number>> = {
  'max-age=60': 60,
  'max-age=1': 1,
  'max-age=1, must-revalidate': 1,
  'max-age=1, stale-if-error=3': 1,
  'max-age=1, stale-while-revalidate=3': 1,
};

/** Under these nobody is ever given a stale response. */
const strictLifetimes = ['no-cache', 'no-store', 'private', 'max-age=1, must-revalidate'];

/**
 * Fails where what a client is given was older, when it asked for it, than the rules allow. Nothing is known of responses
 * without a lifetime: what is still arriving counts as current, however long that takes.
 */
export function expectFreshEnough(plan: Plan, { sent, sentAt }: Asked, fields: Fields): void {
  const date = Date.parse(fieldValue(fields, 'date') ?? '');
  const { 'cache-control': wish = '', 'if-range': ifRange, 'if-match': ifMatch } = sent.fields ?? {};
  // Those who resume are given what they began with.
  if (Number.isNaN(date) || plan.lifetime === '' || ifRange !== undefined || ifMatch !== undefined) return;
  // Date counts whole seconds.
  const leastAgeMs = sentAt - date - 999;
  const cacheStatus = fieldValue(fields, 'cache-status') ?? '';
  // How long the origin takes does not count for those who have waited for it.
  if (cacheStatus.includes('collapsed')) return;
  const allowedMs = 1000 * ((seconds[plan.lifetime] ?? 0) + staleSeconds(plan, wish, cacheStatus));
  if (leastAgeMs >= Math.max(1, allowedMs)) {
    expect.fail(`${leastAgeMs} ms old under "${plan.lifetime}", where ${allowedMs} are allowed: ${cacheStatus}`);
  }
}

/** How long past its lifetime a response may be given. */
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
