/** From a configuration to what it makes of requests: its routes, who may pass, and the handler that listeners call. */

import { randomBytes } from 'node:crypto';
import type { Cache } from '../cache/cache.ts';
import type { Config } from '../config/schema.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import type { Gate } from '../guard/gate.ts';
import { createPeerList } from '../guard/peers.ts';
import type { Handler } from '../http/message.ts';
import { createProxy } from '../proxy.ts';
import type { Route } from '../routing/route.ts';
import { createRouter } from '../routing/router.ts';
import type { Emit } from '../telemetry/events.ts';
import { createRouteGate } from './gate.ts';
import { createRoute } from './route.ts';
import { systemClock } from './system.ts';

/** What outlives a configuration, and is served by one after the other. */
export interface SiteGround {
  readonly cache: Cache;
  readonly emit: Emit;
  /** Our name in Via and CDN-Loop. */
  readonly pseudonym: string;
}

/** One configuration at work. */
export interface Site {
  readonly config: Config;
  readonly routes: readonly Route[];
  readonly admission: AdmissionContext;
  readonly handler: Handler;
  /** Gives back the connections to its origins. */
  close(): Promise<void>;
}

/** Makes a site. Rejects, and leaves nothing open, where a file that the configuration names cannot be used. */
export async function createSite(config: Config, { cache, emit, pseudonym }: SiteGround): Promise<Site> {
  await using resources = new AsyncDisposableStack();
  const routes: Route[] = [];
  for (const route of config.routes) {
    routes.push(resources.adopt(await createRoute(route, emit), ({ origin }) => origin.close()));
  }
  const gates = await Promise.all(config.routes.map((route) => createRouteGate(route)));
  const gateOf = new Map(routes.map((route, index) => [route, gates[index] as Gate]));
  const admission: AdmissionContext = {
    router: createRouter(routes),
    gateOf: (route) => gateOf.get(route) as Gate,
    pseudonym,
    trust: { isTrusted: createPeerList(config.trustedProxies), fields: config.trustedFields },
    explainPeers: createPeerList(config.explain.peers),
  };
  const handler = createProxy({ ...admission, cache, clock: systemClock, emit, random: randomBytes });
  const kept = resources.move();
  return { config, routes, admission, handler, close: () => kept.disposeAsync() };
}
