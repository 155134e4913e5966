/**
 * Opens the listeners of a configuration with their limits, and changes them to the next configuration: sockets that both have
 * stay open.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Config, ListenerConfig } from '../config/schema.ts';
import { type AdmissionContext, admitUpgrade } from '../guard/admit.ts';
import { createPeerList, type PeerList } from '../guard/client.ts';
import type { Handler } from '../http/message.ts';
import {
  type BindPlace,
  choosePassedSockets,
  type ListenSocket,
  type OpenSocket,
  type PassedSocket,
  placeName,
} from '../listener/accept/bind.ts';
import {
  type AdjustableConnectionLimits,
  type ConnectionRules,
  createConnectionLimits,
  reportConnections,
} from '../listener/accept/connection-limits.ts';
import { type Listener, type ListenerOptions, openListener } from '../listener/accept/open-listener.ts';
import { type Certificates, openCertificates } from '../listener/accept/tls.ts';
import { createHttpsRedirect } from '../listener/https-redirect.ts';
import type { ListenerLimits, Tunnel } from '../listener/listener.ts';
import { createTunnel } from '../listener/tunnel.ts';
import type { Emit, StartEvent } from '../telemetry/events.ts';
import { clientDescriptors, descriptorLimit, secondsToMs, systemClock } from './system.ts';

/** A configuration, and the handler and gates of its requests. */
interface Served {
  readonly config: Config;
  readonly handler: Handler;
  readonly admission: AdmissionContext;
}

/** The parts that listeners are opened with and that no configuration changes. */
interface ListenersGround {
  readonly emit: Emit;
  readonly openSocket: OpenSocket;
  /** Sockets that the service manager has passed. */
  readonly passed: readonly PassedSocket[];
  /** The number of processes that serve together. */
  readonly processes: number;
}

/** A change that is prepared, and not in use yet. One of the two functions is called, once. */
export interface Prepared {
  /** Uses it from now on. */
  commit(): Promise<void>;
  /** Discards it: everything stays as it was. */
  abandon(): Promise<void>;
}

/** Properties of a listener besides its place and its handler. Where one of them changes, another listener replaces it. */
interface Manner {
  /** The minimum version of TLS; undefined without TLS. */
  readonly minVersion: string | undefined;
  readonly http2: boolean;
  readonly proxyProtocol: boolean;
  readonly redirectToHttpsPort: number | undefined;
  readonly limits: ListenerLimits;
}

/** A place, and its listener. */
interface Post {
  readonly name: string;
  readonly place: BindPlace;
  readonly socket: ListenSocket;
  readonly manner: Manner;
  readonly listener: Listener;
}

/** The post that replaces a present one, or a new one. */
interface Plan extends ListenPlaceOf {
  readonly before: Post | undefined;
  readonly socket: ListenSocket;
  readonly manner: Manner;
  readonly certificates: Certificates | undefined;
}

/** The active handlers of all listeners. */
interface Service {
  readonly handler: Handler;
  readonly tunnel: Tunnel;
  readonly isTrusted: PeerList;
}

const begun: StartEvent = { kind: 'begun', what: 'request' };

/** All listeners of one process; none before the first configuration is committed. */
export class Listeners {
  readonly #ground: ListenersGround;
  readonly #connections: AdjustableConnectionLimits;
  #passed: readonly PassedSocket[];
  #service: Service;
  /** The handler of all listeners. It stays when the service changes; its `hit` is always that of the active handler. */
  readonly #front: Handler & { hit?: Handler['hit'] | undefined };
  #posts: readonly Post[] = [];
  /** Listeners that have left their place, and still have connections. */
  readonly #retired = new Set<Listener>();

  constructor(first: Served, ground: ListenersGround) {
    this.#ground = ground;
    this.#passed = ground.passed;
    this.#service = this.#serviceOf(first);
    const { emit } = ground;
    const front: Handler = (request) => {
      emit(begun);
      return this.#service.handler(request);
    };
    this.#front = Object.assign(front, { hit: first.handler.hit });
    this.#connections = createConnectionLimits(connectionRules(first.config, ground.processes));
  }

  /** The addresses that are served. */
  get addresses(): readonly string[] {
    return this.#posts.map(({ listener }) => listener.address.url);
  }

  /**
   * Prepares another configuration: reads its certificates, and binds the places that are new. Rejects with Node's error when an
   * address cannot be bound, and with `ListenFault` when a certificate cannot be used or no socket was passed.
   *
   * The commit loses no connection: a place that stays keeps its socket. Where the manner is unchanged too, the listener and its
   * connections stay.
   */
  async prepare(served: Served): Promise<Prepared> {
    await using resources = new AsyncDisposableStack();
    const plans: Plan[] = [];
    for (const listenPlace of listenPlaces(served.config, this.#passed)) {
      const { listener, name, place } = listenPlace;
      const certificates = await this.#readCertificates(listener);
      resources.defer(() => certificates?.close());
      const before = this.#posts.find((post) => post.name === name);
      const socket =
        before?.socket ?? resources.adopt(await this.#ground.openSocket(place, name), (opened) => opened.close());
      plans.push({ ...listenPlace, before, socket, manner: mannerOf(listener, served.config), certificates });
    }
    const kept = resources.move();
    return { commit: () => this.#commit(served, plans), abandon: () => kept.disposeAsync() };
  }

  /**
   * Closes all sockets, and then all listeners, also the retired ones (`Listener.close`). `onStopped` is called when no new
   * connection can arrive. Resolves with the number of connections that were cut.
   */
  async close(graceMs: number, onStopped: () => void): Promise<{ readonly cut: number }> {
    await Promise.all(this.#posts.map(({ socket }) => socket.close()));
    onStopped();
    const listeners = [...this.#posts.map(({ listener }) => listener), ...this.#retired];
    const closed = await Promise.all(listeners.map((listener) => listener.close(graceMs)));
    return { cut: closed.reduce((sum, { cut }) => sum + cut, 0) };
  }

  async #commit(served: Served, plans: readonly Plan[]): Promise<void> {
    const gone = this.#posts.filter((post) => !plans.some(({ before }) => before === post));
    this.#service = this.#serviceOf(served);
    this.#front.hit = served.handler.hit;
    this.#connections.adjust(connectionRules(served.config, this.#ground.processes));
    this.#posts = await Promise.all(plans.map((plan) => this.#occupy(plan)));
    await Promise.all(gone.map((post) => this.#leave(post)));
    this.#tellSpare(served.config);
  }

  async #occupy(plan: Plan): Promise<Post> {
    const { before, name, place, socket, manner, certificates } = plan;
    if (before !== undefined && isDeepStrictEqual(before.manner, manner)) {
      if (certificates !== undefined) before.listener.renew(certificates);
      return before;
    }
    const listener = await openListener(this.#listenerOptions(plan));
    if (before !== undefined) this.#retire(before.listener);
    return { name, place, socket, manner, listener };
  }

  async #leave({ place, socket, listener }: Post): Promise<void> {
    await socket.close();
    this.#retire(listener);
    // Its descriptor may soon belong to something else.
    if (place.kind === 'passed') this.#passed = this.#passed.filter(({ fd }) => fd !== place.fd);
  }

  #retire(listener: Listener): void {
    this.#retired.add(listener);
    void listener.retire().then(() => this.#retired.delete(listener));
  }

  async #readCertificates({ tls }: ListenerConfig): Promise<Certificates | undefined> {
    if (tls === undefined) return undefined;
    const { certificates: files, minVersion } = tls;
    return await openCertificates({ files, minVersion, emit: this.#ground.emit, now: systemClock.now });
  }

  #listenerOptions({ place, socket, manner, certificates }: Plan): ListenerOptions {
    const { emit } = this.#ground;
    const { http2, limits, proxyProtocol, redirectToHttpsPort } = manner;
    return {
      socket,
      name: place.kind === 'passed' ? place.name : undefined,
      certificates,
      http2,
      connections: reportConnections(this.#connections, certificates === undefined ? 'http' : 'https', emit),
      emit,
      now: systemClock.now,
      limits,
      ...(proxyProtocol ? { proxyProtocolFrom: (address) => this.#service.isTrusted(address) } : {}),
      ...(redirectToHttpsPort === undefined
        ? {
            handler: this.#front,
            tunnel: { open: (request, client) => this.#service.tunnel.open(request, client) },
          }
        : {
            handler: createHttpsRedirect({ port: redirectToHttpsPort, clock: systemClock, emit }),
          }),
    };
  }

  #serviceOf(served: Served): Service {
    const tunnel = createSiteTunnel(served, this.#ground.emit);
    return { handler: served.handler, tunnel, isTrusted: createPeerList(served.config.trustedProxies) };
  }

  /** Warns of passed sockets without a listener: their clients would wait for ever. */
  #tellSpare({ listen }: Config): void {
    const names = new Set(listen.flatMap(({ address }) => (address.kind === 'systemd' ? [address.name] : [])));
    for (const { name } of this.#passed) {
      if (names.has(undefined) || names.has(name)) continue;
      const message = `a socket was passed that no listener is for: systemd:${name}`;
      this.#ground.emit({ kind: 'listener', level: 'warn', message });
    }
  }
}

/** Creates the opener of the tunnels of a site. */
export function createSiteTunnel({ config, admission }: Omit<Served, 'handler'>, emit: Emit): Tunnel {
  const origins = config.routes.map(({ origin }) => origin);
  return createTunnel({
    admit: (request) => admitUpgrade(request, admission),
    emit,
    now: systemClock.now,
    connectTimeoutMs: secondsToMs(Math.max(...origins.map(({ connectTimeoutSeconds }) => connectTimeoutSeconds))),
    answerTimeoutMs: secondsToMs(Math.max(...origins.map(({ headersTimeoutSeconds }) => headersTimeoutSeconds))),
  });
}

function mannerOf({ tls, http2, proxyProtocol, redirectToHttpsPort }: ListenerConfig, config: Config): Manner {
  return {
    minVersion: tls?.minVersion,
    http2: http2 ?? tls !== undefined,
    proxyProtocol,
    redirectToHttpsPort,
    limits: listenerLimits(config),
  };
}

/** A place of a configuration, and its options. */
interface ListenPlaceOf {
  /** Unique in the configuration. The same place has the same name in the next configuration. */
  readonly name: string;
  readonly place: BindPlace;
  readonly listener: ListenerConfig;
}

/** Returns all places, in their order. Throws `ListenFault` where no socket was passed for a place of systemd. */
export function listenPlaces(
  { listen }: Pick<Config, 'listen'>,
  passed: readonly PassedSocket[],
): readonly ListenPlaceOf[] {
  const counts = new Map<string, number>();
  return listen.flatMap((listener) =>
    placesOf(listener, passed).map((place) => {
      const name = placeName(place);
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      return { name: count === 1 ? name : `${name} (${count})`, place, listener };
    }),
  );
}

function placesOf({ address, mode }: ListenerConfig, passed: readonly PassedSocket[]): readonly BindPlace[] {
  switch (address.kind) {
    case 'tcp':
      return [address];
    case 'unix':
      return [{ ...address, mode }];
    case 'systemd':
      return choosePassedSockets(passed, address.name);
  }
}

/** Returns the limits that hold on every connection. */
export function listenerLimits({ limits }: Pick<Config, 'limits'>): ListenerLimits {
  return {
    targetBytes: limits.targetBytes,
    fieldsBytes: limits.fieldsBytes,
    maxFieldCount: limits.fieldCount,
    headersTimeoutMs: secondsToMs(limits.headersTimeoutSeconds),
    requestTimeoutMs: secondsToMs(limits.requestTimeoutSeconds),
    keepAliveTimeoutMs: secondsToMs(limits.keepAliveTimeoutSeconds),
    idleTimeoutMs: secondsToMs(limits.idleTimeoutSeconds),
    responseTimeoutMs: secondsToMs(limits.responseTimeoutSeconds),
    minBytesPerSecond: limits.minBytesPerSecond,
    minUploadBytesPerSecond: limits.minUploadBytesPerSecond,
    streamsPerConnection: limits.streamsPerConnection,
    methods: new Set(limits.methods),
    upgrades: new Set(limits.upgrades.map((name) => name.toLowerCase())),
  };
}

/**
 * Returns how many connections one of several processes accepts: its share of `limits.connections`, and no more than its
 * descriptors permit; 0 for no limit. The limit for one client is not divided.
 */
export function connectionRules(
  { limits, trustedProxies }: Pick<Config, 'limits' | 'trustedProxies'>,
  processes: number,
  descriptors = descriptorLimit(),
): ConnectionRules {
  const { connections, connectionsPerClient } = limits;
  const share = connections === 0 ? Number.POSITIVE_INFINITY : Math.ceil(connections / processes);
  const most = Math.min(share, clientDescriptors(descriptors));
  return {
    connections: most === Number.POSITIVE_INFINITY ? 0 : most,
    connectionsPerClient: connectionsPerClient ?? (most === Number.POSITIVE_INFINITY ? 0 : Math.ceil(most / 4)),
    leavesRoom: connectionsPerClient === undefined,
    isExempt: createPeerList(trustedProxies),
  };
}
