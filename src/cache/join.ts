/** Whether a request that comes while a fill runs may read along. */

import { freshnessLifetime } from '../semantics/freshness.ts';
import { decideReuse } from '../semantics/reuse.ts';
import { matchesNominated } from '../semantics/vary.ts';
import type { Fill } from './fill.ts';
import type { Inquiry } from './inquiry.ts';
import { fillFields, hasRange } from './plan.ts';

/**
 * A running fill serves a later request of the same variant as a stored response would (RFC 9111 §4). Where the origin
 * says nothing of freshness, what is still arriving counts as current: the file is fetched once, however many ask.
 */
export function mayJoinFill(fill: Pick<Fill, 'response'>, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy } = inquiry;
  if (!matchesNominated(fill.response.nominated, fillFields(originFields))) return false;
  const reuse = decideReuse({
    requestFields: originFields,
    hasRange: hasRange(originFields),
    stored: fill.response,
    now,
    policy,
  });
  if (reuse.kind !== 'validate') return true;
  return reuse.reason === 'stale' && freshnessLifetime(fill.response, policy).source === 'none';
}
