/** Which requests an exchange serves besides the one that has started it. */

import { hasField } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { readCacheControl } from '../semantics/cache-control.ts';
import { freshnessLifetime, isStated } from '../semantics/freshness.ts';
import { decideReuse } from '../semantics/reuse.ts';
import { matchesVariant } from '../semantics/variant.ts';
import { fillFields, hasRange } from './asked.ts';
import type { Landing } from './flights.ts';
import type { Generation } from './generation.ts';
import type { CachePolicy, Inquiry } from './inquiry.ts';

/**
 * A generation in the making serves a later request of the same variant as a stored response would (RFC 9111 §4). Where the origin
 * says nothing of freshness, what is still arriving counts as current: the file is fetched once, however many ask.
 */
export function mayJoinGeneration(generation: Pick<Generation, 'response'>, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy } = inquiry;
  if (!isSameVariant(generation.response, inquiry)) return false;
  const reuse = decideReuse({
    requestFields: originFields,
    hasRange: hasRange(inquiry),
    stored: generation.response,
    now,
    policy,
  });
  if (reuse.kind !== 'validate') return true;
  return reuse.reason === 'stale' && freshnessLifetime(generation.response, policy).source === 'none';
}

/** Whether a response is given to a request that has waited for it. */
export function mayTakeAlong(response: StoredResponse, inquiry: Inquiry): boolean {
  return isSameVariant(response, inquiry) && isShareable(response, inquiry.policy);
}

/**
 * Whether a response may go to several who were waiting for it together (RFC 9111 §4). Not when the origin wants to be
 * asked each time, by no-cache (§5.2.2.4) or a lifetime of nothing: who asks may matter to it.
 */
export function isShareable(response: StoredResponse, policy: CachePolicy): boolean {
  const control = readCacheControl(response.fields, policy);
  if (control.noCache === true) return false;
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  return lifetimeMs > 0 || !isStated(source);
}

/** Whether the next exchange, too, would probably bring nothing to those who wait for it. */
export function isWaitingVain(landing: Landing, { originFields, policy, rangeAbility }: Inquiry): boolean {
  switch (landing.kind) {
    case 'generation':
      return !isShareable(landing.generation.response, policy);
    case 'unusable':
      return true;
    case 'revalidated':
      return !isShareable(landing.entry.metadata, policy);
    case 'relay':
      // The first part that came showed whether others can be combined: then one exchange serves many.
      if (landing.reason === 'part') return !rangeAbility.isKnown;
      // What Authorization kept from being shared may be shared where there is none.
      return landing.reason !== 'authorization' || hasField(originFields, 'authorization');
    case 'failed':
      return true;
  }
}

/** Whether a response was selected by the values that this request presents (RFC 9111 §4.1). */
export function isSameVariant(response: StoredResponse, { originFields, policy }: Inquiry): boolean {
  return matchesVariant(response, fillFields(originFields), policy.key);
}
