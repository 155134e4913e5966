/**
 * Leases: the right of one worker to exchange with the origin for a key. The supervisor keeps the table; a worker asks it
 * through its client, which counts the uses of each lease.
 */

import { untilAborted } from '../cache/collapse/flight.ts';
import type { Holder, Lease, LeaseResult } from '../cache/fleet.ts';
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
   * Grants a lease, or returns its holder. Answers in the same tick unless the holder is `lost`, the instance of a process that
   * could not be reached. Then it answers when that process has released the lease or died, or after a time, because it may live.
   * A holder that asks again is granted the lease again, and releases it once. A process that has died gets none.
   */
  acquire(key: string, asker: LeaseHolder, lost?: string): LeaseReply | Promise<LeaseReply>;
  /** Releases a lease. Does nothing where that process does not hold it. */
  release(key: string, instance: string): void;
  /** Returns the keys whose leases a process holds. */
  keysOf(instance: string): readonly string[];
  /** Frees the leases of a process that has died, and grants it none any more. */
  noteDeath(instance: string): void;
}

/** How long a process waits for a holder that cannot be reached but has not died, in milliseconds. */
const PATIENCE_MS = 2_000;
/** The number of dead processes that are remembered. */
const MAX_FALLEN = 1_000;

/** Creates an empty table. */
export function createLeaseTable(clock: Pick<Clock, 'after'>): LeaseTable {
  return new Leases(clock);
}

interface Waiter {
  readonly asker: LeaseHolder;
  /** Answers with the holder, or grants the lease where it is free. */
  readonly answer: () => void;
  /** Ends the wait without an answer. */
  readonly leave: () => void;
}

class Leases implements LeaseTable {
  readonly #holders = new Map<string, LeaseHolder>();
  /** The keys of each holder. */
  readonly #keys = new Map<string, Set<string>>();
  /** The processes that wait for a holder that cannot be reached, by key. */
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Dead processes whose last messages may still arrive. */
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
    this.#answerWaiters(key);
  }

  keysOf(instance: string): readonly string[] {
    return [...(this.#keys.get(instance) ?? [])];
  }

  noteDeath(instance: string): void {
    this.#noteFall(instance);
    for (const waiters of this.#waiters.values()) {
      for (const waiter of waiters) if (waiter.asker.instance === instance) waiter.leave();
    }
    const keys = this.keysOf(instance);
    for (const key of keys) this.#takeBack(key, instance);
    for (const key of keys) this.#answerWaiters(key);
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
      const answer = () => {
        leave();
        resolve(this.#grant(key, asker));
      };
      const waiter: Waiter = { asker, answer, leave };
      const cancel = this.#clock.after(PATIENCE_MS, answer);
      this.#waiters.set(key, (this.#waiters.get(key) ?? new Set()).add(waiter));
    });
  }

  /** Answers all waiters of a key: the first one gets the lease, the others learn its holder. */
  #answerWaiters(key: string): void {
    for (const { answer } of [...(this.#waiters.get(key) ?? [])]) answer();
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

/** The calls of the supervisor that concern leases. */
type LeaseSupervisor = Pick<Remote<SupervisorCalls>, 'acquireLease' | 'releaseLease'>;

/** Another process that holds a lease, with the name that the supervisor has for it. */
export interface NamedHolder extends Holder {
  readonly instance: string;
}

/** Options of a lease client. */
interface LeaseClientOptions {
  readonly supervisor: LeaseSupervisor;
  /** Creates the holder by which another process is asked. */
  readonly reach: (instance: string, socket: string) => NamedHolder;
}

/** A lease that this process holds, and the number of its uses. */
interface Held {
  uses: number;
}

/** One question to the supervisor, shared by all requests that need its answer. */
interface Asking {
  readonly reply: Promise<LeaseReply>;
  /** The number of requests that wait for the answer. */
  waiting: number;
  /** The lease, once it was granted and counted once for each waiting request. */
  held: Held | undefined;
}

/** The leases of one process. Nothing is kept of a key after the last use of its lease. */
export class LeaseClient {
  readonly #options: LeaseClientOptions;
  readonly #held = new Map<string, Held>();
  readonly #asking = new Map<string, Asking>();

  constructor(options: LeaseClientOptions) {
    this.#options = options;
  }

  /** The number of keys that something is kept of. */
  get size(): number {
    return this.#held.size + this.#asking.size;
  }

  /** See `Fleet.acquire`. */
  acquire(key: string, signal: AbortSignal, lost?: Holder): LeaseResult | Promise<LeaseResult> {
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

  async #ask(key: string, signal: AbortSignal, lost: Holder | undefined): Promise<LeaseResult> {
    const asking = this.#asking.get(key) ?? this.#begin(key, lost);
    asking.waiting += 1;
    let reply: LeaseReply;
    try {
      reply = await untilAborted(asking.reply, signal);
    } catch (thrown) {
      if (asking.held !== undefined) this.#leave(key, asking.held);
      else asking.waiting -= 1;
      throw thrown;
    }
    if (reply.kind === 'theirs') return { kind: 'theirs', holder: this.#options.reach(reply.instance, reply.socket) };
    return { kind: 'ours', lease: this.#createLease(key, asking.held) };
  }

  /** Notes that another process has the lease of a key now. The uses of the lost lease go on, and are released without effect. */
  forget(key: string): void {
    this.#held.delete(key);
  }

  #begin(key: string, lost: Holder | undefined): Asking {
    const answered = this.#options.supervisor.acquireLease(key, (lost as NamedHolder | undefined)?.instance);
    const reply = answered.then(
      (answer) => {
        this.#asking.delete(key);
        if (answer.kind === 'ours') this.#receive(key, asking);
        return answer;
      },
      (thrown: unknown) => {
        this.#asking.delete(key);
        throw thrown;
      },
    );
    // Every request may have stopped waiting, so a rejection may have no other handler.
    reply.catch(() => {});
    const asking: Asking = { reply, waiting: 0, held: undefined };
    this.#asking.set(key, asking);
    return asking;
  }

  /** Counts a granted lease once for each waiting request. Releases it where none waits any more. */
  #receive(key: string, asking: Asking): void {
    asking.held = { uses: asking.waiting };
    if (asking.waiting > 0) this.#held.set(key, asking.held);
    else this.#giveBack(key);
  }

  #use(key: string): Lease | undefined {
    const held = this.#held.get(key);
    if (held === undefined) return undefined;
    held.uses += 1;
    return this.#createLease(key, held);
  }

  #createLease(key: string, held: Held | undefined): Lease {
    let isReleased = false;
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        this.#leave(key, held);
      },
    };
  }

  #leave(key: string, held: Held | undefined): void {
    if (held === undefined) return;
    held.uses -= 1;
    // A lease that was lost is not given back: another one of this key may be held since.
    if (held.uses > 0 || this.#held.get(key) !== held) return;
    this.#held.delete(key);
    this.#giveBack(key);
  }

  #giveBack(key: string): void {
    // A supervisor that is gone keeps no leases.
    this.#options.supervisor.releaseLease(key).catch(() => {});
  }
}
