/** From the configuration to how much a client gets. */

import type { RouteConfig } from '../config/schema.ts';
import { type Allowances, createAllowances } from '../guard/allowances.ts';
import type { Heir } from './inheritance.ts';
import { monotonicClock, seconds } from './system.ts';

/** Creates the limits of a route, or takes those of the route before, with what its clients have used up, where they are the same. */
export function createRouteAllowances({ limits }: RouteConfig, heir: Heir): Allowances {
  const { rate, amplification, bodyBytes, requestsPerClient, tunnelsPerClient, fills, fillsPerClient } = limits;
  const { factor, freeBytes, windowSeconds } = amplification;
  const rules = {
    bodyBytes,
    requestsPerClient,
    tunnelsPerClient,
    tunnelIdleTimeoutMs: seconds(limits.tunnelIdleTimeoutSeconds),
    fills,
    fillsPerClient,
    rate: rate && { ...rate, burst: rate.burst ?? rate.requests },
    amplification: factor === 0 ? undefined : { factor, freeBytes, windowMs: seconds(windowSeconds) },
  };
  return heir.take('allowances', limits, () => createAllowances(rules, monotonicClock));
}
