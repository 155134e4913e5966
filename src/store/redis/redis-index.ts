/**
 * The indexes of the entries, one for each bucket: lists keys by prefix and by tag. Each is in the slot of its entries and changed by the
 * same scripts. The engine may evict an index: it then lacks its mark, and is made again from the entries before it is relied on.
 */

import { randomBytes } from 'node:crypto';
import { compareRanks, isPrefixOf } from '../entry-rules.ts';
import type { EntryChoice, EntryRank } from '../store.ts';
import type { RedisClient } from './redis-client.ts';
import { BUCKETS, type RedisKeys, shortDigest } from './redis-keys.ts';
import {
  beginIndexScript,
  cleanScript,
  endIndexScript,
  indexScript,
  rangeScript,
  rangesScript,
} from './redis-scripts.ts';

/** Buckets of a Cluster that are asked at a time. One server is asked for all in one command. */
const BUCKETS_AT_ONCE = 64;
/** Keys of a bucket that are asked for at a time. */
const PAGE_SIZE = 500;
/** Keys of a bucket that are asked for first where only some of all buckets are wanted in order; each further page is twice as long. */
const FIRST_PAGE_SIZE = 8;
/** Keys that the engine looks at in one step of SCAN. */
const SCAN_COUNT = '1000';
/** Entries that are put into an index at a time. */
const ENTRIES_AT_ONCE = 100;
/** Times that an index is made again before a call fails: the engine evicts it again and again. */
const MAX_ATTEMPTS = 3;

/** A key in a bucket. */
export interface IndexedKey {
  readonly bucket: number;
  readonly key: string;
}

/** Keys of a bucket that are wanted. */
interface PagePlace {
  readonly bucket: number;
  /** Where the page begins: behind this key, or with it. Undefined for the first key, or the last one where they come backwards. */
  readonly from: { readonly key: string; readonly isIncluded: boolean } | undefined;
  readonly isFalling: boolean;
  /** Most keys. */
  readonly size: number;
}

/** The keys of a bucket, as the engine has answered. */
interface Page {
  readonly isWhole: boolean;
  readonly found: readonly string[];
}

/** Whether an index is whole, or `NOT_LOOKED_AT`, and its members. */
type RangeReply = readonly [isWhole: number, members: readonly Buffer[]];

const NOT_LOOKED_AT = 2;

/** The keys of a bucket in order, as far as they are known. */
interface Run {
  readonly bucket: number;
  /** The next key is the last one. */
  readonly keys: string[];
  size: number;
  isAll: boolean;
}

/** Options of the index. */
export interface RedisIndexOptions {
  readonly client: RedisClient;
  readonly keys: RedisKeys;
  /** Time to live of entries, in milliseconds; that of an index is twice as long. */
  readonly keepMs: number;
}

/** Finds keys by prefix and tag. */
export class RedisIndex {
  readonly #options: RedisIndexOptions;
  /** The making of indexes that runs now. */
  #making: Promise<void> | undefined;

  constructor(options: RedisIndexOptions) {
    this.#options = options;
  }

  /**
   * Returns the keys of a choice in pages, from a place on: bucket after bucket, the keys of each in the order of their bytes. Keys whose
   * entries are gone may be among them. Rejects with `EngineFault`.
   */
  async *pages(choice: EntryChoice, after?: IndexedKey): AsyncGenerator<readonly IndexedKey[]> {
    if (choice.kind === 'prefix' && !choice.prefix.isWellFormed()) return;
    const first = after?.bucket ?? 0;
    const atOnce = this.#isOneServer ? BUCKETS : BUCKETS_AT_ONCE;
    for (let from = first; from < BUCKETS; from += atOnce) {
      const buckets = Array.from({ length: Math.min(atOnce, BUCKETS - from) }, (_, at) => from + at);
      const starts = await this.#wholePages(
        choice,
        buckets.map((bucket) => pageBehind(bucket, bucket === after?.bucket ? after.key : undefined)),
      );
      for (const [at, bucket] of buckets.entries()) {
        let page = starts[at] ?? [];
        while (page.length > 0) {
          yield page.map((key) => ({ bucket, key }));
          if (page.length < PAGE_SIZE) break;
          [page = []] = await this.#wholePages(choice, [pageBehind(bucket, page.at(-1))]);
        }
      }
    }
  }

  /**
   * Returns the keys of a choice in the order of their code points, of all buckets together, from a key on, with it. Reads no more of each
   * bucket than is needed. Keys whose entries are gone may be among them. Rejects with `EngineFault`.
   */
  async *inOrder(choice: EntryChoice, isFalling: boolean, from?: string): AsyncGenerator<IndexedKey> {
    if (choice.kind === 'prefix' && !choice.prefix.isWellFormed()) return;
    const begin = from === undefined ? undefined : { key: from, isIncluded: true };
    const runs: Run[] = [];
    for (let first = 0; first < BUCKETS; first += BUCKETS_AT_ONCE) {
      const buckets = Array.from({ length: Math.min(BUCKETS_AT_ONCE, BUCKETS - first) }, (_, at) => first + at);
      const size = FIRST_PAGE_SIZE;
      const pages = await this.#wholePages(
        choice,
        buckets.map((bucket) => ({ bucket, from: begin, isFalling, size })),
      );
      for (const [at, bucket] of buckets.entries()) {
        const keys = pages[at]?.toReversed() ?? [];
        if (keys.length > 0) runs.push({ bucket, keys, size, isAll: keys.length < size });
      }
    }
    for (;;) {
      const run = firstOf(runs, isFalling);
      const key = run?.keys.pop();
      if (run === undefined || key === undefined) return;
      yield { bucket: run.bucket, key };
      if (run.keys.length > 0) continue;
      await this.#continue(choice, run, isFalling, key);
      if (run.keys.length === 0) runs.splice(runs.indexOf(run), 1);
    }
  }

  async #continue(choice: EntryChoice, run: Run, isFalling: boolean, key: string): Promise<void> {
    if (run.isAll) return;
    run.size = Math.min(PAGE_SIZE, 2 * run.size);
    const { bucket, size } = run;
    const [page = []] = await this.#wholePages(choice, [{ bucket, from: { key, isIncluded: false }, isFalling, size }]);
    run.keys.push(...page.toReversed());
    run.isAll = page.length < size;
  }

  /** Removes a key from the index if its entry is gone. Never rejects. */
  async clean(choice: EntryChoice, key: string): Promise<void> {
    const { client, keys } = this.#options;
    const { entry, index } = keys.of(key);
    const members = choice.kind === 'tag' ? [`k${key}`, `${tagPrefix(choice.tag)}${key}`] : [`k${key}`];
    await client.run(cleanScript, [entry, index], members).catch(() => {});
  }

  /** Returns how many entries the indexes know. Rejects with `EngineFault`. */
  async count(): Promise<number> {
    const { client, keys } = this.#options;
    let count = 0;
    for (let from = 0; from < BUCKETS; from += BUCKETS_AT_ONCE) {
      const names = Array.from({ length: Math.min(BUCKETS_AT_ONCE, BUCKETS - from) }, (_, at) => keys.index(from + at));
      const counts = names.map((name) => client.send(name, ['ZLEXCOUNT', name, '[k', '(l'], true));
      for (const each of await Promise.all(counts)) count += Number(each);
    }
    return count;
  }

  /** Returns a page of each bucket. Makes indexes again that are not whole. */
  async #wholePages(choice: EntryChoice, places: readonly PagePlace[]): Promise<readonly (readonly string[])[]> {
    for (let attempt = 1; ; attempt += 1) {
      const pages = await this.#pagesOf(choice, places);
      if (pages.every(({ isWhole }) => isWhole)) return pages.map(({ found }) => found);
      if (attempt > MAX_ATTEMPTS) throw new Error('The engine evicts the index of the store as soon as it is made.');
      await this.makeWhole();
    }
  }

  /** Whether all keys are on one server, which has no name then. */
  get #isOneServer(): boolean {
    return this.#options.client.nodes().every((name) => name === '');
  }

  async #pagesOf(choice: EntryChoice, places: readonly PagePlace[]): Promise<readonly Page[]> {
    const { client, keys } = this.#options;
    const together = places.filter(({ from, isFalling }) => from === undefined && !isFalling);
    const pages = new Map<PagePlace, Page>();
    const [first] = together;
    if (first !== undefined && together.length > 1 && this.#isOneServer) {
      const { args, pageOf } = rangeOf(choice, first);
      const names = together.map(({ bucket }) => keys.index(bucket));
      const replies = (await client.run(rangesScript, names, args)) as readonly RangeReply[];
      for (const [at, place] of together.entries()) {
        const reply = replies[at];
        if (reply !== undefined && reply[0] !== NOT_LOOKED_AT) pages.set(place, pageOf(reply));
      }
    }
    return await Promise.all(places.map(async (place) => pages.get(place) ?? (await this.#page(choice, place))));
  }

  async #page(choice: EntryChoice, place: PagePlace): Promise<Page> {
    const { client, keys } = this.#options;
    const { args, pageOf } = rangeOf(choice, place);
    return pageOf((await client.run(rangeScript, [keys.index(place.bucket)], args)) as RangeReply);
  }

  /**
   * Makes all indexes again that are not whole: looks at every key of the engine, in steps. Rejects with `EngineFault`. One at a time.
   */
  makeWhole(): Promise<void> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  async #make(): Promise<void> {
    const { client, keys, keepMs } = this.#options;
    const token = randomBytes(12).toString('hex');
    const life = String(2 * keepMs);
    const wanted = new Set<number>();
    const begun = Array.from({ length: BUCKETS }, async (_, bucket) => {
      if ((await client.run(beginIndexScript, [keys.index(bucket)], [token, life])) === 1) wanted.add(bucket);
    });
    await Promise.all(begun);
    if (wanted.size === 0) return;
    await Promise.all(client.nodes().map((node) => this.#scan(node, wanted)));
    await Promise.all([...wanted].map((bucket) => client.run(endIndexScript, [keys.index(bucket)], [token, life])));
  }

  async #scan(node: string, wanted: ReadonlySet<number>): Promise<void> {
    const { client, keys, keepMs } = this.#options;
    let cursor = '0';
    do {
      const parts = ['SCAN', cursor, 'MATCH', keys.entryPattern, 'COUNT', SCAN_COUNT];
      const [next, names] = (await client.sendTo(node, parts)) as [Buffer, readonly Buffer[]];
      const entries = names.map(String).flatMap((entry) => {
        const bucket = keys.bucketOf(entry);
        return bucket !== undefined && wanted.has(bucket) ? [{ entry, index: keys.index(bucket) }] : [];
      });
      for (let at = 0; at < entries.length; at += ENTRIES_AT_ONCE) {
        const slice = entries.slice(at, at + ENTRIES_AT_ONCE);
        await Promise.all(
          slice.map(({ entry, index }) => client.run(indexScript, [entry, index], [String(2 * keepMs)])),
        );
      }
      cursor = next.toString();
    } while (cursor !== '0');
  }
}

/** Returns the arguments by which a page is asked for, and how its reply is read. */
function rangeOf(
  choice: EntryChoice,
  { from, isFalling, size }: PagePlace,
): { readonly args: readonly (string | Buffer)[]; readonly pageOf: (reply: RangeReply) => Page } {
  const start = choice.kind === 'tag' ? tagPrefix(choice.tag) : 'k';
  const least = Buffer.from(choice.kind === 'tag' ? start : `k${choice.prefix}`);
  // No text in UTF-8 has this byte.
  const most = Buffer.concat([least, Buffer.from([0xff])]);
  let [min, max] = [bound('[', least), bound('(', most)];
  if (from !== undefined) {
    const member = Buffer.from(`${start}${from.key}`);
    const edge = bound(from.isIncluded ? '[' : '(', member);
    // The place of another choice may be outside of this one.
    if (isFalling && member.compare(most) < 0) max = edge;
    if (!isFalling && member.compare(least) >= 0) min = edge;
  }
  return {
    args: [min, max, String(size), ...(isFalling ? ['falling'] : [])],
    pageOf: ([isWhole, members]) => {
      const found = members.map((member) => member.toString().slice(start.length));
      return { isWhole: isWhole === 1, found: found.filter((key) => isChosen(choice, key)) };
    },
  };
}

/** Returns a bound of a range of members: `[` with the member itself, `(` without it. */
function bound(sign: '[' | '(', member: Buffer): Buffer {
  return Buffer.concat([Buffer.from(sign), member]);
}

function pageBehind(bucket: number, key: string | undefined): PagePlace {
  return {
    bucket,
    from: key === undefined ? undefined : { key, isIncluded: false },
    isFalling: false,
    size: PAGE_SIZE,
  };
}

/** Returns the run with the first key. */
function firstOf(runs: readonly Run[], isFalling: boolean): Run | undefined {
  let first: Run | undefined;
  for (const run of runs)
    if (first === undefined || compareRanks(headOf(run), headOf(first), isFalling) < 0) first = run;
  return first;
}

function headOf({ keys }: Run): EntryRank {
  return { rank: keys.at(-1) ?? '', generation: '' };
}

function tagPrefix(tag: string): string {
  return `t${shortDigest(tag)}`;
}

function isChosen(choice: EntryChoice, key: string): boolean {
  return choice.kind === 'tag' || isPrefixOf(choice.prefix, key);
}
