/** Opens everything that one process serves with: store, cache, active site and listeners. */

import { type Cache, createCache } from '../cache/cache.ts';
import { type Fleet, noFleet } from '../cache/fleet.ts';
import { ByteBudget } from '../cache/read/read-ahead.ts';
import type { Config } from '../config/schema.ts';
import { type OpenSocket, openSocket, type PassedSocket, takePassedSockets } from '../listener/accept/bind.ts';
import type { Sharing, Store } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import { openEngineFleet } from './engine-fleet.ts';
import { Listeners, type Prepared } from './listeners.ts';
import { Succession } from './reload.ts';
import { createSite, type Site } from './site.ts';
import { describePlace, openStore, type PlacedStoreConfig, readAheadBytes, withDirectory } from './store.ts';
import { randomId, secondsToMs, systemClock } from './system.ts';

/** The parts that a server is opened with, besides its configuration. */
export interface ServerContext {
  readonly emit: Emit;
  /** Our name in Via and CDN-Loop. */
  readonly pseudonym: string;
  /** The parts that only one of several workers has; undefined for a process by itself. */
  readonly company?: WorkerParts | undefined;
  /** Sockets that the service manager has passed; those of the environment when absent. A process by itself only. */
  readonly passed?: readonly PassedSocket[] | undefined;
  /** Opens something that exists only while this process has the store: opened before the listeners, closed after them. */
  readonly openBeside?:
    | ((store: PlacedStoreConfig) => Promise<{ close(graceMs: number): Promise<void> } | undefined>)
    | undefined;
}

/** The parts that only one of several workers has. */
export interface WorkerParts {
  readonly fleet: Fleet;
  readonly openSocket: OpenSocket;
  /** Sockets that the service manager has passed to the supervisor. */
  readonly passed?: readonly PassedSocket[] | undefined;
  readonly sharing: Sharing;
  /** A random text that all processes of this machine have, and no other one. */
  readonly machineSecret: string;
  /** Answers the questions of other workers about this cache, by the active rules. Closed before the cache is. */
  readonly openPeers: (opened: PeerGround) => Promise<{ close(): Promise<void> }>;
  /** The number of workers. Limits of the whole server are divided among them. */
  readonly workers: number;
}

/** The parts by which other workers are answered. */
export interface PeerGround {
  readonly cache: Cache;
  readonly admission: () => Site['admission'];
}

/** A server that accepts requests. */
export interface Server {
  readonly store: Store;
  readonly cache: Cache;
  /** The active site. A reload replaces it. */
  readonly site: Site;
  /** All addresses that it serves, such as `http://127.0.0.1:8080`. */
  readonly addresses: readonly string[];
  /** A description of where it stores. */
  readonly place: string;
  /** Why requests should be sent to other machines, for people; undefined where there is no reason. */
  readonly unreadyReason: string | undefined;
  /**
   * Prepares another configuration, which has no effect before it is committed (`Succession.prepare`). The store and the running
   * fills stay as they are.
   */
  prepareReload(config: Config): Promise<Prepared>;
  /**
   * Stops accepting, lets running requests finish for `graceMs` milliseconds (by default the configuration's
   * `shutdownGraceSeconds`), cuts the rest, and closes the store. A second call waits for the first.
   */
  close(graceMs?: number): Promise<void>;
}

/** The number of blocks that are held for the readers of a fill that the store no longer takes. */
const WINDOW_BLOCKS = 16;

/**
 * Opens a server. Rejects with Node's error when an address cannot be bound or a certificate file cannot be read, and with
 * `StoreFault` when the store's directory cannot be used. Nothing is left open then.
 */
export async function openServer(
  config: Config,
  { emit, pseudonym, company, passed, openBeside }: ServerContext,
): Promise<Server> {
  await using resources = new AsyncDisposableStack();
  const workers = company?.workers ?? 1;
  const storeConfig = shareOf(await withDirectory(config, resources), workers);
  const shared = await openEngineFleet(config, storeConfig, emit, resources, company?.machineSecret ?? randomId());
  const opening = openStore(storeConfig, emit, company?.sharing, shared?.sharing);
  const store = resources.adopt(await opening, (opened) => opened.close());
  const beside = await openBeside?.(storeConfig);
  resources.defer(() => beside?.close(0));
  const cache = createCacheOver(store, storeConfig, emit, shared?.fleet ?? company?.fleet ?? noFleet);
  const ground = { cache, emit, pseudonym };
  const first = await createSite(config, ground);
  const listeners = new Listeners(first, {
    emit,
    openSocket: company?.openSocket ?? openSocket,
    passed: company?.passed ?? passed ?? takePassedSockets(process.env, process.pid),
    processes: workers,
  });
  const succession = new Succession(first, ground, listeners);
  // Running fills use the origins until they end: the cache is closed before the origins, and these before the store.
  resources.defer(() => succession.site.close());
  resources.defer(() => cache.close());
  const admission = () => succession.site.admission;
  const peers = await (shared?.join({ cache, store, admission }) ?? company?.openPeers({ cache, admission }));
  // Closed before the cache: other workers continue elsewhere, and do not take the end of a fill here for a break of the transfer.
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
    get unreadyReason() {
      return shared?.unreadyReason;
    },
    prepareReload: (next) => succession.prepare(next),
    close: (graceMs = secondsToMs(succession.site.config.shutdownGraceSeconds)) => (closing ??= close(graceMs)),
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

/** Divides the memory: each of several workers has its own memory tier. */
function shareOf(store: PlacedStoreConfig, workers: number): PlacedStoreConfig {
  return store.type === 'memory' ? store : { ...store, memoryBytes: Math.floor(store.memoryBytes / workers) };
}
