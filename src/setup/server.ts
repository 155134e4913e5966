/** From a configuration to all that one process serves with: store, cache, active configuration, listeners. */

import { type Cache, createCache } from '../cache/cache.ts';
import { type Fleet, noFleet } from '../cache/fleet.ts';
import { ByteBudget } from '../cache/read/read-ahead.ts';
import type { Config } from '../config/schema.ts';
import { type OpenSocket, openSocket, type PassedSocket, takePassedSockets } from '../listener/accept/bind.ts';
import type { Sharing, Store } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import { Listeners, type Prepared } from './listeners.ts';
import { Succession } from './reload.ts';
import { createSite, type Site } from './site.ts';
import { describePlace, openStore, type PlacedStoreConfig, readAheadBytes, withDirectory } from './store.ts';
import { seconds, systemClock } from './system.ts';

/** What a server is made with besides its configuration. */
export interface ServerGround {
  readonly emit: Emit;
  /** Our name in Via and CDN-Loop. */
  readonly pseudonym: string;
  /** What one of several workers has, and a process by itself has not. */
  readonly company?: Company | undefined;
  /** Opens what is to be there as long as the store is this process's own: from before the listeners until after them. */
  readonly openBeside?:
    | ((store: PlacedStoreConfig) => Promise<{ close(graceMs: number): Promise<void> } | undefined>)
    | undefined;
}

/** What one of several workers is given. */
export interface Company {
  readonly fleet: Fleet;
  readonly openSocket: OpenSocket;
  /** What the service manager has passed to the process that hands out the sockets. */
  readonly passed?: readonly PassedSocket[] | undefined;
  readonly sharing: Sharing;
  /** Answers what other workers ask of this one's cache, by the rules that serve; closed before the cache is. */
  readonly openPeers: (opened: PeerGround) => Promise<{ close(): Promise<void> }>;
  /** How many workers there are: limits of the whole server are shared out among them. */
  readonly workers: number;
}

/** What other workers are answered with. */
export interface PeerGround {
  readonly cache: Cache;
  readonly admission: () => Site['admission'];
}

/** A server that accepts requests. */
export interface Server {
  readonly store: Store;
  readonly cache: Cache;
  /** What serves now: another one after each reload. */
  readonly site: Site;
  /** All addresses that it serves, such as `http://127.0.0.1:8080`. */
  readonly addresses: readonly string[];
  /** Where it stores, in words. */
  readonly place: string;
  /**
   * Makes another configuration ready, with which nothing happens before it is committed: see `Succession.prepare`. The store
   * and what runs in the cache stay as they are.
   */
  prepareReload(config: Config): Promise<Prepared>;
  /**
   * Stops accepting, lets what is under way finish for `graceMs` milliseconds (by default the configuration's
   * `shutdownGraceSeconds`), cuts the rest, and closes the store. A second call waits for the first.
   */
  close(graceMs?: number): Promise<void>;
}

/** How many blocks are held for the readers of a fill that the store no longer takes. */
const WINDOW_BLOCKS = 16;

/**
 * Opens a server. Rejects with Node's error when an address cannot be bound or a certificate file not read, and with
 * `StoreFault` when the store's directory cannot be used; nothing is left open then.
 */
export async function openServer(
  config: Config,
  { emit, pseudonym, company, openBeside }: ServerGround,
): Promise<Server> {
  await using resources = new AsyncDisposableStack();
  const workers = company?.workers ?? 1;
  const storeConfig = shareOf(await withDirectory(config, resources), workers);
  const store = resources.adopt(await openStore(storeConfig, emit, company?.sharing), (opened) => opened.close());
  const beside = await openBeside?.(storeConfig);
  resources.defer(() => beside?.close(0));
  const cache = createCacheOver(store, storeConfig, emit, company?.fleet ?? noFleet);
  const ground = { cache, emit, pseudonym };
  const first = await createSite(config, ground);
  const listeners = new Listeners(first, {
    emit,
    openSocket: company?.openSocket ?? openSocket,
    passed: company?.passed ?? takePassedSockets(process.env, process.pid),
    processes: workers,
  });
  const succession = new Succession(first, ground, listeners);
  // What runs in the cache uses the origins until it ends: the cache is closed before them, and they before the store.
  resources.defer(() => succession.site.close());
  resources.defer(() => cache.close());
  const peers = await company?.openPeers({ cache, admission: () => succession.site.admission });
  // Who reads what is on its way here goes on elsewhere: it must not be taken for broken off because this cache ends.
  resources.defer(() => peers?.close());
  await (await listeners.prepare(first)).commit();

  const kept = resources.move();
  let closing: Promise<void> | undefined;
  const close = async (graceMs: number) => {
    await succession.end();
    await closeListeners(listeners, graceMs, emit);
    await kept.disposeAsync();
    emit({ kind: 'life', stage: 'stopped', addresses: listeners.addresses, message: 'stopped' });
  };
  return {
    store,
    cache,
    get site() {
      return succession.site;
    },
    get addresses() {
      return listeners.addresses;
    },
    place: describePlace(storeConfig),
    prepareReload: (next) => succession.prepare(next),
    close: (graceMs = seconds(succession.site.config.shutdownGraceSeconds)) => (closing ??= close(graceMs)),
  };
}

function createCacheOver(store: Store, storeConfig: PlacedStoreConfig, emit: Emit, fleet: Fleet): Cache {
  const windowBytes = WINDOW_BLOCKS * store.blockSizeBytes;
  const readAhead = new ByteBudget(readAheadBytes(storeConfig));
  return createCache({ store, clock: systemClock, emit, windowBytes, readAhead, fleet });
}

async function closeListeners(listeners: Listeners, graceMs: number, emit: Emit): Promise<void> {
  const { addresses } = listeners;
  const { cut } = await listeners.close(graceMs, () => {
    emit({ kind: 'life', stage: 'stopping', addresses, message: 'stopping: no new connections' });
  });
  if (cut === 0) return;
  const message = `cut ${cut} ${cut === 1 ? 'connection' : 'connections'} that did not end in time`;
  emit({ kind: 'life', stage: 'cut', addresses, message });
}

/** Each of several workers has a memory tier of its own. */
function shareOf(store: PlacedStoreConfig, workers: number): PlacedStoreConfig {
  return store.type === 'memory' ? store : { ...store, memoryBytes: Math.floor(store.memoryBytes / workers) };
}
