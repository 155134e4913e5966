/** The whole road of a request, without sockets or over the wire of this run: a scripted origin, a clock that stands still, a store in memory. */

import { ByteBudget } from '../../src/cache/byte-budget.ts';
import { createCache } from '../../src/cache/cache.ts';
import type { FillPolicy } from '../../src/cache/fill-policy.ts';
import type { Explanation } from '../../src/delivery/deliver-explanation.ts';
import { createGate, type Gate } from '../../src/guard/gate.ts';
import { plainPresentation } from '../../src/guard/presentation.ts';
import type { Handler } from '../../src/http/message.ts';
import type { Origin } from '../../src/origin/origin.ts';
import { createRangeAbility, type RangeMode } from '../../src/origin/range-ability.ts';
import { createProxy } from '../../src/proxy.ts';
import type { Route } from '../../src/routing/route.ts';
import { createRouter } from '../../src/routing/router.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { Store } from '../../src/store/store.ts';
import type { FillEvent, RequestEvent, ServerEvent } from '../../src/telemetry/events.ts';
import { defaultCaching } from './default-caching.ts';
import { type Client, createDirectClient, type Sent } from './direct-client.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { createFakeOrigin, type FakeOrigin } from './fake-origin.ts';
import { boundlessAllowances, openAccess } from './open-gate.ts';
import { quietFillPolicy } from './quiet-fill-policy.ts';
import { turn } from './turn.ts';
import { selectedWire, Wire } from './wire.ts';
import { quiet } from './wire-quiet.ts';

export type { Client, Sent } from './direct-client.ts';

/** The one peer that may have requests explained. */
const trustedPeer = '127.0.0.1';

export interface WholeProxy {
  readonly clock: FakeClock;
  readonly origin: FakeOrigin;
  readonly store: Store;
  readonly handler: Handler;
  readonly events: readonly ServerEvent[];
  send(sent?: Sent): Client;
  /** What would become of a request, as it is told to a trusted peer. */
  explain(sent?: Sent): Promise<Explanation>;
  /** Sends and reads a request whose response needs nothing of the origin. */
  requestEvents(): readonly RequestEvent[];
  fillEvents(): readonly FillEvent[];
  /** Waits until `count` fills have ended. */
  fillsEnded(count: number): Promise<void>;
  /** Ends what is under way between store and origin. */
  closeCache(): Promise<void>;
  close(): Promise<void>;
}

export type RouteOptions = Partial<Pick<Route, 'ranges' | 'closeDelimited' | 'host' | 'match' | 'rangeAbility'>> & {
  readonly cache?: Partial<Route['cache']>;
};

export interface WholeProxyOptions {
  readonly route?: RouteOptions;
  readonly fill?: Partial<FillPolicy>;
  /** Whether the origin may be asked for parts; `never` without it. */
  readonly originRanges?: RangeMode;
  readonly blockSizeBytes?: number;
  readonly maxSizeBytes?: number;
  readonly windowBytes?: number;
  readonly readAheadBytes?: number;
  readonly createStore?: () => Store;
  /** What stands before the route; nothing without it. */
  readonly gate?: Gate;
  /** Asked instead of the scripted origin, which then sees nothing. */
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
  const store =
    options.createStore?.() ?? createMemoryStore({ maxSizeBytes, blockSizeBytes, now: clock.now, randomId });
  const events: ServerEvent[] = [];
  const watchers = new Set<() => void>();
  const emit = (event: ServerEvent) => {
    events.push(event);
    for (const watcher of watchers) watcher();
  };
  const cache = createCache({ store, clock, emit, windowBytes, readAhead: new ByteBudget(readAheadBytes) });
  const route: Route = {
    name: 'main',
    match: { hosts: [], pathPrefix: '/' },
    stripPathPrefix: false,
    originUrl: new URL('http://origin.example'),
    origin: options.origin ?? origin,
    tls: { ca: undefined, rejectUnauthorized: true },
    host: 'origin',
    ranges: { maxRanges: 100, coalesceGapBytes: 0 },
    rangeAbility: createRangeAbility({
      mode: options.originRanges ?? 'never',
      now: clock.now,
      forgetAfterMs: 600_000,
      onDistrust: (detail) => emit({ kind: 'origin', route: 'main', message: 'distrusted', detail }),
    }),
    fill: { ...quietFillPolicy, ...options.fill },
    lengthWaitMs: 10_000,
    closeDelimited: 'relay',
    ...options.route,
    cache: { ...defaultCaching, ...options.route?.cache },
  };
  const gate =
    options.gate ??
    createGate({ access: openAccess, allowances: boundlessAllowances, presentation: plainPresentation });
  const handler = createProxy({
    router: createRouter([route]),
    cache,
    clock,
    emit,
    pseudonym: 'rangeway-test',
    gateOf: () => gate,
    trust: { isTrusted: (address) => address === trustedPeer, fields: 'x-forwarded' },
    explainPeers: (address) => address === trustedPeer,
    random: (size) => new Uint8Array(size).fill(0xb0),
  });
  const wire = wireName === undefined ? undefined : new Wire(wireName, { handler, emit, now: clock.now });
  const send = (sent: Sent = {}): Client => wire?.send(sent) ?? createDirectClient(handler, clock.now, sent);
  const ofKind = <K extends ServerEvent['kind']>(kind: K) =>
    events.filter((event): event is Extract<ServerEvent, { kind: K }> => event.kind === kind);
  return {
    clock,
    origin,
    store,
    handler,
    events,
    send,
    explain: (sent = {}) => explain(send, sent),
    requestEvents: () => ofKind('request'),
    fillEvents: () => ofKind('fill'),
    fillsEnded: (count) =>
      new Promise((resolve) => {
        const watcher = () => {
          if (ofKind('fill').length < count) return;
          watchers.delete(watcher);
          // The end is told just before the flight is given up.
          void turn().then(resolve);
        };
        watchers.add(watcher);
        watcher();
      }),
    closeCache: () => cache.close(),
    close: async () => {
      await cache.close();
      await store.close();
      // What was said at the end is heard.
      if (wire !== undefined) await quiet();
      await wire?.close();
    },
  };
}

async function explain(send: WholeProxy['send'], { method, fields, ...sent }: Sent): Promise<Explanation> {
  const asking = {
    connection: 'Rangeway-Explain',
    'rangeway-explain': method === undefined ? '?1' : `?1;method=${method}`,
  };
  const client = send({ ...sent, fields: { ...fields, ...asking }, peer: trustedPeer });
  if ((await client.field('rangeway-explain')) !== '?1')
    throw new Error(`no explanation, but ${await client.status()}`);
  return JSON.parse(Buffer.from(await client.bytes()).toString('utf8'));
}
