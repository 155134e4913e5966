/** The whole road of a request without sockets: a scripted origin, a clock that stands still, a store in memory. */

import { ByteBudget } from '../../src/cache/byte-budget.ts';
import { createCache } from '../../src/cache/cache.ts';
import type { FillPolicy } from '../../src/cache/fill-policy.ts';
import type { Explanation } from '../../src/delivery/deliver-explanation.ts';
import { openAccess } from '../../src/guard/access.ts';
import { boundlessAllowances } from '../../src/guard/allowances.ts';
import { createGate, type Gate } from '../../src/guard/gate.ts';
import { plainPresentation } from '../../src/guard/presentation.ts';
import type { Field, Fields } from '../../src/http/fields.ts';
import { fieldValue } from '../../src/http/fields.ts';
import type { Handler, InterimResponse, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { Origin } from '../../src/origin/origin.ts';
import { createRangeAbility, type RangeMode } from '../../src/origin/range-ability.ts';
import { createProxy } from '../../src/proxy.ts';
import type { Route } from '../../src/routing/route.ts';
import { createRouter } from '../../src/routing/router.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { Store } from '../../src/store/store.ts';
import type { FillEvent, RequestEvent, ServerEvent } from '../../src/telemetry/events.ts';
import { defaultCaching } from './default-caching.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { createFakeOrigin, type FakeOrigin } from './fake-origin.ts';
import { quietFillPolicy } from './quiet-fill-policy.ts';

export interface Sent {
  readonly method?: string;
  readonly target?: string;
  readonly authority?: string;
  readonly version?: string;
  readonly fields?: Readonly<Record<string, string>>;
  /** The address of the peer; one that is not trusted without it. */
  readonly peer?: string;
}

/** The one peer that may have requests explained. */
const trustedPeer = '127.0.0.1';

/** A request under way. */
export interface Client {
  readonly response: Promise<ProxyResponse>;
  readonly interim: readonly InterimResponse[];
  /** The status once the head is there. */
  status(): Promise<number>;
  /** The value of a field of the response. */
  field(name: string): Promise<string | undefined>;
  /** Reads to the end and tells the bytes; rejects when the body breaks off. */
  bytes(): Promise<Uint8Array>;
  /** Reads until at least `count` bytes are there, and tells all so far. */
  readUntil(count: number): Promise<Uint8Array>;
  /** The client goes away. */
  leave(): Promise<void>;
}

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
  const origin = createFakeOrigin();
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
  const ofKind = <K extends ServerEvent['kind']>(kind: K) =>
    events.filter((event): event is Extract<ServerEvent, { kind: K }> => event.kind === kind);
  return {
    clock,
    origin,
    store,
    handler,
    events,
    send: (sent = {}) => createClient(handler, clock, sent),
    explain: (sent = {}) => explain(handler, clock, sent),
    requestEvents: () => ofKind('request'),
    fillEvents: () => ofKind('fill'),
    fillsEnded: (count) =>
      new Promise((resolve) => {
        const watcher = () => {
          if (ofKind('fill').length < count) return;
          watchers.delete(watcher);
          // The end is told just before the flight is given up.
          setImmediate(resolve);
        };
        watchers.add(watcher);
        watcher();
      }),
    closeCache: () => cache.close(),
    close: async () => {
      await cache.close();
      await store.close();
    },
  };
}

async function explain(handler: Handler, clock: FakeClock, { method, fields, ...sent }: Sent): Promise<Explanation> {
  const asking = {
    connection: 'Rangeway-Explain',
    'rangeway-explain': method === undefined ? '?1' : `?1;method=${method}`,
  };
  const client = createClient(handler, clock, { ...sent, fields: { ...fields, ...asking }, peer: trustedPeer });
  if ((await client.field('rangeway-explain')) !== '?1')
    throw new Error(`no explanation, but ${await client.status()}`);
  return JSON.parse(Buffer.from(await client.bytes()).toString('utf8'));
}

function createClient(handler: Handler, clock: FakeClock, sent: Sent): Client {
  const leaving = new AbortController();
  const interim: InterimResponse[] = [];
  const fields: Fields = Object.entries(sent.fields ?? {}).map(([name, value]): Field => [name.toLowerCase(), value]);
  const authority = sent.authority ?? 'files.example';
  const request: ProxyRequest = {
    method: sent.method ?? 'GET',
    scheme: 'http',
    authority,
    target: sent.target ?? '/file',
    version: sent.version ?? '1.1',
    fields: [['host', authority], ...fields],
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: sent.peer ?? '192.0.2.7', port: 40_000 },
    receivedAt: clock.now(),
    signal: leaving.signal,
    sendInterim: (response) => interim.push(response),
  };
  const response = Promise.resolve(handler(request));
  const received: Uint8Array[] = [];
  let iterator: AsyncIterator<Uint8Array> | undefined;
  let size = 0;

  /** Pulls one chunk; false at the end. */
  async function pull(): Promise<boolean> {
    const { body, onDelivered } = await response;
    if (body.kind === 'none') return false;
    iterator ??= body.kind === 'bytes' ? iterate(body.chunks) : body.stream[Symbol.asyncIterator]();
    try {
      const next = await iterator.next();
      if (next.done !== true) {
        received.push(next.value);
        size += next.value.length;
        return true;
      }
      onDelivered?.({ bytesSent: size, complete: true });
      return false;
    } catch (error) {
      onDelivered?.({ bytesSent: size, complete: false, error: error instanceof ProxyError ? error : undefined });
      throw error;
    }
  }

  return {
    response,
    interim,
    status: async () => (await response).status,
    field: async (name) => fieldValue((await response).fields, name),
    async bytes() {
      while (await pull());
      return Buffer.concat(received);
    },
    async readUntil(count) {
      while (size < count && (await pull()));
      return Buffer.concat(received);
    },
    async leave() {
      leaving.abort(new ProxyError('client_gone'));
      const { body } = await response;
      if (body.kind === 'stream') body.stream.close();
    },
  };
}

async function* iterate(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
