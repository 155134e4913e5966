/** From the configuration to how much a client gets. */

import type { RouteConfig } from '../config/schema.ts';
import { type Allowances, boundlessAllowances } from '../guard/allowances.ts';

/** Creates the limits of a route. */
export function createRouteAllowances(_config: RouteConfig): Allowances {
  return boundlessAllowances;
}
