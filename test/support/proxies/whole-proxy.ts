/** The whole path of a request, without sockets or over the selected wire: a scripted origin, a fake clock, a memory store. */

import { type Cache, createCache } from '../../../src/cache/cache.ts';
import { type Fleet, noFleet } from '../../../src/cache/fleet.ts';
import type { FillPolicy } from '../../../src/cache/inquiry.ts';
import { ByteBudget } from '../../../src/cache/read/read-ahead.ts';
import type { Explanation } from '../../../src/delivery/explanation.ts';
import { createExplainer, type ExplainContext } from '../../../src/guard/explain.ts';
import { plainPresentation } from '../../../src/guard/fields/presentation.ts';
import { createGate, type Gate } from '../../../src/guard/gate.ts';
import type { Handler, HitRoad, ProxyRequest } from '../../../src/http/message.ts';
import { CountedOrigin } from '../../../src/origin/counted-origin.ts';
import type { Origin } from '../../../src/origin/origin.ts';
import { createRangeAbility, type RangeMode } from '../../../src/origin/range-ability.ts';
import { createRoutePrefetch, PrefetchState } from '../../../src/prefetch/prefetch.ts';
import { createProxy, type ProxyContext } from '../../../src/proxy.ts';
import { createRouter, type PrefetchRules, type Route } from '../../../src/routing/router.ts';
import { createMemoryStore } from '../../../src/store/memory/memory-store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { FillEvent, RequestEvent, ServerEvent } from '../../../src/telemetry/events.ts';
import { type Client, createDirectClient, requestOf, type Sent } from '../clients/direct-client.ts';
import { createFakeClock, type FakeClock } from '../clocks/fake-clock.ts';
import { turn } from '../clocks/turn.ts';
import { createFakeOrigin, type FakeOrigin } from '../origins/fake-origin.ts';
import { selectedWire, Wire } from '../wire/wire.ts';
import { quiet } from '../wire/wire-quiet.ts';
import { defaultCaching } from './default-caching.ts';
import { FakeFleet, type FakeMember } from './fake-fleet.ts';
import { boundlessAllowances, openAccess } from './open-gate.ts';
import { quietFillPolicy } from './quiet-fill-policy.ts';

export type { Client, Sent } from '../clients/direct-client.ts';

/** The only trusted peer: its X-Forwarded fields count. */
const trustedPeer = '127.0.0.1';

export interface WholeProxy {
  readonly clock: FakeClock;
  readonly origin: FakeOrigin;
  /** The store of the first process. */
  readonly store: Store;
  readonly cache: Cache;
  readonly route: Route;
  /** Passes requests to the processes by turns, where there are several. */
  readonly handler: Handler;
  /** The processes, where there are several; otherwise empty. */
  readonly processes: readonly WholeProcess[];
  readonly events: readonly ServerEvent[];
  send(sent?: Sent): Client;
  /** Explains the decision on a request. Rejects where the proxy would answer the request by itself. */
  explain(sent?: Sent): Promise<Explanation>;
  /** The explainer of the first process. */
  readonly explainer: ReturnType<typeof createExplainer>;
  requestEvents(): readonly RequestEvent[];
  fillEvents(): readonly FillEvent[];
  /** Waits until `count` fills have ended. */
  fillsEnded(count: number): Promise<void>;
  /** Closes all caches, which ends their fills. */
  closeCache(): Promise<void>;
  close(): Promise<void>;
}

const defaultPrefetch = { segments: 2, segmentBytes: 1_000_000, concurrent: 4, mostExchanges: 128 };

/** One of several processes. */
export interface WholeProcess {
  readonly cache: Cache;
  readonly member: FakeMember;
  send(sent?: Sent): Client;
}

export type RouteOptions = Partial<Pick<Route, 'ranges' | 'closeDelimited' | 'host' | 'match' | 'rangeSupport'>> & {
  readonly cache?: Partial<Route['cache']>;
};

export interface WholeProxyOptions {
  readonly route?: RouteOptions;
  readonly fill?: Partial<FillPolicy>;
  /** The range mode of the origin; `never` by default. */
  readonly originRanges?: RangeMode;
  readonly blockSizeBytes?: number;
  readonly maxSizeBytes?: number;
  readonly windowBytes?: number;
  readonly readAheadBytes?: number;
  /** Creates the store of a process, by its number from 0. Processes may share one; by default they share one in memory. */
  readonly createStore?: (process: number, fleet: Fleet) => Store;
  /** The connection to other processes; by default there are none. */
  readonly fleet?: Fleet;
  /** Number of processes, each with a cache of its own, over one store; 1 by default. */
  readonly processes?: number;
  /** How the processes reach each other; `calls` by default. */
  readonly peersBy?: 'calls' | 'sockets';
  /** The gate of the route; by default it refuses and limits nothing. */
  readonly gate?: Gate;
  /** Prefetches the next segments of playlists, by these rules in place of the default ones. */
  readonly prefetch?: Partial<Omit<PrefetchRules, 'load'>>;
  /** Replaces the scripted origin, which then gets no request. */
  readonly origin?: Origin;
}

export function createWholeProxy(options: WholeProxyOptions = {}): WholeProxy {
  const { blockSizeBytes = 1024, maxSizeBytes = 16 * 1024 * 1024, windowBytes = 4 * blockSizeBytes } = options;
  const { readAheadBytes = 64 * blockSizeBytes } = options;
  const clock = createFakeClock();
  const wireName = selectedWire();
  const origin = createFakeOrigin(wireName === undefined ? undefined : quiet);
  let ids = 0;
  const randomId = () => {
    ids += 1;
    return `generation-${ids}`;
  };
  const createStore =
    options.createStore ?? createSharedStore({ maxSizeBytes, blockSizeBytes, now: clock.now, randomId });
  const events: ServerEvent[] = [];
  const watchers = new Set<() => void>();
  const emit = (event: ServerEvent) => {
    events.push(event);
    for (const watcher of watchers) watcher();
  };
  const stores: Store[] = [];
  const createOwnCache = (fleet: Fleet, process = 0) => {
    const store = createStore(process, fleet);
    stores.push(store);
    return createCache({ store, clock, emit, windowBytes, readAhead: new ByteBudget(readAheadBytes), fleet });
  };
  const load = new CountedOrigin(options.origin ?? origin);
  const route: Route = {
    name: 'main',
    match: { hosts: [], pathPrefix: '/' },
    stripPathPrefix: false,
    originUrl: new URL('http://origin.example'),
    origin: options.prefetch === undefined ? (options.origin ?? origin) : load,
    prefetch: options.prefetch && { ...defaultPrefetch, load, ...options.prefetch },
    tls: { ca: undefined, rejectUnauthorized: true },
    host: 'origin',
    ranges: { maxRanges: 100, coalesceGapBytes: 0 },
    rangeSupport: createRangeAbility({
      mode: options.originRanges ?? 'never',
      now: clock.now,
      forgetAfterMs: 600_000,
      onDistrust: (detail, scope) => emit({ kind: 'origin', route: 'main', message: `${scope} distrusted`, detail }),
    }),
    fill: { ...quietFillPolicy, ...options.fill },
    lengthWaitMs: 10_000,
    closeDelimited: 'store',
    ...options.route,
    cache: { ...defaultCaching, ...options.route?.cache },
  };
  const gate =
    options.gate ??
    createGate({ access: openAccess, allowances: boundlessAllowances, presentation: plainPresentation });
  const prefetchState = new PrefetchState(clock, emit);
  const contextOf = (cache: Cache): ProxyContext & Pick<ExplainContext, 'nextSegments'> => {
    const parts = {
      router: createRouter([route]),
      cache,
      clock,
      emit,
      pseudonym: 'rangeway-test',
      gateOf: () => gate,
    };
    const prefetch = route.prefetch && createRoutePrefetch(route, route.prefetch, parts, prefetchState);
    return {
      ...parts,
      prefetchOf: new Map(prefetch && [[route, prefetch]]),
      nextSegments: (_route, inquiry) => prefetch?.explain(inquiry),
      trust: { isTrusted: (address) => address === trustedPeer, fields: 'x-forwarded' },
      random: (size) => new Uint8Array(size).fill(0xb0),
    };
  };
  const createHandler = (cache: Cache) => createProxy(contextOf(cache));
  const fakeFleet = new FakeFleet(clock, options.peersBy ?? 'calls');
  const createProcess = (_: unknown, index: number) => {
    const member = fakeFleet.join(`p${index + 1}`);
    const cache = createOwnCache(member.fleet, index);
    member.attach(cache, () => ({ router: createRouter([route]), gateOf: () => gate }));
    const handler = createHandler(cache);
    const send = (sent: Sent = {}): Client => createDirectClient(handler, clock.now, sent);
    return { cache, member, handler, send };
  };
  const { processes: count = 1 } = options;
  const processes = count > 1 ? Array.from({ length: count }, createProcess) : [];
  const caches =
    processes.length > 0 ? processes.map((each) => each.cache) : [createOwnCache(options.fleet ?? noFleet)];
  const [cache] = caches as [Cache];
  const [store] = stores as [Store];
  const handlers = processes.length > 0 ? processes.map((each) => each.handler) : [createHandler(cache)];
  const closeCaches = async () => {
    await fakeFleet.close();
    await Promise.all(caches.map((each) => each.close()));
  };
  let requests = 0;
  const next = () => handlers[requests % handlers.length] as Handler;
  const handler: Handler = Object.assign(
    (request: ProxyRequest) => {
      const chosen = next();
      requests += 1;
      return chosen(request);
    },
    {
      hit: ((...plain) => {
        const hit = next().hit?.(...plain);
        if (hit !== undefined) requests += 1;
        return hit;
      }) satisfies HitRoad,
    },
  );
  const wire = wireName === undefined ? undefined : new Wire(wireName, { handler, emit, now: clock.now });
  const send = (sent: Sent = {}): Client => wire?.send(sent) ?? createDirectClient(handler, clock.now, sent);
  const ofKind = <K extends ServerEvent['kind']>(kind: K) =>
    events.filter((event): event is Extract<ServerEvent, { kind: K }> => event.kind === kind);
  return {
    clock,
    origin,
    store,
    cache,
    route,
    handler,
    processes,
    events,
    send,
    explainer: createExplainer(contextOf(cache)),
    async explain(sent = {}) {
      const reply = await this.explainer(requestOf({ peer: trustedPeer, ...sent }, clock.now()));
      if (reply.kind === 'explained') return JSON.parse(JSON.stringify(reply.explanation));
      throw new Error(`no explanation, but ${reply.status}`);
    },
    requestEvents: () => ofKind('request'),
    fillEvents: () => ofKind('fill'),
    fillsEnded: (count) =>
      new Promise((resolve) => {
        const watcher = () => {
          if (ofKind('fill').length < count) return;
          watchers.delete(watcher);
          // The event precedes the end of the flight.
          void turn().then(resolve);
        };
        watchers.add(watcher);
        watcher();
      }),
    closeCache: closeCaches,
    close: async () => {
      await closeCaches();
      await Promise.all([...new Set(stores)].map((each) => each.close()));
      // Lets the last bytes arrive.
      if (wire !== undefined) await quiet();
      await wire?.close();
    },
  };
}

/** Returns a function that returns the same memory store each time. */
function createSharedStore(options: Parameters<typeof createMemoryStore>[0]): () => Store {
  const store = createMemoryStore(options);
  return () => store;
}
