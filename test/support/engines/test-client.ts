/** Clients of an engine for tests. */

import { onTestFinished } from 'vitest';
import type { EnginePlace } from '../../../src/store/redis/engine-links.ts';
import { openRedisClient, type RedisClient, type RedisClientOptions } from '../../../src/store/redis/redis-client.ts';
import { realClock } from '../clocks/real-clock.ts';

/** Opens a client for the running test, which closes it. */
export async function openTestClient(
  place: EnginePlace,
  options: Partial<RedisClientOptions> = {},
): Promise<RedisClient> {
  const client = beginTestClient(place, options);
  onTestFinished(() => client.close());
  await client.started;
  return client;
}

/** Begins to connect a client that the caller closes. */
export function beginTestClient(place: EnginePlace, options: Partial<RedisClientOptions> = {}): RedisClient {
  return openRedisClient({
    place,
    username: undefined,
    password: undefined,
    database: 0,
    tls: undefined,
    connectTimeoutMs: 5000,
    commandTimeoutMs: 5000,
    queueBytes: 64_000_000,
    clock: realClock,
    ...options,
  });
}
