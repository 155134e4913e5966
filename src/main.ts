/** The composition root: puts a server together from a configuration. It knows everyone and holds no rule. */

import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { ByteBudget } from './cache/byte-budget.ts';
import { createCache } from './cache/cache.ts';
import { formatListenPlace } from './config/address.ts';
import type { Config } from './config/schema.ts';
import type { AdmissionContext } from './guard/admit.ts';
import type { Gate } from './guard/gate.ts';
import { createPeerList } from './guard/peers.ts';
import { createProxy } from './proxy.ts';
import type { Route } from './routing/route.ts';
import { createRouter } from './routing/router.ts';
import { createRouteGate } from './setup/gate.ts';
import { openListeners } from './setup/listeners.ts';
import { createRoute } from './setup/route.ts';
import { describePlace, openStore, readAheadBytes, withDirectory } from './setup/store.ts';
import { randomId, seconds, systemClock } from './setup/system.ts';
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

/**
 * Starts a server. Rejects with Node's error when the address cannot be bound or a certificate file not read, and with
 * `StoreFault` when the store's directory cannot be used; nothing is left open then.
 */
export async function start(config: Config, { emit = () => {} }: StartOptions = {}): Promise<RunningServer> {
  await using resources = new AsyncDisposableStack();
  const storeConfig = await withDirectory(config, resources);
  const store = resources.adopt(await openStore(storeConfig, emit), (opened) => opened.close());
  const routes: Route[] = [];
  for (const route of config.routes) {
    routes.push(resources.adopt(await createRoute(route, emit), ({ origin }) => origin.close()));
  }
  const windowBytes = WINDOW_BLOCKS * store.blockSizeBytes;
  const readAhead = new ByteBudget(readAheadBytes(storeConfig));
  const cache = resources.adopt(createCache({ store, clock: systemClock, emit, windowBytes, readAhead }), (created) =>
    created.close(),
  );

  const admission = await createAdmission(config, routes);
  const handler = createProxy({ ...admission, cache, clock: systemClock, emit, random: randomBytes });
  const listeners = await openListeners(config, { handler, admission, emit });

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
  const places = addresses.join(' and ');
  const message = `ready on ${places}, in front of ${describeOrigins(config)}, storing in ${describePlace(storeConfig)}`;
  emit({ kind: 'life', stage: 'ready', addresses, message });
  return {
    url: addresses[0] ?? '',
    addresses,
    close: ({ graceMs = seconds(config.shutdownGraceSeconds) } = {}) => (closing ??= close(graceMs)),
  };
}

async function createAdmission(config: Config, routes: readonly Route[]): Promise<AdmissionContext> {
  const gates = await Promise.all(config.routes.map((route) => createRouteGate(route)));
  const gateOf = new Map(routes.map((route, index) => [route, gates[index] as Gate]));
  return {
    router: createRouter(routes),
    gateOf: (route) => gateOf.get(route) as Gate,
    pseudonym: config.pseudonym ?? defaultPseudonym(config),
    trust: { isTrusted: createPeerList(config.trustedProxies), fields: config.trustedFields },
    explainPeers: createPeerList(config.explain.peers),
  };
}

function describeOrigins({ routes }: Config): string {
  const [first] = routes;
  return routes.length === 1 && first !== undefined ? first.origin.url.replace(/\/$/, '') : `${routes.length} routes`;
}

/**
 * The same for every start of one server, and another one for each server, so that chained proxies are no loop. Servers
 * whose port the system chooses are told apart by chance.
 */
function defaultPseudonym({ listen }: Config): string {
  const place = listen.map(({ address }) =>
    address.kind === 'tcp' && address.port === 0 ? randomId() : formatListenPlace(address),
  );
  const identity = `${hostname()} ${place.join(' ')}`;
  return `rangeway-${createHash('sha256').update(identity).digest('hex').slice(0, 8)}`;
}
