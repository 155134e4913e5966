/**
 * From the configuration to open listeners with their limits, and from one configuration to the next: sockets that both have
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
  reportRequests,
} from '../listener/accept/connection-limits.ts';
import { type ListenerOptions, openListener } from '../listener/accept/open-listener.ts';
import { type Certificates, openCertificates } from '../listener/accept/tls.ts';
import { createHttpsRedirect } from '../listener/https-redirect.ts';
import type { Listener, ListenerLimits, Tunnel } from '../listener/listener.ts';
import { createTunnel } from '../listener/tunnel.ts';
import type { Emit } from '../telemetry/events.ts';
import { clientDescriptors, descriptorLimit, seconds, systemClock } from './system.ts';

/** What requests are given to. */
interface Served {
  readonly config: Config;
  readonly handler: Handler;
  readonly admission: AdmissionContext;
}

/** What listeners are opened with, whatever the configuration says. */
interface ListenersGround {
  readonly emit: Emit;
  readonly openSocket: OpenSocket;
  /** Sockets that the service manager has opened for us. */
  readonly passed: readonly PassedSocket[];
  /** How many processes serve together. */
  readonly processes: number;
}

/** Something that was made ready and is not used yet. One of the two is called, once. */
export interface Prepared {
  /** Uses it from now on. */
  commit(): Promise<void>;
  /** Gives it up: all is as it was. */
  abandon(): Promise<void>;
}

/** What a listener is beside its place and what it serves: where this changes, another listener takes its place. */
interface Manner {
  /** Of TLS; undefined without it. */
  readonly minVersion: string | undefined;
  readonly http2: boolean;
  readonly proxyProtocol: boolean;
  readonly redirectToHttpsPort: number | undefined;
  readonly limits: ListenerLimits;
}

/** One place, and who listens there. */
interface Post {
  readonly name: string;
  readonly place: BindPlace;
  readonly socket: ListenSocket;
  readonly manner: Manner;
  readonly listener: Listener;
}

/** What comes in the place of a post, or as a new one. */
interface Plan extends ListenPlaceOf {
  readonly before: Post | undefined;
  readonly socket: ListenSocket;
  readonly manner: Manner;
  readonly certificates: Certificates | undefined;
}

/** What the requests of all listeners are given to now. */
interface Service {
  readonly handler: Handler;
  readonly tunnel: Tunnel;
  readonly isTrusted: PeerList;
}

/** All listeners of one process: none before the first configuration. */
export class Listeners {
  readonly #ground: ListenersGround;
  readonly #connections: AdjustableConnectionLimits;
  #passed: readonly PassedSocket[];
  #service: Service;
  /** The handler of all listeners: it stays when the service changes, and its road of hits is always that of the service. */
  readonly #front: Handler & { hit?: Handler['hit'] | undefined };
  #posts: readonly Post[] = [];
  /** Those that have left their place, and have connections that something runs on. */
  readonly #retired = new Set<Listener>();

  constructor(first: Served, ground: ListenersGround) {
    this.#ground = ground;
    this.#passed = ground.passed;
    this.#service = this.#serviceOf(first);
    this.#front = reportRequests((request) => this.#service.handler(request), ground.emit);
    this.#front.hit = first.handler.hit;
    this.#connections = createConnectionLimits(connectionRules(first.config, ground.processes));
  }

  /** The addresses that are served. */
  get addresses(): readonly string[] {
    return this.#posts.map(({ listener }) => listener.address.url);
  }

  /**
   * Makes ready to serve another configuration: reads its certificates, and binds the places that are new. Rejects with Node's
   * error when an address cannot be bound, and with `ListenFault` when a certificate cannot be used or no socket was passed on.
   *
   * When it is committed no connection is lost: a place that stays keeps its socket, and a listener whose manner stays its
   * connections too.
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
   * Closes all sockets at once, and then all listeners, those that have retired among them: see `Listener.close`. `onStopped`
   * is called when no connection comes any more.
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
    // Its descriptor may soon be that of something else.
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
            handler: reportRequests(createHttpsRedirect({ port: redirectToHttpsPort, clock: systemClock, emit }), emit),
          }),
    };
  }

  #serviceOf({ config, handler, admission }: Served): Service {
    const { routes, trustedProxies } = config;
    const tunnel = createTunnel({
      admit: (request) => admitUpgrade(request, admission),
      emit: this.#ground.emit,
      now: systemClock.now,
      connectTimeoutMs: seconds(Math.max(...routes.map(({ origin }) => origin.connectTimeoutSeconds))),
      answerTimeoutMs: seconds(Math.max(...routes.map(({ origin }) => origin.headersTimeoutSeconds))),
    });
    return { handler, tunnel, isTrusted: createPeerList(trustedProxies) };
  }

  /** Clients of a socket that nobody listens on would wait for ever. */
  #tellSpare({ listen }: Config): void {
    const names = new Set(listen.flatMap(({ address }) => (address.kind === 'systemd' ? [address.name] : [])));
    for (const { name } of this.#passed) {
      if (names.has(undefined) || names.has(name)) continue;
      const message = `a socket was passed that no listener is for: systemd:${name}`;
      this.#ground.emit({ kind: 'listener', level: 'warn', message });
    }
  }
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

/** One place of a configuration. */
interface ListenPlaceOf {
  /** Tells it apart from all others of the configuration, and is the same in the next one that has it. */
  readonly name: string;
  readonly place: BindPlace;
  readonly listener: ListenerConfig;
}

/** All places, in their order. Throws `ListenFault` where no socket was passed for one of systemd's. */
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

/** The limits of every connection. */
function listenerLimits({ limits }: Pick<Config, 'limits'>): ListenerLimits {
  return {
    targetBytes: limits.targetBytes,
    fieldsBytes: limits.fieldsBytes,
    maxFieldCount: limits.fieldCount,
    headersTimeoutMs: seconds(limits.headersTimeoutSeconds),
    requestTimeoutMs: seconds(limits.requestTimeoutSeconds),
    keepAliveTimeoutMs: seconds(limits.keepAliveTimeoutSeconds),
    idleTimeoutMs: seconds(limits.idleTimeoutSeconds),
    responseTimeoutMs: seconds(limits.responseTimeoutSeconds),
    minBytesPerSecond: limits.minBytesPerSecond,
    minUploadBytesPerSecond: limits.minUploadBytesPerSecond,
    streamsPerConnection: limits.streamsPerConnection,
  };
}

/**
 * How many connections one of so many processes takes: its share of all, but no more than its descriptors permit, and as many of
 * one client as the server may have.
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
    connectionsPerClient,
    isExempt: createPeerList(trustedProxies),
  };
}
