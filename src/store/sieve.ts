/**
 * SIEVE: who leaves a bounded store, in an order that a scan of things used once cannot ruin (Zhang, Yang, Yue, Vigfusson
 * and Rashmi, "SIEVE is Simpler than LRU", NSDI 2024).
 *
 * Things stand in a queue in the order in which they came, each with one bit: whether it was used since the hand last
 * passed it. The hand goes from the oldest to the newest and begins again. What it finds used loses its bit and stays
 * where it is; what it finds unused leaves. So what is used now and then is never moved, and what came once and was not
 * wanted again leaves soon, however much of it comes.
 */

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
export interface SieveMove<Id> {
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
