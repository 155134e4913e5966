/**
 * Chooses the entries to evict from the disk store when room is needed: SIEVE over the rows of the index, in the order of their
 * insertion (Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is Simpler than LRU", NSDI 2024).
 *
 * Entries form a queue in the order of insertion. Each has one bit: whether it was used since the hand last passed it. The hand
 * goes from the oldest entry to the newest and begins again. A used entry loses its bit and stays where it is; an unused one is
 * evicted. So an entry that is used now and then is never moved, and a scan of entries that are used once cannot push it out.
 */

import { setImmediate } from 'node:timers/promises';
import type { Emit } from '../../../telemetry/events.ts';
import type { DiskIndex } from '../index/disk-index.ts';
import type { IndexConnection } from '../index/index-connection.ts';
import type { Row } from '../index/index-tables.ts';
import type { Instances } from '../index/instances.ts';

/** Options of the eviction. */
interface EvictionOptions {
  readonly connection: IndexConnection;
  readonly index: DiskIndex;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Checks whether a generation is being written and must stay. */
  readonly isHeld: (generation: string) => boolean;
  /** The processes that share the index; without it this process is alone. */
  readonly instances?: Instances | undefined;
  readonly emit?: Emit | undefined;
}

/**
 * Maximum number of uses that are not written yet. A hit writes nothing while fewer entries are in use: uses are written when
 * another process evicts, and at the end. A crash loses unwritten uses, which only affects evictions.
 */
export const maxUnwrittenUses = 262_144;
/** Number of uses written in one transaction. */
const usesAtOnce = 128;
/** Number of uses written before another process evicts; the rest is written while it does. */
const usesAtFirst = 512;
/** Number of entries that the hand passes before other work gets its turn. */
const passedAtOnce = 64;
/** After this many rounds without an eviction, all entries are in constant use, and a use spares no entry any more. */
const sparingRounds = 2;
/** Maximum number of consecutive steps in which other processes had already removed everything that was chosen. */
const maxFutileSteps = 8;
/** Free pages that the index keeps for new rows: this number, and this share of all pages. More go back to the file system. */
const keptFreePages = 1024;
const keptFreePageShare = 1 / 8;

interface EntryId {
  readonly row: number;
  readonly key: string;
  readonly generation: string;
}

/**
 * The eviction. Uses are in memory first and in the index later, and so is the position of the hand. A start reads only one row
 * of this.
 */
export class Eviction {
  readonly #options: EvictionOptions;
  readonly #connection: IndexConnection;
  readonly #index: DiskIndex;
  /**
   * The generations whose use is not written yet, the longest waiting first, and the time of the last use in seconds since
   * `startedAt`: a small whole number, which takes no memory of its own. See `touch`.
   */
  readonly uses = new Map<string, number>();
  /** The last uses of generations that count as unused again, or whose use is written. In seconds, as `uses`. */
  readonly #earlierUses = new Map<string, number>();
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  /** When this process opened the store, in epoch milliseconds. */
  readonly startedAt: number;
  /** Id of the row that the hand passed last. */
  #hand = 0;
  /** Whether the index has the current position of the hand. */
  #isHandWritten = true;
  /** How often the hand has reached the end of the rows since the last eviction. */
  #rounds = 0;
  /** Number of consecutive steps in which everything that was chosen was already gone. */
  #futileSteps = 0;

  constructor(options: EvictionOptions) {
    const { connection, index, now } = options;
    this.#options = options;
    this.now = now;
    this.startedAt = now();
    this.#connection = connection;
    this.#index = index;
    connection.onReset(() => this.#startAfresh());
    this.#readHand();
  }

  /** Notes a use of a generation. It is written later, with others. */
  touch(generation: string): void {
    this.uses.set(generation, this.second());
    if (this.uses.size > maxUnwrittenUses) this.writeOldestUses();
  }

  /** Returns the time of a use that happens now: whole seconds since this process has the store open. */
  second(): number {
    return Math.floor((this.now() - this.startedAt) / 1000);
  }

  /** Returns when a generation was last used, in epoch milliseconds; undefined where that is not known. */
  usedAt(generation: string): number | undefined {
    const second = this.uses.get(generation) ?? this.#earlierUses.get(generation);
    return second === undefined ? undefined : this.startedAt + second * 1000;
  }

  /** Writes the oldest uses, because there are too many. */
  writeOldestUses(): void {
    this.#writeUses([...this.uses.keys().take(usesAtOnce)]);
  }

  /** Evicts a few entries to free `bytes`, expired pins first; returns whether another step is worth taking. */
  step(bytes: number): boolean {
    if (this.#index.removeExpired() > 0) return true;
    // While the index cannot be changed, reading the hand would set it back to the same rows again and again.
    if (this.#options.instances?.isShared === true && this.#isHandWritten) this.#readHand();
    const rows = this.#connection.ask([], ({ afterHand }) => afterHand.all(this.#hand, passedAtOnce));
    const queue = rows.map((row) => this.#sieved(row));
    const { evicted, spared, passed } = sieve(queue, bytes);
    const isRoundOver = rows.length < passedAtOnce && passed === queue.at(-1)?.id;
    this.#hand = isRoundOver ? 0 : (passed?.row ?? 0);
    this.#rounds = evicted.length > 0 ? 0 : this.#rounds + Number(isRoundOver);
    const isFreed = this.#remove(evicted);
    this.#spare(spared);
    this.#giveBackPages();
    if (this.#rounds <= sparingRounds) return isFreed;
    this.#rounds = 0;
    // The account may be wrong: with nothing left to evict, it should say that hardly anything is there.
    this.#index.recount();
    return false;
  }

  /** Writes all uses that are not written yet. */
  flush(): void {
    this.#writeUses([...this.uses.keys()]);
  }

  /** Writes uses for another process that is about to evict, the latest first. */
  async writeUsesForOthers(): Promise<void> {
    const uses = [...this.uses.keys()].reverse();
    this.#writeUses(uses.slice(0, usesAtFirst));
    for (let at = usesAtFirst; at < uses.length; at += usesAtOnce) {
      await setImmediate();
      this.#writeUses(uses.slice(at, at + usesAtOnce));
    }
  }

  #readHand(): void {
    this.#hand = this.#connection.ask(this.#hand, ({ room }) => Number(room.get()?.hand ?? 0));
  }

  #sieved(row: Row): Sieved<EntryId> {
    const generation = String(row.generation);
    return {
      id: { row: Number(row.id), key: String(row.key), generation },
      weight: Number(row.allocated_bytes),
      isUsed: this.#rounds < sparingRounds && (row.is_used === 1 || this.uses.has(generation)),
      isHeld: this.#options.isHeld(generation) || this.#options.instances?.isAnother(row.instance) === true,
    };
  }

  /** Removes entries; returns whether that made room, or another process may have made it before. */
  #remove(entries: readonly EntryId[]): boolean {
    if (entries.length === 0) return true;
    const generations = entries.map(({ generation }) => generation);
    const count = this.#index.remove(generations);
    for (const generation of generations) {
      this.uses.delete(generation);
      this.#earlierUses.delete(generation);
    }
    this.#futileSteps = count > 0 ? 0 : this.#futileSteps + 1;
    if (count > 0) this.#report(count, entries);
    return count > 0 || (this.#options.instances?.isShared === true && this.#futileSteps < maxFutileSteps);
  }

  #report(evictedEntries: number, entries: readonly EntryId[]): void {
    const message = 'Entries were evicted to make room.';
    const count = { evictedEntries };
    this.#options.emit?.({ kind: 'store', level: 'debug', message, detail: `${evictedEntries} entries`, count });
    this.#options.emit?.({ kind: 'removal', cause: 'evicted', keys: entries.map(({ key }) => key) });
  }

  /**
   * Writes the position of the hand, and that the spared entries count as unused. If the write fails, the next step continues
   * from memory.
   */
  #spare(spared: readonly EntryId[]): void {
    for (const { generation } of spared) this.#noteEarlier(generation);
    this.#isHandWritten = this.#connection.attempt(false, ({ deleteUse, updateHand }) => {
      for (const { row } of spared) deleteUse.run(row);
      updateHand.run(this.#hand);
      return true;
    });
  }

  /** Writes that these were used. A use that cannot be written now is dropped: it only affects evictions. */
  #writeUses(generations: readonly string[]): void {
    if (generations.length === 0) return;
    this.#connection.attempt(undefined, ({ insertUse }) => {
      for (const generation of generations) insertUse.run(generation);
    });
    for (const generation of generations) this.#noteEarlier(generation);
  }

  /** Keeps the time of a use that is written, or does not count any more. */
  #noteEarlier(generation: string): void {
    const second = this.uses.get(generation);
    this.uses.delete(generation);
    if (second === undefined) return;
    this.#earlierUses.delete(generation);
    this.#earlierUses.set(generation, second);
    const [oldest] = this.#earlierUses.keys();
    if (this.#earlierUses.size > maxUnwrittenUses && oldest !== undefined) this.#earlierUses.delete(oldest);
  }

  /** Shrinks the index file a little when it has too many free pages. */
  #giveBackPages(): void {
    const free = this.#connection.ask(0, ({ freePageCount }) => Number(freePageCount.get()?.freelist_count));
    const all = this.#connection.ask(0, ({ pageCount }) => Number(pageCount.get()?.page_count));
    if (free <= keptFreePages + all * keptFreePageShare) return;
    this.#connection.attempt(undefined, ({ giveBackPages }) => giveBackPages.all());
  }

  #startAfresh(): void {
    this.uses.clear();
    this.#earlierUses.clear();
    this.#hand = 0;
    this.#isHandWritten = true;
  }
}

/** One item of the queue, as the hand finds it. */
export interface Sieved<Id> {
  readonly id: Id;
  /** What an eviction of the item frees. */
  readonly weight: number;
  /** Whether the item was used since the hand last passed it. */
  readonly isUsed: boolean;
  /** Whether the item is held: it must stay as it is. */
  readonly isHeld: boolean;
}

/** Result of a move of the hand. */
interface SieveMove<Id> {
  /** Items to evict. */
  readonly evicted: readonly Id[];
  /** Items that stay because they were used; from now on they count as unused. */
  readonly spared: readonly Id[];
  /** The last item that the hand passed; undefined where it passed none. The next move begins after it. */
  readonly passed: Id | undefined;
}

/**
 * Moves the hand along a part of the queue until `weight` is freed or the part ends. When the queue itself ends there, the next
 * move begins at its start.
 */
export function sieve<Id>(queue: Iterable<Sieved<Id>>, weight: number): SieveMove<Id> {
  const evicted: Id[] = [];
  const spared: Id[] = [];
  let passed: Id | undefined;
  let givenBack = 0;
  for (const thing of queue) {
    if (givenBack >= weight) break;
    passed = thing.id;
    if (thing.isHeld) continue;
    if (thing.isUsed) {
      spared.push(thing.id);
    } else {
      evicted.push(thing.id);
      givenBack += thing.weight;
    }
  }
  return { evicted, spared, passed };
}
