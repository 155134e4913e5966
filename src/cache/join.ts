/** Which requests an exchange serves besides the one that has started it. */

import { hasField } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { readCacheControl } from '../semantics/cache-control.ts';
import { ageTerms, freshnessLifetime, isStated } from '../semantics/freshness.ts';
import { decideReuse, isForAll } from '../semantics/reuse.ts';
import { hasRange } from './asked.ts';
import { Asker, isFor } from './asker.ts';
import { isBeyondLimit, isRefusedTo } from './beyond-limit.ts';
import type { FetchPlan } from './course.ts';
import type { Flight, Landing } from './flight.ts';
import type { CachePolicy, Inquiry } from './inquiry.ts';
import type { OpenGeneration } from './opened.ts';

/**
 * The flight that a request waits for, of those that run for its key and were not tried; undefined where it starts its own.
 * `isBound` tells that the responses of the key are for equal requests only: then a request waits for no others, or all who
 * ask would wait for each other in turn.
 */
export function selectFlight(
  flights: readonly Flight[],
  inquiry: Inquiry,
  plan: FetchPlan,
  now: number,
  isBound: boolean,
): Flight | undefined {
  if (flights.length === 0) return undefined;
  const { policy } = inquiry;
  const mayWait = plan.kind === 'fill' || isShareable(plan.entry.metadata, policy);
  const isForEquals = isBound || (plan.kind === 'revalidate' && !isForAll(plan.entry.metadata, policy));
  const asker = new Asker(inquiry);
  return flights.findLast(({ generation, leader }) => {
    if (generation !== undefined) return mayJoinGeneration(generation, inquiry, now);
    return mayWait && (!isForEquals || leader === undefined || leader.isEqualTo(asker));
  });
}

/**
 * A generation in the making serves a later request of the same variant as a stored response would (RFC 9111 §4). Where the origin
 * says nothing of freshness, what is still arriving counts as current: the file is fetched once, however many ask.
 */
export function mayJoinGeneration(
  generation: Pick<OpenGeneration, 'response'>,
  inquiry: Inquiry,
  now: number,
): boolean {
  const { originFields, policy } = inquiry;
  if (!isFor(generation.response, inquiry)) return false;
  const reuse = decideReuse({
    requestFields: originFields,
    hasRange: hasRange(inquiry),
    stored: generation.response,
    now,
    policy,
  });
  if (reuse.kind !== 'validate') return true;
  const { isInvalid, expiredAt } = generation.response;
  if (reuse.reason !== 'stale' || isInvalid === true || expiredAt !== undefined) return false;
  return freshnessLifetime(generation.response, policy).source === 'none';
}

/** Whether a response is given to a request that has waited for it, as it is then. */
export function mayTakeAlong(response: StoredResponse, inquiry: Inquiry, now: number): boolean {
  return isFor(response, inquiry) && isShareable(response, inquiry.policy) && !isTooOld(response, inquiry, now);
}

/**
 * Whether a response came too old to be reused, as another cache says that it comes from. How long the origin has taken
 * does not count: it was asked on behalf of all who have waited.
 */
function isTooOld(response: StoredResponse, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy } = inquiry;
  const { lifetimeMs, source } = freshnessLifetime(response, policy);
  if (!isStated(source) || ageTerms(response, now).ageFieldMs < lifetimeMs) return false;
  const asked = { requestFields: originFields, hasRange: hasRange(inquiry), policy };
  return decideReuse({ ...asked, stored: response, now }).kind === 'validate';
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
export function isWaitingVain(landing: Landing, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy, rangeAbility } = inquiry;
  const isVainFor = (response: StoredResponse) => !isShareable(response, policy) || isTooOld(response, inquiry, now);
  switch (landing.kind) {
    case 'generation':
      return isVainFor(landing.generation.response);
    case 'unusable':
      return true;
    case 'revalidated':
      return isVainFor(landing.entry.metadata);
    case 'relay':
      // The first part that came showed whether others can be combined: then one exchange serves many.
      if (landing.reason === 'part') return !rangeAbility.isKnown;
      // What Authorization kept from being shared may be shared where there is none.
      return landing.reason !== 'authorization' || hasField(originFields, 'authorization');
    case 'failed':
      return !isOfLeader(landing, inquiry);
  }
}

/** Whether a flight has failed by a limit of the client that has started it, which is none of this one that has waited for it. */
export function isOfLeader(landing: Landing, { client }: Pick<Inquiry, 'client'>): boolean {
  if (landing.kind !== 'failed' || !(landing.failure instanceof ProxyError)) return false;
  return isBeyondLimit(landing.failure) && !isRefusedTo(client, landing.failure, landing.client);
}
