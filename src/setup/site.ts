/**
 * Creates a site, a configuration at work: its routes with their gates and origins, the trace of each request, and the handler
 * that listeners call.
 */

import type { Cache } from '../cache/cache.ts';
import type { FillPolicy } from '../cache/inquiry.ts';
import { isLoopback } from '../config/address.ts';
import type { Config, RouteConfig } from '../config/schema.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import { createPeerList } from '../guard/client.ts';
import { createExplainer, type ExplainReply } from '../guard/explain.ts';
import { createInternalGate, type Gate } from '../guard/gate.ts';
import { changedRequest, type Handler, type ProxyRequest } from '../http/message.ts';
import { CountedOrigin } from '../origin/counted-origin.ts';
import type { OriginGroup } from '../origin/group/origin-group.ts';
import { createMappedOrigin, createOriginWithFields, type Origin } from '../origin/origin.ts';
import { createRangeAbility } from '../origin/range-ability.ts';
import { createRoutePrefetch, PrefetchState, type RoutePrefetch } from '../prefetch/prefetch.ts';
import { createProxy, type ProxyContext } from '../proxy.ts';
import { createRouter, type Route, referenceRules } from '../routing/router.ts';
import type { Emit } from '../telemetry/events.ts';
import { openTracing, type Tracing } from '../telemetry/tracing.ts';
import { cacheOptions, createRouteGate } from './gate.ts';
import { type Heir, Inheritance } from './inheritance.ts';
import { createRouteOrigins, readOriginFieldRules } from './origin.ts';
import { version } from './package-files.ts';
import { descriptorLimit, originDescriptors, secondsToMs, systemClock, systemRandom } from './system.ts';

/** The parts that outlive a configuration, and serve one after the other. */
export interface SiteContext {
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
  /** The handler of Rangeway's own requests. No access rule applies to them, and they are not logged. */
  readonly insideHandler: Handler;
  /** Explains a request. Nothing of it is counted or logged. */
  readonly explain: (request: ProxyRequest) => Promise<ExplainReply>;
  /** What is known of playlists and prefetched segments. The next site takes it over. */
  readonly prefetchState: PrefetchState;
  /** The state that the next site may take over. */
  readonly inheritance: Inheritance;
  /**
   * Called when another site has replaced it. Nothing is closed, so that running requests, tunnels and fills end under it. It keeps
   * no idle connection, makes no health check, and is collected with the last request, tunnel or fill that refers to it.
   */
  retire(successor: Site): void;
  /** Closes the connections to the origins of a site that never served. Those of the previous site stay. */
  discard(before: Site): Promise<void>;
  /** Closes the connections to its origins. */
  close(): Promise<void>;
}

/**
 * Creates a site. Routes that are unchanged since the previous site take over its state and its connections to origins. Rejects,
 * and leaves nothing open, where a file that the configuration names cannot be used.
 */
export async function createSite(
  config: Config,
  { cache, emit, pseudonym }: SiteContext,
  before?: Site,
): Promise<Site> {
  const inheritance = new Inheritance(before?.inheritance);
  await using resources = new AsyncDisposableStack();
  const opened: OpenedRoute[] = [];
  const gates: Gate[] = [];
  const isForThisMachine = hasLoopbackListenersOnly(config);
  for (const routeConfig of config.routes) {
    const heir = inheritance.of(routeConfig.match ?? null);
    const route = await createRoute(routeConfig, isForThisMachine, emit, heir);
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
    trust: {
      isTrusted: createPeerList(config.trustedProxies),
      fields: config.trustedFields,
      onUntrusted: createPeerNotice(emit),
    },
  };
  const prefetchState = before?.prefetchState ?? new PrefetchState(systemClock, emit);
  const parts = { ...admission, cache, clock: systemClock, emit };
  const prefetchOf = new Map<Route, RoutePrefetch>();
  for (const route of routes) {
    if (route.prefetch !== undefined)
      prefetchOf.set(route, createRoutePrefetch(route, route.prefetch, parts, prefetchState));
  }
  const context: ProxyContext = { ...parts, random: systemRandom, prefetchOf };
  /** Ends the inheritance, and returns the origin groups that the other site does not use. */
  const leave = (other: Site): readonly OriginGroup[] => {
    inheritance.forget();
    return origins.filter((group) => !other.inheritance.has(group));
  };
  return {
    config,
    routes,
    admission,
    handler: createTracedProxy(context, openTracing(version)),
    insideHandler: createProxy(withinGates(context)),
    explain: createExplainer({
      ...context,
      nextSegments: (route, inquiry) => prefetchOf.get(route)?.explain(inquiry),
    }),
    prefetchState,
    inheritance,
    retire(successor) {
      for (const group of leave(successor)) group.retire();
    },
    discard: async (other) => void (await Promise.all(leave(other).map((group) => group.close()))),
    close: async () => void (await Promise.all(origins.map((group) => group.close()))),
  };
}

/** The largest number of peers that the log names: any client can send X-Forwarded-For. */
const mostNamedPeers = 16;

/** Returns a function that says once for each peer that it names clients which count as one. */
function createPeerNotice(emit: Emit): (peer: string) => void {
  const named = new Set<string>();
  return (peer) => {
    if (named.size >= mostNamedPeers || named.has(peer)) return;
    named.add(peer);
    const [name, option] = peer === '' ? ['a peer on a Unix socket', 'unix'] : [`the peer ${peer}`, peer];
    const message = `${name} sends X-Forwarded-For, and all its clients count as one; if it is your proxy, trustedProxies: ["${option}"] tells them apart`;
    emit({ kind: 'listener', level: 'warn', message });
  };
}

/** The context of Rangeway's own requests: no proxy is trusted, and only the limits of origins apply. */
function withinGates(context: ProxyContext): ProxyContext {
  let count = 0;
  return {
    ...context,
    gateOf(route) {
      count += 1;
      return createInternalGate(context.gateOf(route), String(count));
    },
    trust: { isTrusted: () => false, fields: context.trust.fields },
    emit: () => {},
    prefetchOf: new Map(),
  };
}

/** How long an origin that sent no parts is not asked for any, in milliseconds. */
const FORGET_ABILITY_MS = 10 * 60 * 1000;

/** A reader waits for a transfer that reaches its position within this time, in milliseconds. */
const SEEK_AHEAD_MS = 500;

/** A transfer whose clients have left waits this long for one that returns, in milliseconds: some round trips and a TLS handshake. */
const RETURN_MS = 500;

/** A route, and its origins, which have to be closed. */
interface OpenedRoute {
  readonly route: Route;
  readonly origins: OriginGroup;
}

/** Creates a route. Rejects when one of its files cannot be read or used. */
async function createRoute(
  config: RouteConfig,
  isForThisMachine: boolean,
  emit: Emit,
  heir: Heir,
): Promise<OpenedRoute> {
  const { origin: originConfig, match } = config;
  const name = config.name ?? `${match?.hosts?.join(',') ?? '*'}${match?.pathPrefix ?? '/'}`;
  const toOrigin = await readOriginFieldRules(config);
  const origins = await createRouteOrigins(originConfig, name, emit, heir);
  const { url, alternatives, ranges } = originConfig;
  const rangeSupport = heir.take('range ability', [name, url, alternatives, ranges], () =>
    createRangeAbility({
      mode: ranges,
      now: systemClock.now,
      forgetAfterMs: FORGET_ABILITY_MS,
      onDistrust: (reason, scope) => {
        const what = scope === 'url' ? 'a URL of the origin' : 'the origin';
        emit({ kind: 'origin', route: name, message: `${what} is not asked for parts for a while`, detail: reason });
      },
    }),
  );
  const places = {
    match: { hosts: match?.hosts ?? [], pathPrefix: match?.pathPrefix ?? '/' },
    stripPathPrefix: config.stripPathPrefix,
    ...origins,
  };
  const sent = createMappedOrigin(
    createOriginWithFields(origins.origin, toOrigin?.constant ?? []),
    referenceRules(places),
  );
  const prefetch = config.fill.prefetch && { ...config.fill.prefetch, ...countExchanges(sent, config) };
  const route: Route = {
    name,
    ...places,
    origin: prefetch?.load ?? sent,
    refusesOtherNames: isForThisMachine && addsCredentials(config),
    toOrigin,
    cache: cacheOptions(config),
    ranges: config.ranges,
    rangeSupport,
    fill: fillPolicy(config),
    prefetch,
    lengthWaitMs: secondsToMs(config.fill.lengthWaitSeconds),
    closeDelimited: originConfig.closeDelimited,
  };
  return { route, origins: origins.origin };
}

/**
 * Whether clients reach it by loopback addresses alone, without a proxy whose protocol they would not speak. What serves other
 * machines, too, is open to all who reach it, by whatever name.
 */
function hasLoopbackListenersOnly({ listen }: Config): boolean {
  const reached = listen.filter(({ address }) => address.kind !== 'unix');
  const isLocal = ({ address, proxyProtocol }: Config['listen'][number]) =>
    address.kind === 'tcp' && isLoopback(address.host) && proxyProtocol === false;
  return reached.length > 0 && reached.every(isLocal);
}

/** Whether the origin of a route knows its clients by what Rangeway adds: a signature, secret fields, a client certificate. */
function addsCredentials({ origin, fields }: RouteConfig): boolean {
  const { signing, certFile } = origin;
  return signing !== undefined || certFile !== undefined || Object.keys(fields.toOrigin.setSecret).length > 0;
}

/** Counts the exchanges of a route, and how many its origins take at a time. */
function countExchanges(origin: Origin, { origin: { connections, alternatives }, limits }: RouteConfig) {
  const most = (connections ?? originDescriptors(descriptorLimit())) * (1 + alternatives.length);
  const { fills } = limits;
  return { load: new CountedOrigin(origin), mostExchanges: fills > 0 ? Math.min(fills, most) : most };
}

function fillPolicy({ fill, origin, limits }: RouteConfig): FillPolicy {
  const { onAbort, finishMaxLeftBytes, finishMaxSizeBytes, finishMaxPerClient, complete, completeBelowBytes } = fill;
  return {
    onAbort,
    finishMaxLeftBytes: finishMaxLeftBytes ?? Number.POSITIVE_INFINITY,
    finishMaxSizeBytes: finishMaxSizeBytes ?? Number.POSITIVE_INFINITY,
    finishMaxPerClient,
    complete: complete === 'whenSmaller' ? { smallerThanBytes: completeBelowBytes } : complete,
    seekAheadBytes: origin.seekAheadBytes,
    seekAheadMs: SEEK_AHEAD_MS,
    // A transfer that waits counts for these limits, and the client's next request would be refused.
    returnMs: limits.fills > 0 || limits.fillsPerClient > 0 ? 0 : RETURN_MS,
    openRanges: fill.openRanges,
    headLength: fill.headLength,
    resumeAttempts: fill.resumeAttempts,
    parallel: fill.parallel,
  };
}

/**
 * Creates the handler that listeners call. A traced request carries its own trace from here on, also towards the origin. Where
 * nothing is traced, the fields of the client stay as they are, and tracing costs nothing.
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
