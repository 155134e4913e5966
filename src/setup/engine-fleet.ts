/** The fleet of several machines that share a store in an engine, from the configuration. */

import { defaultFleet, type FleetConfig } from '../config/fleet-schema.ts';
import type { Config } from '../config/schema.ts';
import { createEngineFleet, type EngineFleet } from '../fleet/engine/engine-fleet.ts';
import { createSeal } from '../store/redis/seal.ts';
import type { Emit } from '../telemetry/events.ts';
import { openRedisEngine } from './redis-engine.ts';
import { readSecret, unusable } from './secrets.ts';
import type { PlacedStoreConfig } from './store.ts';
import { secondsToMs, unsuspendedClock } from './system.ts';

/** Length of the shortest secret of a fleet, in characters. */
const SECRET_LENGTH = 32;

/**
 * Creates this process's member of the fleet; undefined for a store that machines do not share. It is closed with `resources`.
 * `drawn` is a random secret that all processes of this machine have, and no other machine. Rejects where a secret cannot be used.
 */
export async function openEngineFleet(
  { fleet: stated }: Pick<Config, 'fleet'>,
  store: PlacedStoreConfig,
  emit: Emit,
  resources: AsyncDisposableStack,
  drawn: string,
): Promise<EngineFleet | undefined> {
  if (store.type !== 'redis') return undefined;
  const { listen, advertise, memoryWhileAwaySeconds, unsafeWhileAway, secret } = stated ?? defaultFleet;
  const secrets = await readFleetSecrets(secret);
  // Connections of its own: a lease does not wait for blocks that are on their way.
  const { client, keys } = await openRedisEngine(store, emit);
  resources.defer(() => client.close());
  const fleet = createEngineFleet({
    engine: client,
    keys: keys.fleet,
    seal: createSeal(secrets.length > 0 ? secrets : [drawn]),
    isSecretStated: secrets.length > 0,
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

/** Reads the secrets of a fleet, the one that signs first. Rejects where one cannot be read, or is too short. */
export async function readFleetSecrets(sources: FleetConfig['secret'] = []): Promise<readonly string[]> {
  return await Promise.all(
    sources.map(async (source) => {
      const secret = await readSecret(source);
      if (secret.length < SECRET_LENGTH) throw unusable(source, `is shorter than ${SECRET_LENGTH} characters`);
      return secret;
    }),
  );
}
