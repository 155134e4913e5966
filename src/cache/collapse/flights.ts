/**
 * Collapses requests: the exchanges with the origin that run for each key, and which of them a later request waits for
 * instead of asking the origin itself. Operators list and stop running fills here. `flight.ts` is one such exchange.
 */

import type { Clock } from '../../http/clock.ts';
import { ShortLivedMap, ShortLivedSet } from '../../http/collections.ts';
import { hasField } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { readCacheControl } from '../../semantics/cache-control.ts';
import { ageTerms, freshnessLifetime, isStated } from '../../semantics/freshness.ts';
import { decideReuse, isForAll } from '../../semantics/reuse.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';
import { isBeyondLimit, isRefusedTo, type UnreadTransfers } from '../fill/fill-scheduler.ts';
import type { Fleet, Lease } from '../fleet.ts';
import { type CachePolicy, type FillPolicy, hasRange, type Inquiry } from '../inquiry.ts';
import { type FetchPlan, isFor, RequestMatcher } from '../lookup/lookup.ts';
import { type ExchangeFunction, type FetchResult, Flight, Revocation, Steps } from './flight.ts';

/** What flights work with. */
interface FlightsContext {
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
    exchange: ExchangeFunction,
    { leader, reopens }: { readonly leader?: RequestMatcher; readonly reopens?: string } = {},
  ): Flight {
    const heeded: ExchangeFunction = (clearance) => exchange(clearance).then((result) => this.#heed(result));
    const lease = this.#hold(key);
    const startedAt = this.#context.clock.now();
    const mayPublish = lease !== undefined;
    const { unread } = this.#context;
    const flight = new Flight({ key, unreadPolicy, unread, exchange: heeded, leader, reopens, mayPublish, startedAt });
    const place = this.#running.add(flight);
    this.#byKey.set(key, [...(this.#byKey.get(key) ?? []), flight]);
    void flight.ended.then(() => {
      this.#running.delete(place);
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
  #heed(result: FetchResult): FetchResult {
    if (result.kind === 'revalidated') for (const entry of [result.entry, ...result.alike]) this.freshen(entry);
    if (result.kind === 'relay' && result.outdated !== undefined) this.freshen(result.outdated);
    return result;
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

/**
 * The flight that a request waits for, of those that run for its key and were not tried; undefined where it starts its own.
 * `isBound` tells that the responses of the key are for equal requests only: then a request waits for no others, or all who
 * ask would wait for each other in turn.
 */
export function selectFlight(
  flights: readonly Flight[],
  inquiry: Inquiry,
  plan: FetchPlan,
  now: number,
  isBound: boolean,
): Flight | undefined {
  if (flights.length === 0) return undefined;
  const { policy } = inquiry;
  const mayWait = plan.kind === 'fill' || isShareable(plan.entry.metadata, policy);
  const isForEquals = isBound || (plan.kind === 'revalidate' && !isForAll(plan.entry.metadata, policy));
  const matcher = new RequestMatcher(inquiry);
  return flights.findLast(({ generation, leader }) => {
    if (generation !== undefined) return mayJoinGeneration(generation, inquiry, now);
    return mayWait && (!isForEquals || leader === undefined || leader.isEqualTo(matcher));
  });
}

/**
 * A generation in the making serves a later request of the same variant as a stored response would (RFC 9111 §4). Where the origin
 * says nothing of freshness, what is still arriving counts as current: the file is fetched once, however many ask.
 */
function mayJoinGeneration(generation: Pick<OpenGeneration, 'response'>, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy } = inquiry;
  if (!isFor(generation.response, inquiry)) return false;
  const reuse = decideReuse({
    requestFields: originFields,
    hasRange: hasRange(inquiry),
    stored: generation.response,
    now,
    policy,
  });
  if (reuse.kind !== 'validate') return true;
  const { isInvalid, expiredAt } = generation.response;
  if (reuse.reason !== 'stale' || isInvalid === true || expiredAt !== undefined) return false;
  return freshnessLifetime(generation.response, policy).source === 'none';
}

/** Whether a response is given to a request that has waited for it, as it is then. */
export function mayTakeAlong(response: StoredResponse, inquiry: Inquiry, now: number): boolean {
  return isFor(response, inquiry) && isShareable(response, inquiry.policy) && !isTooOld(response, inquiry, now);
}

/**
 * Whether a response came too old to be reused, as another cache says that it comes from. How long the origin has taken
 * does not count: it was asked on behalf of all who have waited.
 */
function isTooOld(response: StoredResponse, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy } = inquiry;
  const { lifetimeMs, source } = freshnessLifetime(response, policy);
  if (!isStated(source) || ageTerms(response, now).ageFieldMs < lifetimeMs) return false;
  const asked = { requestFields: originFields, hasRange: hasRange(inquiry), policy };
  return decideReuse({ ...asked, stored: response, now }).kind === 'validate';
}

/**
 * Whether a response may go to several who were waiting for it together (RFC 9111 §4). Not when the origin wants to be
 * asked each time, by no-cache (§5.2.2.4) or a lifetime of nothing: who asks may matter to it.
 */
function isShareable(response: StoredResponse, policy: CachePolicy): boolean {
  const control = readCacheControl(response.fields, policy);
  if (control.noCache === true) return false;
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  return lifetimeMs > 0 || !isStated(source);
}

/** Whether the next exchange, too, would probably bring nothing to those who wait for it. */
export function isWaitingVain(result: FetchResult, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy, rangeAbility } = inquiry;
  const isVainFor = (response: StoredResponse) => !isShareable(response, policy) || isTooOld(response, inquiry, now);
  switch (result.kind) {
    case 'generation':
      return isVainFor(result.generation.response);
    case 'unusable':
      return true;
    case 'revalidated':
      return isVainFor(result.entry.metadata);
    case 'relay':
      // The first part that came showed whether others can be combined: then one exchange serves many.
      if (result.reason === 'part') return !rangeAbility.isKnown;
      // What Authorization kept from being shared may be shared where there is none.
      return result.reason !== 'authorization' || hasField(originFields, 'authorization');
    case 'failed':
      return !isOfLeader(result, inquiry);
  }
}

/** Whether a flight has failed by a limit of the client that has started it, which is none of this one that has waited for it. */
export function isOfLeader(result: FetchResult, { client }: Pick<Inquiry, 'client'>): boolean {
  if (result.kind !== 'failed' || !(result.failure instanceof ProxyError)) return false;
  return isBeyondLimit(result.failure) && !isRefusedTo(client, result.failure, result.client);
}

/** A generation that something is coming for. */
export interface RunningFill {
  /** Names it among all fills of all processes. */
  readonly id: string;
  readonly key: string;
  readonly generation: string;
  readonly sizeBytes: number | undefined;
  /** Bytes that the origin has sent for it since it was opened. */
  readonly receivedBytes: number;
  readonly readers: number;
  /** When the exchange began that it came of, in epoch milliseconds. */
  readonly startedAt: number;
}

/** All of them, the oldest first. A generation is open in one process at a time: its name is the name of its fill. */
export function listFills(flights: Flights): readonly RunningFill[] {
  return flights.running.flatMap(({ key, startedAt, generation }) => {
    if (generation === undefined || generation.outlook.fills.length === 0) return [];
    const { name, sizeBytes, received: receivedBytes, readerCount: readers } = generation;
    return [{ id: name, key, generation: name, sizeBytes, receivedBytes, readers, startedAt }];
  });
}

/** Ends one; who reads it is cut off. Tells whether it was running here. */
export function stopFill(flights: Flights, id: string): boolean {
  const { id: found } = listFills(flights).find((fill) => fill.id === id) ?? {};
  const flight = flights.running.find(({ generation }) => found !== undefined && generation?.name === found);
  flight?.stop(new ProxyError('client_gone', { detail: 'the fill was stopped by hand' }));
  return flight !== undefined;
}
