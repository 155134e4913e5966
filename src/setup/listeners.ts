/** From the configuration to open listeners. */

import type { Config, ListenerConfig } from '../config/schema.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import { admitUpgrade } from '../guard/upgrade.ts';
import type { Handler } from '../http/message.ts';
import { openHttp1Listener } from '../listener/http1.ts';
import type { Listener, ListenerLimits } from '../listener/listener.ts';
import { createTunnel } from '../listener/tunnel.ts';
import type { Emit } from '../telemetry/events.ts';
import { seconds, systemClock } from './system.ts';

/** What requests are given to. */
export interface Served {
  readonly handler: Handler;
  readonly admission: AdmissionContext;
  readonly emit: Emit;
}

/** Opens all listeners, or none: rejects with Node's error when an address cannot be bound. */
export async function openListeners(config: Config, served: Served): Promise<readonly Listener[]> {
  return await Promise.all(config.listen.map((listener) => openOne(listener, config, served)));
}

function openOne({ address }: ListenerConfig, config: Config, { handler, admission, emit }: Served): Promise<Listener> {
  if (address.kind !== 'tcp') throw new Error('not yet');
  return openHttp1Listener({
    ...address,
    handler,
    emit,
    now: systemClock.now,
    limits: listenerLimits(config),
    tunnel: createTunnel({
      admit: (request) => admitUpgrade(request, admission),
      emit,
      now: systemClock.now,
      connectTimeoutMs: seconds(Math.max(...config.routes.map((route) => route.origin.connectTimeoutSeconds))),
      answerTimeoutMs: seconds(Math.max(...config.routes.map((route) => route.origin.headersTimeoutSeconds))),
    }),
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
  };
}
