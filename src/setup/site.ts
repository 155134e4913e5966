/** From a configuration to what it makes of requests: its routes, who may pass, and the handler that listeners call. */

import { randomBytes } from 'node:crypto';
import type { Cache } from '../cache/cache.ts';
import type { Config } from '../config/schema.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import { createExplainer, type ExplainReply } from '../guard/explain.ts';
import type { Gate } from '../guard/gate.ts';
import { createInsideGate } from '../guard/inside-gate.ts';
import { createPeerList } from '../guard/peers.ts';
import type { Handler, ProxyRequest } from '../http/message.ts';
import type { OriginGroup } from '../origin/origin-group.ts';
import { createProxy, type ProxyContext } from '../proxy.ts';
import type { Route } from '../routing/route.ts';
import { createRouter } from '../routing/router.ts';
import type { Emit } from '../telemetry/events.ts';
import { createRouteGate } from './gate.ts';
import { Inheritance } from './inheritance.ts';
import { openProcessTracing } from './process-tracing.ts';
import { createRoute, type OpenedRoute } from './route.ts';
import { systemClock } from './system.ts';
import { createTracedProxy } from './traced-proxy.ts';

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
  /** The handler for requests of our own: access is not asked, and the log does not hear of them. */
  readonly insideHandler: Handler;
  /** Says what would become of a request; nothing of it is counted or logged. */
  readonly explain: (request: ProxyRequest) => Promise<ExplainReply>;
  /** What of it may go on in the site after it. */
  readonly inheritance: Inheritance;
  /**
   * Another one serves in its place. What has begun with it ends with it, so that nothing is closed: it keeps no connection that
   * nothing runs on, asks no origin how it is, and is forgotten with the last request, tunnel or fill that knows it.
   */
  retire(successor: Site): void;
  /** Gives back the connections to its origins, of one that never served: what is of the site before stays. */
  discard(before: Site): Promise<void>;
  /** Gives back the connections to its origins. */
  close(): Promise<void>;
}

/**
 * Makes a site. Where its routes are what they were in the site before, they take over what that has learned, and the
 * connections to its origins. Rejects, and leaves nothing open, where a file that the configuration names cannot be used.
 */
export async function createSite(config: Config, { cache, emit, pseudonym }: SiteGround, before?: Site): Promise<Site> {
  const inheritance = new Inheritance(before?.inheritance);
  await using resources = new AsyncDisposableStack();
  const opened: OpenedRoute[] = [];
  const gates: Gate[] = [];
  for (const routeConfig of config.routes) {
    const heir = inheritance.of(routeConfig.match ?? null);
    const route = await createRoute(routeConfig, emit, heir);
    if (before?.inheritance.has(route.origins) !== true) resources.adopt(route.origins, (group) => group.close());
    opened.push(route);
    gates.push(await createRouteGate(routeConfig, heir));
  }
  inheritance.settle();
  resources.move();

  const routes = opened.map(({ route }) => route);
  const origins = opened.map(({ origins: group }) => group);
  const gateOf = new Map(routes.map((route, index) => [route, gates[index] as Gate]));
  const admission: AdmissionContext = {
    router: createRouter(routes),
    gateOf: (route) => gateOf.get(route) as Gate,
    pseudonym,
    trust: { isTrusted: createPeerList(config.trustedProxies), fields: config.trustedFields },
  };
  const road: ProxyContext = { ...admission, cache, clock: systemClock, emit, random: randomBytes };
  /** What is not of the other site too, which nothing is inherited from this one any more. */
  const leave = (other: Site): readonly OriginGroup[] => {
    inheritance.forget();
    return origins.filter((group) => !other.inheritance.has(group));
  };
  return {
    config,
    routes,
    admission,
    handler: createTracedProxy(road, openProcessTracing()),
    insideHandler: createProxy(withinGates(road)),
    explain: createExplainer(road),
    inheritance,
    retire(successor) {
      for (const group of leave(successor)) group.retire();
    },
    discard: async (other) => void (await Promise.all(leave(other).map((group) => group.close()))),
    close: async () => void (await Promise.all(origins.map((group) => group.close()))),
  };
}

/** The road of requests of our own: no proxy speaks for them, and nothing but the limits of the origins stands before them. */
function withinGates(road: ProxyContext): ProxyContext {
  let count = 0;
  return {
    ...road,
    gateOf(route) {
      count += 1;
      return createInsideGate(road.gateOf(route), String(count));
    },
    trust: { isTrusted: () => false, fields: road.trust.fields },
    emit: () => {},
  };
}
