/**
 * Leases: the right of one worker to exchange with the origin for a key. The supervisor keeps the table; a worker asks it
 * through its client, which counts the uses of each lease.
 */

import { untilAborted } from '../cache/collapse/flight.ts';
import type { Holder, Lease, Right } from '../cache/fleet.ts';
import type { Clock } from '../http/clock.ts';
import type { LeaseReply, Remote, SupervisorCalls } from './channel.ts';

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

/** What a process asks for leases. */
type LeaseSupervisor = Pick<Remote<SupervisorCalls>, 'acquireLease' | 'releaseLease'>;

/** Another process that has a lease, and the name that the supervisor knows it by. */
export interface NamedHolder extends Holder {
  readonly instance: string;
}

/** What leases are asked for with. */
interface LeaseClientOptions {
  readonly supervisor: LeaseSupervisor;
  /** Makes it possible to ask another process. */
  readonly reach: (instance: string, socket: string) => NamedHolder;
}

/** A lease that this process has, and how many use it. */
interface Held {
  uses: number;
}

/** One question to the supervisor, on behalf of all who have it meanwhile. */
interface Asking {
  readonly reply: Promise<LeaseReply>;
  /** Those who would use the lease. */
  waiting: number;
  /** Whether it has come, and was counted for each of them. */
  isCounted: boolean;
}

/** The leases of one process. What it keeps of a key is gone with the last use of its lease. */
export class LeaseClient {
  readonly #options: LeaseClientOptions;
  readonly #held = new Map<string, Held>();
  readonly #asking = new Map<string, Asking>();

  constructor(options: LeaseClientOptions) {
    this.#options = options;
  }

  /** How many keys it keeps something of. */
  get size(): number {
    return this.#held.size + this.#asking.size;
  }

  /** See `Fleet.acquire`. */
  acquire(key: string, signal: AbortSignal, lost?: Holder): Right | Promise<Right> {
    const lease = this.#use(key);
    if (lease !== undefined) return { kind: 'ours', lease };
    return this.#ask(key, signal, lost);
  }

  /** See `Fleet.hold`. */
  hold(key: string): Lease | undefined | Promise<Lease | undefined> {
    const lease = this.#use(key);
    if (lease !== undefined) return lease;
    return this.#asking.get(key)?.reply.then(
      () => this.#use(key),
      () => undefined,
    );
  }

  async #ask(key: string, signal: AbortSignal, lost: Holder | undefined): Promise<Right> {
    const asking = this.#asking.get(key) ?? this.#begin(key, lost);
    asking.waiting += 1;
    let reply: LeaseReply;
    try {
      reply = await untilAborted(asking.reply, signal);
    } catch (thrown) {
      if (asking.isCounted) this.#leave(key);
      else asking.waiting -= 1;
      throw thrown;
    }
    if (reply.kind === 'theirs') return { kind: 'theirs', holder: this.#options.reach(reply.instance, reply.socket) };
    return { kind: 'ours', lease: this.#createLease(key) };
  }

  #begin(key: string, lost: Holder | undefined): Asking {
    const asked = this.#options.supervisor.acquireLease(key, (lost as NamedHolder | undefined)?.instance);
    const reply = asked.then(
      (told) => {
        this.#asking.delete(key);
        if (told.kind === 'ours') this.#receive(key, asking);
        return told;
      },
      (thrown: unknown) => {
        this.#asking.delete(key);
        throw thrown;
      },
    );
    // All who have asked may have left.
    reply.catch(() => {});
    const asking: Asking = { reply, waiting: 0, isCounted: false };
    this.#asking.set(key, asking);
    return asking;
  }

  /** Counts a lease that has come for all who wait for it, or gives it back where nobody does any more. */
  #receive(key: string, asking: Asking): void {
    asking.isCounted = true;
    if (asking.waiting > 0) this.#held.set(key, { uses: asking.waiting });
    else this.#giveBack(key);
  }

  #use(key: string): Lease | undefined {
    const held = this.#held.get(key);
    if (held === undefined) return undefined;
    held.uses += 1;
    return this.#createLease(key);
  }

  #createLease(key: string): Lease {
    let isReleased = false;
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        this.#leave(key);
      },
    };
  }

  #leave(key: string): void {
    const held = this.#held.get(key);
    if (held === undefined) return;
    held.uses -= 1;
    if (held.uses > 0) return;
    this.#held.delete(key);
    this.#giveBack(key);
  }

  #giveBack(key: string): void {
    // Who is gone has taken back what it gave.
    this.#options.supervisor.releaseLease(key).catch(() => {});
  }
}
