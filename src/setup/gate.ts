/** From the configuration to the gate of a route. */

import type { RouteConfig } from '../config/schema.ts';
import { createGate, type Gate } from '../guard/gate.ts';
import { createPeerList } from '../guard/peers.ts';
import type { PurgeRules } from '../guard/purge.ts';
import { createRouteAccess } from './access.ts';
import { createRouteAllowances } from './allowances.ts';
import { readErrorPages } from './error-pages.ts';
import type { Heir } from './inheritance.ts';
import { createRoutePresentation } from './presentation.ts';

/** Creates a gate. Rejects when a secret or a file of it cannot be read. */
export async function createRouteGate(config: RouteConfig, heir: Heir): Promise<Gate> {
  return createGate({
    access: await createRouteAccess(config, heir),
    allowances: createRouteAllowances(config, heir),
    presentation: createRoutePresentation(config),
    purge: purgeRules(config),
    errorPages: await readErrorPages(config),
  });
}

function purgeRules({ purge: { peers, by } }: RouteConfig): PurgeRules | undefined {
  return peers.length === 0 ? undefined : { isNamed: createPeerList(peers), kinds: new Set(by) };
}
