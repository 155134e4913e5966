/** From the configuration to what clients may send, and how long they may take. */

import type { Config } from '../config/schema.ts';
import { createPeerList } from '../guard/peers.ts';
import type { ConnectionRules } from '../listener/connection-limits.ts';
import type { ListenerLimits } from '../listener/listener.ts';
import { clientDescriptors, descriptorLimit } from './descriptors.ts';
import { seconds } from './system.ts';

/** The limits of every connection. */
export function listenerLimits({ limits }: Pick<Config, 'limits'>): ListenerLimits {
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
