/**
 * Chooses the entries that leave the disk store when room is needed: SIEVE over the rows of the index, in the order of their
 * insertion (Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is Simpler than LRU", NSDI 2024).
 *
 * Entries stand in a queue in the order in which they came, each with one bit: whether it was used since the hand last passed it.
 * The hand goes from the oldest to the newest and begins again. A used entry loses its bit and stays where it is; an unused one
 * leaves. So an entry that is used now and then is never moved, and a scan of entries that are used once cannot push it out.
 */

import { setImmediate } from 'node:timers/promises';
import type { Emit } from '../../../telemetry/events.ts';
import type { DiskIndex } from '../index/disk-index.ts';
import type { IndexConnection } from '../index/index-connection.ts';
import type { Row } from '../index/index-tables.ts';
import type { Instances } from '../index/instances.ts';

/** What the eviction is made with. */
interface EvictionOptions {
  readonly connection: IndexConnection;
  readonly index: DiskIndex;
  /** Whether a generation is being written, so that it must stay. */
  readonly isHeld: (generation: string) => boolean;
  /** The processes that share the index; this one alone unless something else is said. */
  readonly instances?: Instances | undefined;
  readonly emit?: Emit | undefined;
}

/**
 * So many entries may have uses that are not written yet. A hit writes nothing as long as fewer are in use: uses are written
 * when entries have to leave in another process, and at the end. What a crash loses of them decides on evictions only.
 */
export const maxUnwrittenUses = 262_144;
/** So many uses are written in one transaction. */
const usesAtOnce = 128;
/** So many of them are written before another process lets entries leave; the rest is written while it does. */
const usesAtFirst = 512;
/** So many entries does the hand pass before other work gets its turn. */
const passedAtOnce = 64;
/** After so many rounds in which none left, all are in use all the time, and that spares nobody any more. */
const sparingRounds = 2;
/** So many steps in turn may find that other processes were faster. */
const vainSteps = 8;
/** Free pages that the index keeps for what comes: so many, and this share of all. More go back to the file system. */
const keptFreePages = 1024;
const keptFreePageShare = 1 / 8;

interface EntryId {
  readonly row: number;
  readonly generation: string;
}

/**
 * The eviction. Which entries were used since the hand passed them is in memory at first and in the index later, and so
 * is where the hand stands: nothing of it has to be read at a start but one row.
 */
export class Eviction {
  readonly #options: EvictionOptions;
  readonly #connection: IndexConnection;
  readonly #index: DiskIndex;
  /** The generations whose use is not written yet; the one that waits longest is the first. See `touch`. */
  readonly uses = new Set<string>();
  /** The id of the row that the hand has passed last. */
  #hand = 0;
  /** Whether the index says where it stands. */
  #isHandWritten = true;
  /** How often the hand has come to the end of the rows since an entry left. */
  #rounds = 0;
  /** In how many steps in turn what was to leave was gone already. */
  #vainSteps = 0;

  constructor(options: EvictionOptions) {
    const { connection, index } = options;
    this.#options = options;
    this.#connection = connection;
    this.#index = index;
    connection.onFresh(() => this.#startAfresh());
    this.#readHand();
  }

  /** Notes that a generation is in use. Written later, with others. */
  touch(generation: string): void {
    this.uses.add(generation);
    if (this.uses.size > maxUnwrittenUses) this.writeOldestUses();
  }

  /** Writes some of the uses, because there are too many of them. */
  writeOldestUses(): void {
    this.#writeUses([...this.uses.keys().take(usesAtOnce)]);
  }

  /** Takes a step toward so many free bytes; tells whether it is worth taking another one. What is expired goes first. */
  step(bytes: number): boolean {
    if (this.#index.removeExpired() > 0) return true;
    // While the index cannot be changed, it would set the hand back to the same rows again and again.
    if (this.#options.instances?.isShared === true && this.#isHandWritten) this.#readHand();
    const rows = this.#connection.ask([], ({ afterHand }) => afterHand.all(this.#hand, passedAtOnce));
    const queue = rows.map((row) => this.#sieved(row));
    const { evicted, spared, passed } = sieve(queue, bytes);
    const isRoundOver = rows.length < passedAtOnce && passed === queue.at(-1)?.id;
    this.#hand = isRoundOver ? 0 : (passed?.row ?? 0);
    this.#rounds = evicted.length > 0 ? 0 : this.#rounds + Number(isRoundOver);
    const isFreed = this.#remove(evicted.map(({ generation }) => generation));
    this.#spare(spared);
    this.#giveBackPages();
    if (this.#rounds <= sparingRounds) return isFreed;
    this.#rounds = 0;
    // Where nothing may leave, the account should say that hardly anything is there.
    this.#index.recount();
    return false;
  }

  /** Writes what is still to be written. */
  flush(): void {
    this.#writeUses([...this.uses]);
  }

  /** Another process is about to let entries leave: it should know which of them are in use here. */
  async tellUses(): Promise<void> {
    const uses = [...this.uses].reverse();
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
      id: { row: Number(row.id), generation },
      weight: Number(row.allocated_bytes),
      isUsed: this.#rounds < sparingRounds && (row.is_used === 1 || this.uses.has(generation)),
      isHeld: this.#options.isHeld(generation) || this.#options.instances?.isAnother(row.instance) === true,
    };
  }

  /** Removes entries; tells whether that made room, or may have made it before. */
  #remove(generations: readonly string[]): boolean {
    if (generations.length === 0) return true;
    const count = this.#index.remove(generations);
    for (const generation of generations) this.uses.delete(generation);
    this.#vainSteps = count > 0 ? 0 : this.#vainSteps + 1;
    if (count > 0) this.#tell(count);
    return count > 0 || (this.#options.instances?.isShared === true && this.#vainSteps < vainSteps);
  }

  #tell(evictedEntries: number): void {
    const message = 'Entries have left the store to make room.';
    const count = { evictedEntries };
    this.#options.emit?.({ kind: 'store', level: 'debug', message, detail: `${evictedEntries} entries`, count });
  }

  /** Writes where the hand stands, and that those it spared count as unused. Where that fails, the next step goes on. */
  #spare(spared: readonly EntryId[]): void {
    for (const { generation } of spared) this.uses.delete(generation);
    this.#isHandWritten = this.#connection.attempt(false, ({ deleteUse, updateHand }) => {
      for (const { row } of spared) deleteUse.run(row);
      updateHand.run(this.#hand);
      return true;
    });
  }

  /** Writes that these were used. Where that cannot be written now, it is forgotten: it decides on evictions only. */
  #writeUses(generations: readonly string[]): void {
    if (generations.length === 0) return;
    this.#connection.attempt(undefined, ({ insertUse }) => {
      for (const generation of generations) insertUse.run(generation);
    });
    for (const generation of generations) this.uses.delete(generation);
  }

  /** Makes the index's file smaller, a little at a time, when it has too many pages that nothing is in. */
  #giveBackPages(): void {
    const free = this.#connection.ask(0, ({ freePageCount }) => Number(freePageCount.get()?.freelist_count));
    const all = this.#connection.ask(0, ({ pageCount }) => Number(pageCount.get()?.page_count));
    if (free <= keptFreePages + all * keptFreePageShare) return;
    this.#connection.attempt(undefined, ({ giveBackPages }) => giveBackPages.all());
  }

  #startAfresh(): void {
    this.uses.clear();
    this.#hand = 0;
    this.#isHandWritten = true;
  }
}

/** One thing in the queue, as the hand finds it. */
export interface Sieved<Id> {
  readonly id: Id;
  /** What its leaving gives back. */
  readonly weight: number;
  /** Whether it was used since the hand last passed it. */
  readonly isUsed: boolean;
  /** Whether somebody holds it: it must stay as it is. */
  readonly isHeld: boolean;
}

/** What a move of the hand comes to. */
interface SieveMove<Id> {
  /** Those that leave. */
  readonly evicted: readonly Id[];
  /** Those that stay because they were used; from now on they count as unused. */
  readonly spared: readonly Id[];
  /** The last one that the hand has passed; undefined when the queue was empty. The next move begins after it. */
  readonly passed: Id | undefined;
}

/**
 * Moves the hand along a part of the queue until so much weight is given back or the part ends. When the queue itself
 * ends there, the next move begins at its start.
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
