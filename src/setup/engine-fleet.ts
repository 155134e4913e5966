/** The fleet of several machines that share a store in an engine, from the configuration. */

import { defaultFleet } from '../config/fleet-schema.ts';
import type { Config } from '../config/schema.ts';
import { createEngineFleet, type EngineFleet } from '../fleet/engine/engine-fleet.ts';
import type { Emit } from '../telemetry/events.ts';
import { openRedisEngine } from './redis-engine.ts';
import type { PlacedStoreConfig } from './store.ts';
import { secondsToMs, unsuspendedClock } from './system.ts';

/** Creates this process's member of the fleet; undefined for a store that machines do not share. It is closed with `resources`. */
export async function openEngineFleet(
  { fleet: stated }: Pick<Config, 'fleet'>,
  store: PlacedStoreConfig,
  emit: Emit,
  resources: AsyncDisposableStack,
): Promise<EngineFleet | undefined> {
  if (store.type !== 'redis') return undefined;
  const { listen, advertise, memoryWhileAwaySeconds, unsafeWhileAway } = stated ?? defaultFleet;
  // Connections of its own: a lease does not wait for blocks that are on their way.
  const { client, keys } = await openRedisEngine(store, emit);
  resources.defer(() => client.close());
  const fleet = createEngineFleet({
    engine: client,
    keys: keys.fleet,
    leaseKey: keys.leaseKey,
    listen: { host: listen?.host, port: listen?.port ?? 0 },
    advertise,
    trustMs: secondsToMs(memoryWhileAwaySeconds),
    refusesUnsafe: unsafeWhileAway === 'refuse',
    clock: unsuspendedClock,
    emit,
  });
  resources.defer(() => fleet.close());
  return fleet;
}
