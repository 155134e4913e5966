/** The leases of one process, as it asks its supervisor for them and counts who uses them. */

import { untilAborted } from '../cache/abandonable.ts';
import type { Holder, Lease, Right } from '../cache/fleet.ts';
import type { LeaseReply, SupervisorCalls } from './calls.ts';
import type { Remote } from './channel.ts';

/** What a process asks for leases. */
export type LeaseSupervisor = Pick<Remote<SupervisorCalls>, 'acquireLease' | 'releaseLease'>;

/** Another process that has a lease, and the name that the supervisor knows it by. */
export interface NamedHolder extends Holder {
  readonly instance: string;
}

/** What leases are asked for with. */
export interface LeaseClientOptions {
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
