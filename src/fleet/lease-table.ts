/** Which process has the lease of which key: the table that their supervisor keeps. */

import type { Clock } from '../http/clock.ts';
import type { LeaseReply } from './calls.ts';

/** A process that asks for leases, and the socket by which others reach it. */
export interface LeaseHolder {
  readonly instance: string;
  readonly socket: string;
}

/** The leases of all keys. */
export interface LeaseTable {
  /** How many leases there are. */
  readonly size: number;
  /**
   * Gives a lease to who asks, or tells who has it; in the same tick, unless `lost` has it, the instance of a process that
   * could not be reached. Then it is told when that one has given it back or died, or, for it may live, after a time. Who asks
   * for what it has already is given it again, and gives it back once. A process that has died gets nothing.
   */
  acquire(key: string, asker: LeaseHolder, lost?: string): LeaseReply | Promise<LeaseReply>;
  /** Takes back a lease; does nothing where that process does not have it. */
  release(key: string, instance: string): void;
  /** The keys that a process has the leases of. */
  keysOf(instance: string): readonly string[];
  /** A process has died: its leases are free, and it gets none any more. */
  fall(instance: string): void;
}

/** How long somebody waits for a process that could not be reached and has not died, in milliseconds. */
const PATIENCE_MS = 2_000;
/** Of so many processes it is remembered that they have died. */
const MAX_FALLEN = 1_000;

/** Creates an empty table. */
export function createLeaseTable(clock: Pick<Clock, 'after'>): LeaseTable {
  return new Leases(clock);
}

interface Waiter {
  readonly asker: LeaseHolder;
  /** Tells who has the lease now; gives it to the one who waits where nobody has it. */
  readonly look: () => void;
  /** Ends the waiting; nobody is told. */
  readonly leave: () => void;
}

class Leases implements LeaseTable {
  readonly #holders = new Map<string, LeaseHolder>();
  /** The keys of each process that has some. */
  readonly #keys = new Map<string, Set<string>>();
  /** Those who wait for what has become of a lease. */
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Processes whose last words may still arrive. */
  readonly #fallen = new Set<string>();
  readonly #clock: Pick<Clock, 'after'>;

  constructor(clock: Pick<Clock, 'after'>) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#holders.size;
  }

  acquire(key: string, asker: LeaseHolder, lost?: string): LeaseReply | Promise<LeaseReply> {
    const isLost = lost !== undefined && lost !== asker.instance && this.#holders.get(key)?.instance === lost;
    return isLost ? this.#wait(key, asker) : this.#grant(key, asker);
  }

  release(key: string, instance: string): void {
    if (this.#holders.get(key)?.instance !== instance) return;
    this.#takeBack(key, instance);
    this.#tell(key);
  }

  keysOf(instance: string): readonly string[] {
    return [...(this.#keys.get(instance) ?? [])];
  }

  fall(instance: string): void {
    this.#noteFall(instance);
    for (const waiters of this.#waiters.values()) {
      for (const waiter of waiters) if (waiter.asker.instance === instance) waiter.leave();
    }
    const keys = this.keysOf(instance);
    for (const key of keys) this.#takeBack(key, instance);
    for (const key of keys) this.#tell(key);
  }

  #grant(key: string, asker: LeaseHolder): LeaseReply {
    if (this.#fallen.has(asker.instance)) return theirs(asker);
    const holder = this.#holders.get(key);
    if (holder !== undefined && holder.instance !== asker.instance) return theirs(holder);
    if (holder === undefined) {
      this.#holders.set(key, asker);
      this.#keys.set(asker.instance, (this.#keys.get(asker.instance) ?? new Set()).add(key));
    }
    return { kind: 'ours' };
  }

  #wait(key: string, asker: LeaseHolder): Promise<LeaseReply> {
    return new Promise((resolve) => {
      const leave = () => {
        cancel();
        this.#remove(key, waiter);
      };
      const look = () => {
        leave();
        resolve(this.#grant(key, asker));
      };
      const waiter: Waiter = { asker, look, leave };
      const cancel = this.#clock.after(PATIENCE_MS, look);
      this.#waiters.set(key, (this.#waiters.get(key) ?? new Set()).add(waiter));
    });
  }

  /** The first one that waits is given it, the others are told who that is. */
  #tell(key: string): void {
    for (const { look } of [...(this.#waiters.get(key) ?? [])]) look();
  }

  #remove(key: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(key);
    if (waiters?.delete(waiter) === true && waiters.size === 0) this.#waiters.delete(key);
  }

  #noteFall(instance: string): void {
    this.#fallen.add(instance);
    const [oldest] = this.#fallen;
    if (this.#fallen.size > MAX_FALLEN && oldest !== undefined) this.#fallen.delete(oldest);
  }

  #takeBack(key: string, instance: string): void {
    this.#holders.delete(key);
    const keys = this.#keys.get(instance);
    if (keys?.delete(key) === true && keys.size === 0) this.#keys.delete(instance);
  }
}

function theirs({ instance, socket }: LeaseHolder): LeaseReply {
  return { kind: 'theirs', instance, socket };
}
