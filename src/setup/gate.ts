/** From the configuration to the gate of a route. */

import type { RouteConfig } from '../config/schema.ts';
import { createGate, type Gate } from '../guard/gate.ts';
import { createRouteAccess } from './access.ts';
import { createRouteAllowances } from './allowances.ts';
import { readErrorPages } from './error-pages.ts';
import { createRoutePresentation } from './presentation.ts';

/** Creates a gate. Rejects when a secret or a file of it cannot be read. */
export async function createRouteGate(config: RouteConfig): Promise<Gate> {
  return createGate({
    access: await createRouteAccess(config),
    allowances: createRouteAllowances(config),
    presentation: createRoutePresentation(config),
    errorPages: await readErrorPages(config),
  });
}
