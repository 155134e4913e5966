/** How much a client gets of a route: requests, at a time and in time, and bytes of the origin. */

import type { Delivery, ProxyRequest } from '../http/message.ts';
import type { Origin } from '../origin/origin.ts';
import type { Routed } from '../routing/inquiry.ts';
import type { Client } from './client.ts';

/** What one request may take. */
export interface Allowance {
  /** The origin as this request may use it; exchanges that are beyond a limit fail. */
  readonly origin: Origin;
  /** The response is over. */
  leave(delivery: Delivery): void;
}

/** The limits of one route. */
export interface Allowances {
  /** Throws `ProxyError`: `rate_limited`, `too_many_requests`, `body_too_large`. */
  enter(request: ProxyRequest, client: Client, routed: Routed): Allowance;
}

/** No limits. */
export const boundlessAllowances: Allowances = {
  enter: (_request, _client, { route }) => ({ origin: route.origin, leave: () => {} }),
};
