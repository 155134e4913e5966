/**
 * The names of the keys in the engine. All keys of an entry have the same hash tag, so they are in one slot of a Cluster and one script
 * can change them together; so is the index of their bucket, which lists the entries by key and by tag.
 */

import { hash } from 'node:crypto';
import { memoizeByText } from '../../http/collections.ts';
import { slotOf } from './engine-links.ts';

/** Number of buckets. Each has an index of its own, and a slot of a Cluster; a removal by tag or prefix asks them all. */
export const BUCKETS = 256;
/** Number of cache keys whose names are remembered, at least. */
const MEMOIZED_KEYS = 1000;
const SLOTS_PER_BUCKET = 16_384 / BUCKETS;

/** The names of the keys of one entry. */
export interface EntryKeys {
  /** The bucket: 0 to `BUCKETS - 1`. */
  readonly bucket: number;
  /** The hash of the generations: see redis-scripts.ts. */
  readonly entry: string;
  /** The index of the bucket. */
  readonly index: string;
  /** The lease, which the fleet keeps there. */
  readonly lease: string;
  /** Returns the key of a block. */
  block(generation: string, index: number): string;
}

/** Makes the names of keys. */
export interface RedisKeys {
  /** Returns the names for a cache key. */
  of(key: string): EntryKeys;
  /** Returns the name of the index of a bucket. */
  index(bucket: number): string;
  /** Returns the bucket of the name of an entry; undefined for any other name. */
  bucketOf(entryName: string): number | undefined;
  /** Returns the name of the key with the lease of a cache key, in the slot of its entries. */
  leaseKey(key: string): string;
  /** A pattern of SCAN for the names of all entries. */
  readonly entryPattern: string;
  /** Keys of the fleet, in one slot. */
  readonly fleet: { readonly log: string; readonly members: string };
}

/** Texts that, as hash tags, spread the buckets evenly over the slots: the first number whose slot is in the part of the bucket. */
const bucketTags: readonly string[] = findTags();

function findTags(): readonly string[] {
  const tags = new Map<number, string>();
  for (let number = 0; tags.size < BUCKETS; number += 1) {
    const bucket = Math.floor(slotOf(String(number)) / SLOTS_PER_BUCKET);
    if (!tags.has(bucket)) tags.set(bucket, String(number));
  }
  return Array.from({ length: BUCKETS }, (_, bucket) => tags.get(bucket) ?? '');
}

/** Returns a short digest of a text, of letters, digits, `-` and `_`. */
export function shortDigest(text: string): string {
  return hash('sha256', text, 'buffer').toString('base64url', 0, 16);
}

/** Creates the names with a prefix, which has no braces and no signs of patterns. */
export function createRedisKeys(prefix: string): RedisKeys {
  const tagOf = (bucket: number) => `${prefix}{${bucketTags[bucket]}}`;
  const buckets = new Map(bucketTags.map((tag, bucket) => [tag, bucket]));
  const begin = `${prefix}{`;
  // A request from the engine needs the names two or three times.
  const of = memoizeByText(MEMOIZED_KEYS, (key: string): EntryKeys => {
    const digest = hash('sha256', key, 'buffer');
    const bucket = (digest[16] ?? 0) % BUCKETS;
    const tag = tagOf(bucket);
    const name = digest.toString('base64url', 0, 16);
    return {
      bucket,
      entry: `${tag}:e:${name}`,
      index: `${tag}:i`,
      lease: `${tag}:l:${name}`,
      block: (generation, index) => `${tag}:b:${generation}:${index}`,
    };
  });
  return {
    of,
    index: (bucket) => `${tagOf(bucket)}:i`,
    bucketOf(entryName) {
      const end = entryName.indexOf('}:e:');
      return entryName.startsWith(begin) && end > 0 ? buckets.get(entryName.slice(begin.length, end)) : undefined;
    },
    leaseKey: (key) => of(key).lease,
    entryPattern: `${prefix}{*}:e:*`,
    fleet: { log: `${prefix}{fleet}:log`, members: `${prefix}{fleet}:members` },
  };
}
