/**
 * The blocks of generations in the engine: reads, writes and drops them, and keeps those of a removed generation alive while a reader of
 * this process has them open.
 */

import type { Clock } from '../../http/clock.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { RedisClient } from './redis-client.ts';
import { toStoreFaultOf } from './redis-faults.ts';
import type { EntryKeys, RedisKeys } from './redis-keys.ts';
import { decodeBlock, encodeBlock, readHeader } from './redis-records.ts';
import { existScript, expireScript } from './redis-scripts.ts';
import type { Seal } from './seal.ts';

/** How long the blocks of a removed generation stay for those that read them, in milliseconds. They are renewed while they are read. */
export const LINGER_MS = 60_000;
/** Keys in one call of a script, which must not hold up the engine. */
const KEYS_AT_ONCE = 500;

/** A generation that is open in this process. */
interface Held {
  readonly keys: EntryKeys;
  readonly generation: string;
  blockCount: number;
  holders: number;
}

/** Options of the bodies. */
export interface RedisBodiesOptions {
  readonly client: RedisClient;
  readonly keys: RedisKeys;
  /** Time to live of a block, in milliseconds. */
  readonly keepMs: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Timers for background work. */
  readonly clock: Clock;
  /** Authenticates blocks; undefined where they have checksums. */
  readonly seal: Seal | undefined;
  /** Called for a block that should be there and is absent or damaged. */
  readonly onLost: (key: string, generation: string, isDamaged: boolean) => void;
}

/** The blocks in the engine. */
export class RedisBodies {
  readonly #options: RedisBodiesOptions;
  readonly #held = new Map<string, Held>();
  /** The answers on their way, by the names of their blocks. */
  readonly #fetching = new Map<string, Promise<unknown>>();
  #cancelRenewal: (() => void) | undefined;

  constructor(options: RedisBodiesOptions) {
    this.#options = options;
  }

  /**
   * Asks for a block, to be passed to `read`. Readers that ask for a block while it is on its way share one answer. Rejects with
   * `EngineFault`.
   */
  fetch(key: string, generation: string, index: number): Promise<unknown> {
    const { client, keys } = this.#options;
    const name = keys.of(key).block(generation, index);
    const running = this.#fetching.get(name);
    if (running !== undefined) return running;
    const fetching = client.send(name, ['GET', name], true).finally(() => this.#fetching.delete(name));
    this.#fetching.set(name, fetching);
    return fetching;
  }

  /**
   * Reads a block. `sizeBytes` is its length, where that is known; `fetched` is what `fetch` has returned for it before. Throws
   * `ProxyError` `bytes_gone`.
   */
  async read(
    key: string,
    generation: string,
    index: number,
    sizeBytes?: number,
    fetched = this.fetch(key, generation, index),
  ): Promise<Uint8Array> {
    const { client, keys, onLost } = this.#options;
    const value = await fetched.catch((error: unknown) => {
      throw gone(generation, index, String(error), error);
    });
    if (value === null) {
      onLost(key, generation, false);
      throw gone(generation, index, 'it is absent');
    }
    const bytes = decodeBlock(generation, index, value as Buffer, sizeBytes, this.#options.seal);
    if (bytes !== undefined) return bytes;
    const name = keys.of(key).block(generation, index);
    client.send(name, ['UNLINK', name]).catch(() => {});
    onLost(key, generation, true);
    throw gone(generation, index, 'it is damaged');
  }

  /** Writes a block. Throws `StoreFault`. */
  async write(key: string, generation: string, index: number, bytes: Uint8Array): Promise<void> {
    const { client, keys, keepMs, seal } = this.#options;
    const name = keys.of(key).block(generation, index);
    try {
      await client.send(name, ['SET', name, encodeBlock(generation, index, bytes, seal), 'PX', String(keepMs)]);
    } catch (error) {
      throw toStoreFaultOf(error);
    }
  }

  /** Returns which of the first `count` blocks are present. Rejects with `EngineFault`. */
  async readPresence(key: string, generation: string, count: number): Promise<(index: number) => boolean> {
    const parts: string[] = [];
    for (const names of this.#slices(key, generation, count)) {
      parts.push(String(await this.#options.client.run(existScript, names, [])));
    }
    const flags = parts.join('');
    return (index) => flags[index] === '1';
  }

  /** Lets the blocks of a generation end after so many milliseconds; at once with 0. In the background. Never rejects. */
  async expire(key: string, generation: string, count: number, lifeMs: number): Promise<void> {
    try {
      for (const names of this.#slices(key, generation, count)) {
        if (lifeMs > 0) await this.#options.client.run(expireScript, names, [String(Math.ceil(lifeMs))]);
        else await this.#options.client.send(names[0] ?? '', ['UNLINK', ...names]);
      }
    } catch {
      // They end with their time to live.
    }
  }

  /** Holds a generation: its blocks stay although it is removed. Call the returned function once to let go. */
  hold(key: string, generation: string, blockCount: number): () => void {
    const keys = this.#options.keys.of(key);
    const held = this.#held.get(generation) ?? { keys, generation, blockCount, holders: 0 };
    held.holders += 1;
    held.blockCount = Math.max(held.blockCount, blockCount);
    this.#held.set(generation, held);
    this.#scheduleRenewal();
    return () => {
      held.holders -= 1;
      if (held.holders === 0) this.#held.delete(generation);
    };
  }

  /** Ends the background work. */
  close(): void {
    this.#held.clear();
    this.#cancelRenewal?.();
  }

  *#slices(key: string, generation: string, count: number): Iterable<string[]> {
    const keys = this.#options.keys.of(key);
    for (let from = 0; from < count; from += KEYS_AT_ONCE) {
      const size = Math.min(KEYS_AT_ONCE, count - from);
      yield Array.from({ length: size }, (_, at) => keys.block(generation, from + at));
    }
  }

  #scheduleRenewal(): void {
    if (this.#cancelRenewal !== undefined || this.#held.size === 0) return;
    this.#cancelRenewal = this.#options.clock.after(LINGER_MS / 3, () => {
      this.#cancelRenewal = undefined;
      void this.#renew().finally(() => this.#scheduleRenewal());
    });
  }

  /** Renews the blocks of generations that were removed and are still open here. */
  async #renew(): Promise<void> {
    const { client, now } = this.#options;
    for (const { keys, generation, blockCount } of [...this.#held.values()]) {
      try {
        const header = await client.send(keys.entry, ['HGET', keys.entry, `h:${generation}`], true);
        const read = header === null ? undefined : readHeader(String(header));
        if (read !== undefined && (read.pinnedUntil === undefined || read.pinnedUntil > now() + LINGER_MS)) continue;
        for (let from = 0; from < blockCount; from += KEYS_AT_ONCE) {
          const size = Math.min(KEYS_AT_ONCE, blockCount - from);
          const names = Array.from({ length: size }, (_, at) => keys.block(generation, from + at));
          await client.run(expireScript, names, [String(LINGER_MS)]);
        }
      } catch {
        // The next round tries again.
      }
    }
  }
}

function gone(generation: string, index: number, why: string, cause?: unknown): ProxyError {
  return new ProxyError('bytes_gone', { detail: `Generation ${generation} has no block ${index}: ${why}.`, cause });
}
