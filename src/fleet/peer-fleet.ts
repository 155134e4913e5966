/** The other processes of a fleet, as the cache of a worker meets them: leases, answers and news. */

import type { Fleet } from '../cache/fleet.ts';
import type { Clock } from '../http/clock.ts';
import type { SupervisorCalls } from './calls.ts';
import type { Remote } from './channel.ts';
import { LeaseClient } from './lease-client.ts';
import { createPeerHolder } from './peer-client.ts';

/**
 * Creates it. `supervisor` keeps the table of leases and brings news to all; who has a lease is asked over its own socket
 * (`openPeerServer`).
 */
export function createPeerFleet(supervisor: Remote<SupervisorCalls>, clock: Pick<Clock, 'after'>): Fleet {
  const leases = new LeaseClient({
    supervisor,
    reach: (instance, path) => createPeerHolder(instance, path, clock),
  });
  return {
    acquire: (key, signal, lost) => leases.acquire(key, signal, lost),
    hold: (key) => leases.hold(key),
    // Whoever has nobody to tell any more ends soon.
    tell: (news) => supervisor.tell(news).catch(() => undefined),
  };
}
