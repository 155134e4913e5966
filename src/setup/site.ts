/**
 * From a configuration to what it makes of requests: its routes, their gates and origins, the trace of each request, and the
 * handler that listeners call.
 */

import type { Cache } from '../cache/cache.ts';
import type { FillPolicy } from '../cache/inquiry.ts';
import type { Config, RouteConfig } from '../config/schema.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import { createPeerList } from '../guard/client.ts';
import { createExplainer, type ExplainReply } from '../guard/explain.ts';
import { createInsideGate, type Gate } from '../guard/gate.ts';
import { changedRequest, type Handler, type ProxyRequest } from '../http/message.ts';
import type { OriginGroup } from '../origin/group/origin-group.ts';
import { createOriginWithFields } from '../origin/origin.ts';
import { createRangeAbility } from '../origin/range-ability.ts';
import { createProxy, type ProxyContext } from '../proxy.ts';
import { createRouter, type Route } from '../routing/router.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import { cacheBeside, createRouteGate } from './gate.ts';
import { type Heir, Inheritance } from './inheritance.ts';
import { createRouteOrigins, readOriginFieldRules } from './origin.ts';
import { openProcessTracing, seconds, systemClock, systemRandom } from './system.ts';

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
  const road: ProxyContext = { ...admission, cache, clock: systemClock, emit, random: systemRandom };
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

/** How long an origin that gave no parts is not asked for any. */
const FORGET_ABILITY_MS = 10 * 60 * 1000;

/** A transfer that will be there within this time is waited for. */
const SEEK_AHEAD_MS = 500;

/** A route, and what it is made of that it has to be told to give back. */
interface OpenedRoute {
  readonly route: Route;
  readonly origins: OriginGroup;
}

/** Creates a route. Rejects when a file of it cannot be read or used. */
async function createRoute(config: RouteConfig, emit: Emit, heir: Heir): Promise<OpenedRoute> {
  const { origin: originConfig, match } = config;
  const name = config.name ?? `${match?.hosts?.join(',') ?? '*'}${match?.pathPrefix ?? '/'}`;
  const toOrigin = await readOriginFieldRules(config);
  const origins = await createRouteOrigins(originConfig, name, emit, heir);
  const { url, alternatives, ranges } = originConfig;
  const rangeAbility = heir.take('range ability', [name, url, alternatives, ranges], () =>
    createRangeAbility({
      mode: ranges,
      now: systemClock.now,
      forgetAfterMs: FORGET_ABILITY_MS,
      onDistrust: (reason) =>
        emit({ kind: 'origin', route: name, message: 'the origin is not asked for parts for a while', detail: reason }),
    }),
  );
  const route: Route = {
    name,
    match: { hosts: match?.hosts ?? [], pathPrefix: match?.pathPrefix ?? '/' },
    stripPathPrefix: config.stripPathPrefix,
    ...origins,
    origin: createOriginWithFields(origins.origin, toOrigin?.constant ?? []),
    toOrigin,
    cache: cacheBeside(config),
    ranges: config.ranges,
    rangeAbility,
    fill: fillPolicy(config),
    lengthWaitMs: seconds(config.fill.lengthWaitSeconds),
    closeDelimited: originConfig.closeDelimited,
  };
  return { route, origins: origins.origin };
}

function fillPolicy({ fill, origin }: RouteConfig): FillPolicy {
  const { onAbort, finishMaxLeftBytes, finishMaxSizeBytes, finishMaxPerClient, complete, completeBelowBytes } = fill;
  return {
    onAbort,
    finishMaxLeftBytes: finishMaxLeftBytes ?? Number.POSITIVE_INFINITY,
    finishMaxSizeBytes: finishMaxSizeBytes ?? Number.POSITIVE_INFINITY,
    finishMaxPerClient,
    complete: complete === 'whenSmaller' ? { smallerThanBytes: completeBelowBytes } : complete,
    seekAheadBytes: origin.seekAheadBytes,
    seekAheadMs: SEEK_AHEAD_MS,
    openRanges: fill.openRanges,
    headLength: fill.headLength,
    resumeAttempts: fill.resumeAttempts,
  };
}

/**
 * Creates the handler that listeners call. A traced request carries its own trace from here on, and so toward the origin; where
 * nothing is traced the client's fields are left as they are, and nothing is spent.
 */
function createTracedProxy(context: ProxyContext, tracing: Tracing | undefined): Handler {
  if (tracing === undefined) return createProxy(context);
  const untraced = createProxy(context);
  return (received) => {
    const traced = tracing.receive(received);
    if (traced === undefined) return untraced(received);
    const { fields, traceId, run, end } = traced;
    const emit: Emit = (event) => {
      if (event.kind === 'request') end(event);
      context.emit(event.kind === 'request' ? { ...event, traceId } : event);
    };
    return run(() => createProxy({ ...context, emit })(changedRequest(received, { fields })));
  };
}
