/** Asks the engine of the store what `engine.ts` judges. Writes one key, which it removes again. */

import type { RedisStoreConfig } from '../../config/schema.ts';
import { describeEngine, openRedisEngine } from '../../setup/redis-engine.ts';
import type { EngineFacts } from './engine.ts';

const ROUND_TRIPS = 5;

/** Reads the facts of an engine. `elapsed` returns milliseconds that never go back. Never rejects. */
export async function gatherEngine(store: RedisStoreConfig, elapsed: () => number): Promise<EngineFacts> {
  const place = describeEngine(store);
  let reason = '';
  try {
    const { client, keys } = await openRedisEngine(store, (event) => {
      if (event.kind === 'store') reason = event.detail ?? '';
    });
    try {
      const [node = ''] = client.nodes();
      const info = String(await client.sendTo(node, ['INFO', 'server']));
      let roundTripMs = 0;
      for (let round = 0; round < ROUND_TRIPS; round += 1) {
        const startedAt = elapsed();
        await client.sendTo(node, ['PING']);
        roundTripMs = Math.max(roundTripMs, elapsed() - startedAt);
      }
      const memories = await Promise.all(client.nodes().map((each) => client.sendTo(each, ['INFO', 'memory'])));
      const nodes = memories.map(String).map((text) => ({
        maxBytes: Number(fieldOf(text, 'maxmemory') ?? 0),
        policy: fieldOf(text, 'maxmemory_policy') ?? 'unknown',
      }));
      const trial = keys.leaseKey('doctor');
      const writeFault = await client.send(trial, ['SET', trial, '1', 'PX', '1000']).then(() => undefined, messageOf);
      await client.send(trial, ['DEL', trial]).catch(() => {});
      return { place, state: { kind: 'answers', ...productOf(info), roundTripMs, nodes, writeFault } };
    } finally {
      client.close();
    }
  } catch (error) {
    return { place, state: { kind: 'away', reason: reason === '' ? messageOf(error) : reason } };
  }
}

/** A Valkey also states the version of Redis that it is compatible with. */
function productOf(info: string): { readonly product: string; readonly version: readonly [number, number] } {
  const valkey = fieldOf(info, 'valkey_version');
  const text = valkey ?? fieldOf(info, 'redis_version') ?? '0.0';
  const [major = 0, minor = 0] = text.split('.').map(Number);
  return { product: `${valkey === undefined ? 'Redis' : 'Valkey'} ${text}`, version: [major, minor] };
}

function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1];
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
