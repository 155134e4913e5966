/** The composition root: puts a server together from a configuration. It knows everyone and holds no rule. */

import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { homedir, hostname, tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { ByteBudget } from './cache/byte-budget.ts';
import { createCache } from './cache/cache.ts';
import type { Clock } from './cache/clock.ts';
import type { FillPolicy } from './cache/fill-policy.ts';
import { formatListenAddress } from './config/address.ts';
import type { Config, RouteConfig, StoreConfig } from './config/schema.ts';
import { defaultStoreDirectory } from './config/store-directory.ts';
import { createPeerList } from './guard/peers.ts';
import { routeUpgrade } from './guard/upgrade.ts';
import { openHttp1Listener } from './listener/http1.ts';
import { createTunnel } from './listener/tunnel.ts';
import { createRangeAbility } from './origin/range-ability.ts';
import { createRetryingOrigin } from './origin/retrying-origin.ts';
import { createUndiciOrigin } from './origin/undici-origin.ts';
import { createProxy } from './proxy.ts';
import type { Route } from './routing/route.ts';
import { createRouter } from './routing/router.ts';
import { openDiskStore } from './store/disk/disk-store.ts';
import { createMemoryStore } from './store/memory/memory-store.ts';
import { createMemoryTier } from './store/memory/memory-tier.ts';
import type { Store } from './store/store.ts';
import { createTieredStore } from './store/tiered-store.ts';
import type { Emit } from './telemetry/events.ts';

/** A server that accepts requests. */
export interface RunningServer {
  /** Where it is reached, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** All addresses that it serves. */
  readonly addresses: readonly string[];
  /**
   * Stops accepting, lets what is under way finish for `graceMs` milliseconds (by default the configuration's
   * `shutdownGraceSeconds`), cuts the rest, and closes the store. A second call waits for the first.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** What a server is started with besides its configuration. */
export interface StartOptions {
  /** Told everything that happens. Without it nothing is logged. */
  readonly emit?: Emit;
}

/** How many blocks are held for the readers of a fill that the store no longer takes. */
const WINDOW_BLOCKS = 16;

/** Blocks that were read from the disk before they are asked for may take this share of what memory the store has. */
const READ_AHEAD_SHARE = 1 / 4;

/** How long an origin that gave no parts is not asked for any. */
const FORGET_ABILITY_MS = 10 * 60 * 1000;

/** A transfer that will be there within this time is waited for. */
const SEEK_AHEAD_MS = 500;

const systemClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

const randomId = () => randomBytes(16).toString('hex');

/**
 * Starts a server. Rejects with Node's error when the address cannot be bound or a certificate file not read, and with
 * `StoreFault` when the store's directory cannot be used; nothing is left open then.
 */
export async function start(config: Config, { emit = () => {} }: StartOptions = {}): Promise<RunningServer> {
  await using resources = new AsyncDisposableStack();
  const storeConfig = await withDirectory(config, resources);
  const store = resources.adopt(await openStore(storeConfig, emit), (opened) => opened.close());
  const routes = await Promise.all(config.routes.map((route) => createRoute(route, emit)));
  resources.defer(async () => {
    await Promise.all(routes.map((route) => route.origin.close()));
  });
  const windowBytes = WINDOW_BLOCKS * store.blockSizeBytes;
  const readAhead = new ByteBudget(readAheadBytes(storeConfig));
  const cache = resources.adopt(createCache({ store, clock: systemClock, emit, windowBytes, readAhead }), (created) =>
    created.close(),
  );

  const router = createRouter(routes);
  const pseudonym = config.pseudonym ?? defaultPseudonym(config);
  const listener = await openHttp1Listener({
    ...config.listen,
    handler: createProxy({
      router,
      cache,
      clock: systemClock,
      emit,
      pseudonym,
      explainPeers: createPeerList(config.explain.peers),
      random: randomBytes,
    }),
    emit,
    now: systemClock.now,
    limits: listenerLimits(config),
    tunnel: createTunnel({
      routeOf: (request) => routeUpgrade(request, router, pseudonym),
      emit,
      now: systemClock.now,
      connectTimeoutMs: seconds(Math.max(...config.routes.map((route) => route.origin.connectTimeoutSeconds))),
      answerTimeoutMs: seconds(Math.max(...config.routes.map((route) => route.origin.headersTimeoutSeconds))),
    }),
  });

  const { url } = listener.address;
  const kept = resources.move();
  const close = async (graceMs: number) => {
    const closed = listener.close(graceMs);
    emit({ kind: 'life', stage: 'stopping', addresses: [url], message: 'stopping: no new connections' });
    const { cut } = await closed;
    if (cut > 0)
      emit({
        kind: 'life',
        stage: 'cut',
        addresses: [url],
        message: `cut ${cut} ${cut === 1 ? 'connection' : 'connections'} that did not end in time`,
      });
    await kept.disposeAsync();
    emit({ kind: 'life', stage: 'stopped', addresses: [url], message: 'stopped' });
  };
  let closing: Promise<void> | undefined;
  const message = `ready on ${url}, in front of ${describeOrigins(config)}, storing in ${describePlace(storeConfig)}`;
  emit({ kind: 'life', stage: 'ready', addresses: [url], message });
  return {
    url,
    addresses: [url],
    close: ({ graceMs = seconds(config.shutdownGraceSeconds) } = {}) => (closing ??= close(graceMs)),
  };
}

type MemoryStoreConfig = Extract<StoreConfig, { type: 'memory' }>;
type PlacedStoreConfig = MemoryStoreConfig | (Exclude<StoreConfig, MemoryStoreConfig> & { readonly dir: string });

/** Gives a disk store its directory. One for this start alone is removed with the resources. */
async function withDirectory({ store, listen }: Config, resources: AsyncDisposableStack): Promise<PlacedStoreConfig> {
  if (store.type === 'memory') return store;
  const stated = store.dir ?? defaultStoreDirectory(listen, process.env, homedir());
  if (stated !== undefined) return { ...store, dir: stated };
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-'));
  resources.defer(() => rm(dir, { recursive: true, force: true }));
  return { ...store, dir };
}

async function openStore(store: PlacedStoreConfig, emit: Emit): Promise<Store> {
  const { now } = systemClock;
  const maxEntryBytes = store.maxObjectSizeBytes;
  if (store.type === 'memory') return createMemoryStore({ ...store, maxEntryBytes, now, randomId });
  const disk = await openDiskStore({ ...store, maxEntryBytes, now, randomId, emit });
  return createTieredStore(createMemoryTier({ maxSizeBytes: store.memoryBytes }), disk, now);
}

/** A store in memory has nothing to read ahead. */
function readAheadBytes(store: StoreConfig): number {
  return store.type === 'memory' ? 0 : store.memoryBytes * READ_AHEAD_SHARE;
}

async function createRoute(config: RouteConfig, emit: Emit): Promise<Route> {
  const { origin: originConfig, match } = config;
  const name = config.name ?? `${match?.hosts?.join(',') ?? '*'}${match?.pathPrefix ?? '/'}`;
  const url = new URL(originConfig.url);
  const ca = originConfig.caFile === undefined ? undefined : await readFile(originConfig.caFile, 'utf8');
  const tls = { ca, rejectUnauthorized: !originConfig.insecureTls };
  const origin = createUndiciOrigin({
    url: originConfig.url,
    connectTimeoutMs: seconds(originConfig.connectTimeoutSeconds),
    headersTimeoutMs: seconds(originConfig.headersTimeoutSeconds),
    bodyTimeoutMs: seconds(originConfig.bodyTimeoutSeconds),
    connections: originConfig.connections,
    keepAliveTimeoutMs: seconds(originConfig.keepAliveTimeoutSeconds),
    tls,
  });
  return {
    name,
    match: { hosts: match?.hosts ?? [], pathPrefix: match?.pathPrefix ?? '/' },
    stripPathPrefix: config.stripPathPrefix,
    originUrl: url,
    origin: createRetryingOrigin(origin),
    tls,
    host:
      originConfig.host === 'origin' || originConfig.host === 'keep' ? originConfig.host : { name: originConfig.host },
    cache: config.cache,
    ranges: config.ranges,
    rangeAbility: createRangeAbility({
      mode: originConfig.ranges,
      now: systemClock.now,
      forgetAfterMs: FORGET_ABILITY_MS,
      onDistrust: (reason) =>
        emit({ kind: 'origin', route: name, message: 'the origin is not asked for parts for a while', detail: reason }),
    }),
    fill: fillPolicy(config),
    lengthWaitMs: seconds(config.fill.lengthWaitSeconds),
    closeDelimited: originConfig.closeDelimited,
  };
}

function describeOrigins({ routes }: Config): string {
  const [first] = routes;
  return routes.length === 1 && first !== undefined ? first.origin.url.replace(/\/$/, '') : `${routes.length} routes`;
}

/** Where a store keeps things, as a shell writes it. */
function describePlace(store: PlacedStoreConfig): string {
  if (store.type === 'memory') return 'memory';
  const home = `${homedir()}${sep}`;
  return store.dir.startsWith(home) ? `~${sep}${store.dir.slice(home.length)}` : store.dir;
}

function fillPolicy({ fill, origin }: RouteConfig): FillPolicy {
  const { onAbort, finishMaxLeftBytes, finishMaxSizeBytes, complete, completeBelowBytes, resumeAttempts } = fill;
  return {
    onAbort,
    finishMaxLeftBytes: finishMaxLeftBytes ?? Number.POSITIVE_INFINITY,
    finishMaxSizeBytes: finishMaxSizeBytes ?? Number.POSITIVE_INFINITY,
    complete: complete === 'whenSmaller' ? { smallerThanBytes: completeBelowBytes } : complete,
    seekAheadBytes: origin.seekAheadBytes,
    seekAheadMs: SEEK_AHEAD_MS,
    resumeAttempts,
  };
}

function listenerLimits({ limits }: Config) {
  return {
    targetBytes: limits.targetBytes,
    fieldsBytes: limits.fieldsBytes,
    maxFieldCount: limits.fieldCount,
    headersTimeoutMs: seconds(limits.headersTimeoutSeconds),
    requestTimeoutMs: seconds(limits.requestTimeoutSeconds),
    keepAliveTimeoutMs: seconds(limits.keepAliveTimeoutSeconds),
    idleTimeoutMs: seconds(limits.idleTimeoutSeconds),
  };
}

/**
 * The same for every start of one listener, and another one for each listener, so that chained proxies are no loop.
 * Listeners whose port the system chooses are told apart by chance.
 */
function defaultPseudonym({ listen }: Config): string {
  const place = listen.port === 0 ? randomId() : formatListenAddress(listen);
  const identity = `${hostname()} ${place}`;
  return `rangeway-${createHash('sha256').update(identity).digest('hex').slice(0, 8)}`;
}

function seconds(count: number): number {
  return count * 1000;
}
