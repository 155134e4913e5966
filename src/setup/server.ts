/** From a configuration to all that one process serves with: its store, its cache, its site, its listeners. */

import { ByteBudget } from '../cache/byte-budget.ts';
import { type Cache, createCache } from '../cache/cache.ts';
import { type Fleet, noFleet } from '../cache/fleet.ts';
import type { Config } from '../config/schema.ts';
import type { OpenSocket } from '../listener/listen-socket.ts';
import type { Sharing } from '../store/sharing.ts';
import type { Store } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import { openListeners } from './listeners.ts';
import { createSite, type Site } from './site.ts';
import { describePlace, openStore, readAheadBytes, withDirectory } from './store.ts';
import { seconds, systemClock } from './system.ts';

/** What a server is made with besides its configuration. */
export interface ServerGround {
  readonly emit: Emit;
  /** Our name in Via and CDN-Loop. */
  readonly pseudonym: string;
  /** What one of several workers has, and a process by itself has not. */
  readonly company?: Company | undefined;
}

/** What one of several workers is given. */
export interface Company {
  readonly fleet: Fleet;
  readonly openSocket: OpenSocket;
  readonly sharing: Sharing;
  /** How many workers there are: limits of the whole server are shared out among them. */
  readonly workers: number;
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
export async function openServer(config: Config, { emit, pseudonym, company }: ServerGround): Promise<Server> {
  await using resources = new AsyncDisposableStack();
  const storeConfig = await withDirectory(config, resources);
  const store = resources.adopt(await openStore(storeConfig, emit), (opened) => opened.close());
  const windowBytes = WINDOW_BLOCKS * store.blockSizeBytes;
  const readAhead = new ByteBudget(readAheadBytes(storeConfig));
  const fleet = company?.fleet ?? noFleet;
  const cache = createCache({ store, clock: systemClock, emit, windowBytes, readAhead, fleet });
  // What runs in the cache uses the origins until it ends: the cache is closed before them, and they before the store.
  const site = resources.adopt(await createSite(config, { cache, emit, pseudonym }), (created) => created.close());
  resources.defer(() => cache.close());
  const listeners = await openListeners(config, { handler: site.handler, admission: site.admission, emit });

  const addresses = listeners.map((listener) => listener.address.url);
  const kept = resources.move();
  const close = async (graceMs: number) => {
    const closed = Promise.all(listeners.map((listener) => listener.close(graceMs)));
    emit({ kind: 'life', stage: 'stopping', addresses, message: 'stopping: no new connections' });
    const cut = (await closed).reduce((sum, each) => sum + each.cut, 0);
    if (cut > 0) {
      const message = `cut ${cut} ${cut === 1 ? 'connection' : 'connections'} that did not end in time`;
      emit({ kind: 'life', stage: 'cut', addresses, message });
    }
    await kept.disposeAsync();
    emit({ kind: 'life', stage: 'stopped', addresses, message: 'stopped' });
  };
  let closing: Promise<void> | undefined;
  return {
    store,
    cache,
    site,
    addresses,
    place: describePlace(storeConfig),
    close: (graceMs = seconds(config.shutdownGraceSeconds)) => (closing ??= close(graceMs)),
  };
}
