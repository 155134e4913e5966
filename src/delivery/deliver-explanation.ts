/** From an explanation of the cache to a response that tells what would become of a request. */

import type { CacheExplanation, Explained } from '../cache/explanation.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import { errorKinds } from '../http/proxy-error.ts';
import type { DeliveryContext } from './context.ts';
import { planRange, type RangePlan } from './range-plan.ts';

/** What is told of a request; as JSON, what is undefined is absent. */
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

/** Makes the response. */
export function deliverExplanation(
  request: ProxyRequest,
  route: string,
  { explanation, subject }: Explained,
  context: DeliveryContext,
): ProxyResponse {
  const { method, scheme, authority, target } = request;
  const plan = planRange(request, subject, context);
  const told: Explanation = {
    version: 1,
    at: context.clock.now(),
    method,
    uri: `${scheme}://${authority}${target}`,
    route,
    ...explanation,
    plan: explanation.decision.kind === 'refuse' ? refused(plan) : plan,
  };
  const bytes = Buffer.from(`${JSON.stringify(told)}\n`);
  return {
    status: 200,
    fields: [
      ['content-type', 'application/json'],
      ['cache-control', 'no-store'],
      ['rangeway-explain', '?1'],
    ],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
  };
}

/** Nothing stored may be used, and nothing else is wanted. */
function refused(plan: RangePlan): RangePlan {
  return { ...plan, status: errorKinds.not_in_cache.status, isMultipart: false, spans: [], asked: [] };
}
