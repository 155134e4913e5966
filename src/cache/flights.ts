/** Collapse: the exchanges with the origin that run for each key, and those who wait for them. */

import type { Clock } from '../http/clock.ts';
import type { ProxyError } from '../http/proxy-error.ts';
import { ShortLivedMap, ShortLivedSet } from '../http/short-lived.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Asker } from './asker.ts';
import type { FillPolicy } from './fill-policy.ts';
import type { Fleet, Lease } from './fleet.ts';
import { type Exchange, Flight, type Landing } from './flight.ts';
import { Revocation } from './revocation.ts';
import { Steps } from './steps.ts';
import type { UnreadTransfers } from './unread-transfers.ts';

/** What flights work with. */
export interface FlightsContext {
  readonly fleet: Pick<Fleet, 'hold'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly unread: UnreadTransfers;
}

/** The flights of all keys. */
export class Flights {
  readonly #context: FlightsContext;
  /** Every flight that has not ended, those of invalidated keys too. */
  readonly #running = new ShortLivedSet<Flight>();
  readonly #byKey = new ShortLivedMap<string, readonly Flight[]>();
  /** What is asked for outside of flights, and its key. */
  readonly #watched = new Map<Revocation, string>();
  readonly #storing = new Steps();

  constructor(context: FlightsContext) {
    this.#context = context;
  }

  /** All that have not ended. */
  get running(): readonly Flight[] {
    return this.#running.all;
  }

  /** The flights of a key that a late request may join, the latest last. */
  of(key: string): readonly Flight[] {
    return this.#byKey.get(key)?.filter((flight) => flight.isJoinable) ?? [];
  }

  /**
   * Starts a flight; see `Flight`. It is listed until it has ended. Where this process has the lease of its key, it keeps it as
   * long.
   *
   * What needs no lease: a request that goes to the origin for itself alone. It opens a generation of its own, under a name
   * that nobody else knows before it is whole, and of two that are stored the later response stays (`commit`), in whatever
   * processes they were received; this is what happens to two in one process.
   */
  start(
    key: string,
    unreadPolicy: Pick<FillPolicy, 'onAbort' | 'finishMaxPerClient'>,
    exchange: Exchange,
    { leader, reopens }: { readonly leader?: Asker; readonly reopens?: string } = {},
  ): Flight {
    const heeded: Exchange = (clearance) => exchange(clearance).then((landing) => this.#heed(landing));
    const lease = this.#hold(key);
    const startedAt = this.#context.clock.now();
    const mayPublish = lease !== undefined;
    const { unread } = this.#context;
    const flight = new Flight({ key, unreadPolicy, unread, exchange: heeded, leader, reopens, mayPublish, startedAt });
    const number = this.#running.add(flight);
    this.#byKey.set(key, [...(this.#byKey.get(key) ?? []), flight]);
    void flight.ended.then(() => {
      this.#running.delete(number);
      this.#unlist(flight);
      lease?.release();
    });
    return flight;
  }

  /**
   * Who has a generation open, or is about to, and may be joined; `held` where somebody has who may not, and will not let go
   * of the store at once; undefined where nobody has.
   */
  holderOf(key: string, name: string): Flight | 'held' | undefined {
    const isOpenIn = (flight: Flight) => flight.hasOpen(name);
    const joinable = this.of(key).find(isOpenIn);
    if (joinable !== undefined) return joinable;
    const isHeld = this.running.some((flight) => isOpenIn(flight) && flight.generation?.isClosed !== true);
    return isHeld ? 'held' : undefined;
  }

  /** Waits until a generation that may not be joined any more has let go of the store. */
  async released(name: string): Promise<void> {
    const open = this.running.filter((flight) => flight.generation?.name === name);
    await Promise.all(open.map((flight) => flight.ended));
  }

  /** Those who read what is stored learn what has become of it. */
  #heed(landing: Landing): Landing {
    if (landing.kind === 'revalidated') for (const entry of [landing.entry, ...landing.alike]) this.freshen(entry);
    if (landing.kind === 'relay' && landing.outdated !== undefined) this.freshen(landing.outdated);
    return landing;
  }

  /** Whether something runs for a key that may be stored. */
  isRunning(key: string): boolean {
    return this.#byKey.has(key);
  }

  /** Gives a generation that is open the metadata that has become of it: freshened, or known to be outdated. */
  freshen({ generation: name, metadata }: StoredEntry): void {
    for (const flight of this.running) if (flight.hasOpen(name)) flight.freshen(metadata);
  }

  /** Notes what is invalidated until it is disposed of: for a request whose response may be given to a flight once it is there. */
  watch(key: string): Revocation & Disposable {
    const revocation = new Revocation();
    this.#watched.set(revocation, key);
    return Object.assign(revocation, { [Symbol.dispose]: () => void this.#watched.delete(revocation) });
  }

  /** Keeps what is running for a key from being stored or joined. */
  invalidate(key: string): void {
    for (const flight of this.#byKey.get(key) ?? []) flight.revoke();
    this.#byKey.delete(key);
    for (const [revocation, watched] of this.#watched) if (watched === key) revocation.revoke();
  }

  /** As `invalidate`, for all keys of which this holds. */
  invalidateWhere(holds: (key: string) => boolean): void {
    for (const key of this.#keysWhere(holds)) this.invalidate(key);
  }

  /** Keeps what is running from being stored or joined if it has, or turns out to have, this tag. */
  invalidateTagged(tag: string): void {
    for (const flight of this.running) flight.revokeTagged(tag);
    for (const revocation of this.#watched.keys()) revocation.revokeTagged(tag);
  }

  /** Has what is running for a key be validated before it is given to those who come later; `expiredAt` is now. */
  expire(key: string, expiredAt: number): void {
    for (const flight of this.#byKey.get(key) ?? []) flight.expire(expiredAt);
    for (const [revocation, watched] of this.#watched) if (watched === key) revocation.revoke();
  }

  /** As `expire`, for all keys of which this holds. */
  expireWhere(holds: (key: string) => boolean, expiredAt: number): void {
    for (const key of this.#keysWhere(holds)) this.expire(key, expiredAt);
  }

  /** As `expire`, for what has this tag. */
  expireTagged(tag: string, expiredAt: number): void {
    for (const flight of this.running) flight.expireTagged(tag, expiredAt);
    for (const revocation of this.#watched.keys()) revocation.revokeTagged(tag);
  }

  /** Takes a step outside of flights that changes what is found; see `Clearance.storing`. */
  storing<T>(step: () => Promise<T>): Promise<T> {
    return this.#storing.take(step);
  }

  /** Waits until what was about to become findable is, or is not; what is invalid by then does not become so later. */
  async settled(): Promise<void> {
    await Promise.all([this.#storing, ...this.running].map((each) => each.settled()));
  }

  #keysWhere(holds: (key: string) => boolean): readonly string[] {
    const keys = new Set([...this.#byKey.keys(), ...this.#watched.values()]);
    return [...keys].filter(holds);
  }

  /** Ends all that is running, and waits until it has ended. */
  async stopAll(error: ProxyError): Promise<void> {
    const { running } = this;
    for (const flight of running) flight.stop(error);
    await Promise.all(running.map((flight) => flight.ended));
  }

  #hold(key: string): Lease | undefined {
    const held = this.#context.fleet.hold(key);
    if (!(held instanceof Promise)) return held;
    // Somebody else has asked for it; this one has not waited for it.
    void held.then((lease) => lease?.release());
    return undefined;
  }

  /** No late request joins it; perhaps it was unlisted before. */
  #unlist(flight: Flight): void {
    const others = this.#byKey.get(flight.key)?.filter((other) => other !== flight);
    if (others === undefined || others.length === 0) this.#byKey.delete(flight.key);
    else this.#byKey.set(flight.key, others);
  }
}
