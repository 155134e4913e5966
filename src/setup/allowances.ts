/** From the configuration to how much a client gets. */

import type { RouteConfig } from '../config/schema.ts';
import { type Allowances, createAllowances } from '../guard/allowances.ts';
import { monotonicClock, seconds } from './system.ts';

/** Creates the limits of a route. */
export function createRouteAllowances({ limits }: RouteConfig): Allowances {
  const { rate, amplification, bodyBytes, requestsPerClient, fills, fillsPerClient } = limits;
  const { factor, freeBytes, windowSeconds } = amplification;
  const rules = {
    bodyBytes,
    requestsPerClient,
    fills,
    fillsPerClient,
    rate: rate && { ...rate, burst: rate.burst ?? rate.requests },
    amplification: factor === 0 ? undefined : { factor, freeBytes, windowMs: seconds(windowSeconds) },
  };
  return createAllowances(rules, monotonicClock);
}
