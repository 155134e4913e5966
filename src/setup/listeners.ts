/** From the configuration to open listeners. */

import type { Config, ListenerConfig } from '../config/schema.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import { createPeerList } from '../guard/peers.ts';
import { admitUpgrade } from '../guard/upgrade.ts';
import type { Handler } from '../http/message.ts';
import type { BindPlace } from '../listener/bind.ts';
import { openCertificates } from '../listener/certificates.ts';
import { type ConnectionLimits, createConnectionLimits } from '../listener/connection-limits.ts';
import { createHttpsRedirect } from '../listener/https-redirect.ts';
import type { Listener, ListenerLimits, Tunnel } from '../listener/listener.ts';
import { type ListenerOptions, openListener } from '../listener/open-listener.ts';
import { choosePassedSockets, type PassedSocket, takePassedSockets } from '../listener/passed-sockets.ts';
import { createTunnel } from '../listener/tunnel.ts';
import type { Emit } from '../telemetry/events.ts';
import { seconds, systemClock } from './system.ts';

/** What requests are given to. */
export interface Served {
  readonly handler: Handler;
  readonly admission: AdmissionContext;
  readonly emit: Emit;
}

/** What all listeners have in common. */
interface Ground extends Served {
  readonly config: Config;
  readonly limits: ListenerLimits;
  readonly connections: ConnectionLimits;
  readonly passed: readonly PassedSocket[];
}

/**
 * Opens all listeners, or none: rejects with Node's error when an address cannot be bound, and with `ListenFault` when a
 * certificate cannot be used or no socket was passed on.
 */
export async function openListeners(config: Config, served: Served): Promise<readonly Listener[]> {
  const { connections, connectionsPerClient } = config.limits;
  const ground: Ground = {
    ...served,
    config,
    limits: listenerLimits(config),
    connections: createConnectionLimits({
      connections,
      connectionsPerClient,
      isExempt: createPeerList(config.trustedProxies),
    }),
    passed: takePassedSockets(process.env, process.pid),
  };
  await using opened = new AsyncDisposableStack();
  const listeners: Listener[] = [];
  for (const listenerConfig of config.listen) {
    for (const place of placesOf(listenerConfig, ground.passed)) {
      const listener = await openListener(await listenerOptions(listenerConfig, place, ground));
      opened.defer(() => listener.close(0).then(() => undefined));
      listeners.push(listener);
    }
  }
  opened.move();
  tellSpare(config, ground);
  return listeners;
}

/** Clients of a socket that nobody listens on would wait for ever. */
function tellSpare({ listen }: Config, { passed, emit }: Ground): void {
  const names = new Set(listen.flatMap(({ address }) => (address.kind === 'systemd' ? [address.name] : [])));
  for (const { name } of passed) {
    if (names.has(undefined) || names.has(name)) continue;
    const message = `a socket was passed that no listener is for: systemd:${name}`;
    emit({ kind: 'listener', level: 'warn', message });
  }
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

async function listenerOptions(listener: ListenerConfig, place: BindPlace, ground: Ground): Promise<ListenerOptions> {
  const { tls, http2 = tls !== undefined, proxyProtocol, redirectToHttpsPort } = listener;
  const { config, emit, limits, connections } = ground;
  const { now } = systemClock;
  const certificates =
    tls === undefined
      ? undefined
      : await openCertificates({ files: tls.certificates, minVersion: tls.minVersion, emit, now });
  const common = { place, certificates, http2, connections, emit, now, limits };
  return {
    ...common,
    ...(proxyProtocol ? { proxyProtocolFrom: createPeerList(config.trustedProxies) } : {}),
    ...(redirectToHttpsPort === undefined
      ? { handler: ground.handler, tunnel: tunnelOf(ground) }
      : { handler: createHttpsRedirect({ port: redirectToHttpsPort, clock: systemClock, emit }) }),
  };
}

function tunnelOf({ config, admission, emit }: Ground): Tunnel {
  const { routes } = config;
  return createTunnel({
    admit: (request) => admitUpgrade(request, admission),
    emit,
    now: systemClock.now,
    connectTimeoutMs: seconds(Math.max(...routes.map(({ origin }) => origin.connectTimeoutSeconds))),
    answerTimeoutMs: seconds(Math.max(...routes.map(({ origin }) => origin.headersTimeoutSeconds))),
  });
}

function listenerLimits({ limits }: Config): ListenerLimits {
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
    streamsPerConnection: limits.streamsPerConnection,
  };
}
