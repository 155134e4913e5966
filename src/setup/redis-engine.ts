/** Connects to the engine (Redis or Valkey) that the configuration of the store names. */

import type { EngineNode } from '../config/redis-schema.ts';
import type { RedisStoreConfig } from '../config/schema.ts';
import type { EngineAddress, EnginePlace } from '../store/redis/engine-links.ts';
import type { RedisClient } from '../store/redis/redis-client.ts';
import type { RedisKeys } from '../store/redis/redis-keys.ts';
import type { Emit } from '../telemetry/events.ts';
import { readSecret } from './secrets.ts';
import { backgroundClock, secondsToMs } from './system.ts';
import { readTlsFiles } from './tls-files.ts';

const ENGINE_PORT = 6379;
const SENTINEL_PORT = 26_379;

/** The engine of a store: its connections and the names of its keys. */
export interface RedisEngine {
  readonly client: RedisClient;
  readonly keys: RedisKeys;
}

/**
 * Connects to the engine. Resolves when it has answered, or the time for a connection is over: the engine is then used as soon as it is
 * there. Rejects where a secret or a TLS file cannot be read.
 */
export async function openRedisEngine(store: RedisStoreConfig, emit: Emit): Promise<RedisEngine> {
  const [password, sentinelPassword, tls] = await Promise.all([
    store.password && readSecret(store.password),
    store.sentinelPassword && readSecret(store.sentinelPassword),
    store.tls ? readTlsFiles(store) : undefined,
  ]);
  // Loaded here, because the library takes a tenth of a second at a start without an engine.
  const [{ openRedisClient }, { createRedisKeys }] = await Promise.all([
    import('../store/redis/redis-client.ts'),
    import('../store/redis/redis-keys.ts'),
  ]);
  const client = openRedisClient({
    place: placeOf(store, sentinelPassword),
    username: store.username,
    password,
    database: store.database,
    tls,
    connectTimeoutMs: secondsToMs(store.connectTimeoutSeconds),
    commandTimeoutMs: secondsToMs(store.commandTimeoutSeconds),
    queueBytes: store.queueBytes,
    clock: backgroundClock,
    onChange(isAway, detail) {
      const message = isAway
        ? 'the engine of the store is away: memory and the origin answer'
        : 'the engine of the store answers';
      emit({ kind: 'store', level: isAway ? 'warn' : 'info', message, detail: isAway ? detail : undefined });
    },
  });
  await client.started;
  return { client, keys: createRedisKeys(store.keyPrefix) };
}

/** Describes where the engine is, without any secret. */
export function describeEngine(store: RedisStoreConfig): string {
  const { url, cluster, sentinels, sentinelMaster, database } = store;
  if (cluster !== undefined) return `Cluster of ${listOf(cluster, ENGINE_PORT)}`;
  if (sentinels !== undefined) return `master ${sentinelMaster} of the Sentinels ${listOf(sentinels, SENTINEL_PORT)}`;
  if (url?.kind === 'unix') return `unix:${url.path}, database ${database}`;
  return `${listOf(url === undefined ? [] : [url.node], ENGINE_PORT)}, database ${database}`;
}

function listOf(nodes: readonly EngineNode[], port: number): string {
  const texts = nodes.map((node) => (node.host.includes(':') ? `[${node.host}]` : node.host));
  return texts.map((text, at) => `${text}:${nodes[at]?.port ?? port}`).join(', ');
}

/** Returns the ports that a server of this store connects to, of its Sentinels where they name the engine; none over a Unix socket. */
export function enginePorts(store: RedisStoreConfig): readonly number[] {
  const place = placeOf(store, undefined);
  if (place.kind === 'socket') return [];
  return place.kind === 'server' ? [place.address.port] : place.nodes.map(({ port }) => port);
}

function placeOf(store: RedisStoreConfig, password: string | undefined): EnginePlace {
  const { url, cluster, sentinels, sentinelMaster: master, sentinelUsername: username } = store;
  if (cluster !== undefined) return { kind: 'cluster', nodes: cluster.map((node) => addressOf(node, ENGINE_PORT)) };
  if (sentinels !== undefined) {
    const nodes = sentinels.map((node) => addressOf(node, SENTINEL_PORT));
    return { kind: 'sentinels', nodes, master, username, password };
  }
  if (url?.kind === 'unix') return { kind: 'socket', path: url.path };
  return { kind: 'server', address: addressOf(url?.node ?? { host: '127.0.0.1', port: undefined }, ENGINE_PORT) };
}

function addressOf({ host, port }: EngineNode, usual: number): EngineAddress {
  return { host, port: port ?? usual };
}
