/** Stores in a real engine for tests. */

import { onTestFinished } from 'vitest';
import { randomId } from '../../../src/setup/system.ts';
import type { EnginePlace } from '../../../src/store/redis/engine-links.ts';
import type { RedisClientOptions } from '../../../src/store/redis/redis-client.ts';
import { createRedisKeys } from '../../../src/store/redis/redis-keys.ts';
import { openRedisStore, type RedisStoreOptions } from '../../../src/store/redis/redis-store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreEvent } from '../../../src/telemetry/events.ts';
import { realClock } from '../clocks/real-clock.ts';
import { openTestClient } from './test-client.ts';

let count = 0;

/** Options of a store in a test. */
export interface TestStoreOptions extends Partial<RedisStoreOptions> {
  /** Without it a prefix that no other store has. */
  readonly prefix?: string;
  readonly clientOptions?: Partial<RedisClientOptions>;
}

/** A store, and what it has reported. */
export interface TestRedisStore {
  readonly store: Store;
  readonly events: StoreEvent[];
}

/** Opens an empty store within the running test, which closes it. */
export async function openTestRedisStore(place: EnginePlace, options: TestStoreOptions = {}): Promise<TestRedisStore> {
  count += 1;
  const { prefix = `t${count}:`, clientOptions = {}, ...rest } = options;
  const events: StoreEvent[] = [];
  const store = openRedisStore({
    client: await openTestClient(place, clientOptions),
    keys: createRedisKeys(prefix),
    blockSizeBytes: 1024,
    maxEntryBytes: 32 * 1024,
    keepMs: 3_600_000,
    now: Date.now,
    clock: realClock,
    randomId,
    emit: (event) => {
      if (event.kind === 'store') events.push(event);
    },
    ...rest,
  });
  onTestFinished(() => store.close());
  return { store, events };
}
