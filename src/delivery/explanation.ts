/** From an explanation of the cache to what would become of a request, the response and its bytes included. */

import type { CacheExplanation, Explained } from '../cache/explanation.ts';
import type { ProxyRequest } from '../http/message.ts';
import { errorKinds } from '../http/proxy-error.ts';
import type { DeliveryContext } from './context.ts';
import { planRange, type RangePlan } from './range-plan.ts';

/** What is told of a request: plain data; as JSON, what is undefined is absent. */
export interface Explanation extends CacheExplanation {
  /** Of this form. */
  readonly version: 1;
  /** When it was made, in epoch milliseconds. */
  readonly at: number;
  readonly method: string;
  /** The target URI, as received. */
  readonly uri: string;
  /** The name of the route. */
  readonly route: string;
  readonly plan: RangePlan;
}

/** Makes it. */
export function explain(
  {
    method,
    scheme,
    authority,
    target,
    fields,
  }: Pick<ProxyRequest, 'method' | 'scheme' | 'authority' | 'target' | 'fields'>,
  route: string,
  { explanation, subject }: Explained,
  context: DeliveryContext,
): Explanation {
  const plan = planRange({ method, fields }, subject, context);
  return {
    version: 1,
    at: context.clock.now(),
    method,
    uri: `${scheme}://${authority}${target}`,
    route,
    ...explanation,
    plan: explanation.decision.kind === 'refuse' ? refused(plan) : plan,
  };
}

/** Nothing stored may be used, and nothing else is wanted. */
function refused(plan: RangePlan): RangePlan {
  return { ...plan, status: errorKinds.not_in_cache.status, isMultipart: false, spans: [], asked: [] };
}
