/**
 * Collapses requests: knows the flights of each key, and selects the flight that a later request waits for instead of asking the
 * origin itself. Also lists and stops running fills for operators. Read this file first, then `flight.ts`, a single flight.
 */

import type { Span } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { ShortLivedMap, ShortLivedSet } from '../../http/collections.ts';
import { hasField } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import { readCacheControl } from '../../semantics/cache-control.ts';
import { ageTerms, freshnessLifetime, isStated } from '../../semantics/freshness.ts';
import { isForAll } from '../../semantics/reuse.ts';
import { conditionalFields } from '../../semantics/validator.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';
import { isBeyondLimit, refusalAppliesTo, type UnreadTransfers } from '../fill/fill-scheduler.ts';
import type { Fleet, InvalidationMessage, Lease } from '../fleet.ts';
import { type CachePolicy, type FillPolicy, type Inquiry, isHead, streamPace, wantsAll } from '../inquiry.ts';
import { decideReuseFor, type FetchPlan, mayBeServedTo, RequestMatcher } from '../lookup/lookup.ts';
import { type ExchangeFunction, type FetchResult, Flight, Revocation, Steps } from './flight.ts';

/** The dependencies of `Flights`. */
interface FlightsContext {
  readonly fleet: Pick<Fleet, 'hold'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly unread: UnreadTransfers;
}

/** The flights of all keys. */
export class Flights {
  readonly #context: FlightsContext;
  /** Every flight that has not ended, including those of invalidated keys. */
  readonly #running = new ShortLivedSet<Flight>();
  readonly #byKey = new ShortLivedMap<string, readonly Flight[]>();
  /** The revocations of exchanges outside of flights, and their keys. */
  readonly #watched = new Map<Revocation, string>();
  readonly #storing = new Steps();
  /** Why all flights were stopped; undefined before `stopAll`. */
  #stoppedBy: ProxyError | undefined;

  constructor(context: FlightsContext) {
    this.#context = context;
  }

  /** All flights that have not ended. */
  get running(): readonly Flight[] {
    return this.#running.all;
  }

  /** Returns the flights of a key that a later request may join, the latest last. */
  of(key: string): readonly Flight[] {
    return this.#byKey.get(key)?.filter((flight) => flight.isJoinable) ?? [];
  }

  /**
   * Starts a flight, which is listed until it has ended. Where this process has the lease of the key, the flight holds it as long.
   *
   * A request that goes to the origin for itself alone needs no lease. It opens a generation of its own, whose name no other process
   * knows before it is whole. Of two stored responses the later one stays (`commit`), in one process as in two.
   */
  start(
    key: string,
    unreadPolicy: Pick<FillPolicy, 'onAbort' | 'finishMaxPerClient'>,
    exchange: ExchangeFunction,
    { leader, reopens }: { readonly leader?: RequestMatcher; readonly reopens?: string } = {},
  ): Flight {
    const lease = this.#hold(key);
    const startedAt = this.#context.clock.now();
    const mayPublish = lease !== undefined;
    const { unread } = this.#context;
    const options = { key, unreadPolicy, unread, exchange, leader, reopens, mayPublish, startedAt };
    const flight = new Flight({ ...options, flights: this });
    if (this.#stoppedBy !== undefined) flight.stop(this.#stoppedBy);
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
   * Returns the joinable flight that has a generation open or is about to reopen it. `held`: the flight that has it cannot be joined,
   * and has not released the store. Undefined where no flight has it.
   */
  holderOf(key: string, name: string): Flight | 'held' | undefined {
    const isOpenIn = (flight: Flight) => flight.hasOpen(name);
    const joinable = this.of(key).find(isOpenIn);
    if (joinable !== undefined) return joinable;
    const isHeld = this.running.some((flight) => isOpenIn(flight) && flight.generation?.isClosed !== true);
    return isHeld ? 'held' : undefined;
  }

  /** Waits until the flights that have a generation open have ended, and so have released the store. */
  async released(name: string): Promise<void> {
    const open = this.running.filter((flight) => flight.generation?.name === name);
    await Promise.all(open.map((flight) => flight.ended));
  }

  /**
   * Returns the latest generation that arrives for a request and that the store does not find yet (`found` are the entries that it
   * finds). To validate it in place of the stored response that it will replace keeps a body from being fetched twice.
   */
  arrivingFor(inquiry: Inquiry, found: readonly StoredEntry[]): OpenGeneration | undefined {
    const arriving = this.of(inquiry.key).flatMap(({ generation }) => generation ?? []);
    return arriving.findLast(({ name, response }) => {
      const isFound = found.some(({ generation }) => generation === name);
      return !isFound && conditionalFields(response).length > 0 && mayBeServedTo(response, inquiry);
    });
  }

  /** Passes changed metadata of stored entries on to the flights that have their generations open. */
  noteResult(result: FetchResult): void {
    if (result.kind === 'revalidated') for (const entry of [result.entry, ...result.alike]) this.freshen(entry);
    if (result.kind === 'relay' && result.outdated !== undefined) this.freshen(result.outdated);
  }

  /** Checks whether a flight of this key runs whose response may be stored. */
  isRunning(key: string): boolean {
    return this.#byKey.has(key);
  }

  /** Gives changed metadata to the open generation of an entry: freshened, or known to be outdated. */
  freshen({ generation: name, metadata }: StoredEntry): void {
    for (const flight of this.running) if (flight.hasOpen(name)) flight.freshen(metadata);
  }

  /** Records invalidations until disposal, for an exchange outside of flights whose response may be given to a flight. */
  recordInvalidations(key: string): Revocation & Disposable {
    const revocation = new Revocation();
    this.#watched.set(revocation, key);
    return Object.assign(revocation, { [Symbol.dispose]: () => void this.#watched.delete(revocation) });
  }

  /** Keeps the running flights of a key from being stored or joined. */
  invalidate(key: string): void {
    this.#revoke(key);
    for (const [revocation, watched] of this.#watched) if (watched === key) revocation.revoke();
  }

  /**
   * As `invalidate`, for all keys with one of the prefixes too, and `invalidateTagged`, for flights only: the recorded exchanges
   * include the one that invalidates.
   */
  invalidateFlights({ keys, prefixes, tags }: Extract<InvalidationMessage, { kind: 'invalidated' }>): void {
    for (const key of keys) this.#revoke(key);
    const begun = (key: string) => prefixes.some((prefix) => key.startsWith(prefix));
    if (prefixes.length > 0) for (const key of [...this.#byKey.keys()].filter(begun)) this.#revoke(key);
    for (const tag of tags) for (const flight of this.running) flight.revokeTagged(tag);
  }

  /** As `invalidate`, for all keys for which `holds` returns true. */
  invalidateWhere(holds: (key: string) => boolean): void {
    for (const key of this.#keysWhere(holds)) this.invalidate(key);
  }

  /** Keeps running flights from being stored or joined if their response has, or turns out to have, this tag. */
  invalidateTagged(tag: string): void {
    for (const flight of this.running) flight.revokeTagged(tag);
    for (const revocation of this.#watched.keys()) revocation.revokeTagged(tag);
  }

  /** Expires the responses of running flights of a key: they are validated before later requests get them. `expiredAt` is now. */
  expire(key: string, expiredAt: number): void {
    for (const flight of this.#byKey.get(key) ?? []) flight.expire(expiredAt);
    for (const [revocation, watched] of this.#watched) if (watched === key) revocation.revoke();
  }

  /** As `expire`, for all keys for which `holds` returns true. */
  expireWhere(holds: (key: string) => boolean, expiredAt: number): void {
    for (const key of this.#keysWhere(holds)) this.expire(key, expiredAt);
  }

  /** As `expire`, for responses with this tag. */
  expireTagged(tag: string, expiredAt: number): void {
    for (const flight of this.running) flight.expireTagged(tag, expiredAt);
    for (const revocation of this.#watched.keys()) revocation.revokeTagged(tag);
  }

  /** Runs a step outside of flights that changes which responses are found; see `Clearance.storing`. */
  storing<T>(step: () => Promise<T>): Promise<T> {
    return this.#storing.take(step);
  }

  /** Waits for the storing steps that have begun. A response that was invalidated before the call does not become findable later. */
  async settled(): Promise<void> {
    await Promise.all([this.#storing, ...this.running].map((each) => each.settled()));
  }

  #revoke(key: string): void {
    for (const flight of this.#byKey.get(key) ?? []) flight.revoke();
    this.#byKey.delete(key);
  }

  #keysWhere(holds: (key: string) => boolean): readonly string[] {
    const keys = new Set([...this.#byKey.keys(), ...this.#watched.values()]);
    return [...keys].filter(holds);
  }

  /** Ends all running flights, and those that begin later: a request may try again when its flight ends. Waits until none runs. */
  async stopAll(error: ProxyError): Promise<void> {
    this.#stoppedBy = error;
    for (const flight of this.running) flight.stop(error);
    while (this.running.length > 0) await Promise.all(this.running.map((flight) => flight.ended));
  }

  #hold(key: string): Lease | undefined {
    const held = this.#context.fleet.hold(key);
    if (!(held instanceof Promise)) return held;
    // The lease is being acquired for another request. This flight starts without waiting for it.
    void held.then((lease) => lease?.release());
    return undefined;
  }

  /** Keeps later requests from joining a flight, which may have been unlisted already. */
  #unlist(flight: Flight): void {
    const others = this.#byKey.get(flight.key)?.filter((other) => other !== flight);
    if (others === undefined || others.length === 0) this.#byKey.delete(flight.key);
    else this.#byKey.set(flight.key, others);
  }
}

/**
 * Returns the flight that a request waits for; undefined where it starts its own. `flights` are those of its key that it has not
 * tried yet. `isBound`: the responses of the key are for equal requests only. The request then waits for equal requests only;
 * otherwise all requests would wait for each other in turn.
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
  // A request that demands a validation gets one that is sent after it came: see `Rounds`.
  const mayWait = plan.kind === 'fill' || (plan.reason !== 'request' && isShareable(plan.entry.metadata, policy));
  const isForEquals = isBound || (plan.kind === 'revalidate' && !isForAll(plan.entry.metadata, policy));
  const matcher = new RequestMatcher(inquiry);
  return flights.findLast(({ generation, leader }) => {
    if (generation !== undefined) return mayJoinGeneration(generation, inquiry, now);
    return mayWait && (!isForEquals || leader === undefined || leader.isEqualTo(matcher));
  });
}

/**
 * Whether a later request may join an open generation of its variant, by the rules for stored responses (RFC 9111 §4). Where the
 * origin says nothing about freshness, an arriving response counts as current for some seconds: it is fetched once for all requests.
 * After that, a request for all of it could begin with the past of a live stream, be it plain, or `bytes=0-` where it comes no faster
 * than a stream.
 */
function mayJoinGeneration(
  { response, received }: Pick<OpenGeneration, 'response' | 'received'>,
  inquiry: Inquiry,
  now: number,
): boolean {
  if (!mayBeServedTo(response, inquiry)) return false;
  const sinceMs = now - response.responseAt;
  const isCurrent = sinceMs < currentMs;
  const isOfNone = () => freshnessLifetime(response, inquiry.policy).source === 'none';
  const reuse = decideReuseFor(inquiry, response, now);
  const isSlow = () => received < sinceMs * streamPace;
  if (reuse.kind !== 'validate') return isCurrent || !wantsAll(inquiry) || !isSlow() || !isOfNone();
  if (reuse.reason !== 'stale' || response.isInvalid === true || response.expiredAt !== undefined) return false;
  return isCurrent && isOfNone();
}

/** How long a response without any freshness counts as current from its head on, in milliseconds. */
const currentMs = 5_000;

/** Checks whether a response may be given to a request that has waited for it. */
export function mayShareWithWaiter(response: StoredResponse, inquiry: Inquiry, now: number): boolean {
  return mayBeServedTo(response, inquiry) && isShareable(response, inquiry.policy) && !isTooOld(response, inquiry, now);
}

/**
 * Whether a response was too old to be reused when it arrived, by the Age of another cache. The response time of the origin does
 * not count, because the origin was asked on behalf of all waiting requests.
 */
function isTooOld(response: StoredResponse, inquiry: Inquiry, now: number): boolean {
  const { lifetimeMs, source } = freshnessLifetime(response, inquiry.policy);
  if (!isStated(source) || ageTerms(response, now).ageFieldMs < lifetimeMs) return false;
  return decideReuseFor(inquiry, response, now).kind === 'validate';
}

/**
 * Whether a response may go to several requests that waited for it together (RFC 9111 §4). Not when the origin wants to be asked
 * each time, by no-cache (§5.2.2.4) or a lifetime of 0: its response may depend on the client.
 */
function isShareable(response: StoredResponse, policy: CachePolicy): boolean {
  const control = readCacheControl(response.fields, policy);
  if (control.noCache === true) return false;
  const { lifetimeMs, source } = freshnessLifetime(response, policy, control);
  return lifetimeMs > 0 || !isStated(source);
}

/**
 * Names the round that a request takes part in where no flight that runs may serve it. Requests of one name may get the response to
 * one exchange, if they came before it was sent. Undefined for a HEAD where nothing is stored: a HEAD brings nothing to share.
 */
export function roundName(inquiry: Inquiry, plan: FetchPlan): string | undefined {
  const { key, policy } = inquiry;
  if (plan.kind === 'fill')
    return isHead(inquiry) ? undefined : JSON.stringify([key, new RequestMatcher(inquiry).identity.digest]);
  const { metadata, variant } = plan.entry;
  const who = isValidatedForAll(metadata, policy) ? [] : [new RequestMatcher(inquiry).identity.digest];
  return JSON.stringify([key, variant, ...who]);
}

/** Checks whether a response may be given to a request that came before the exchange was sent. `leader` is the request that was sent. */
export function mayShareInRound(response: StoredResponse, inquiry: Inquiry, leader: RequestMatcher): boolean {
  const matcher = new RequestMatcher(inquiry);
  return matcher.isFor(response) && (isValidatedForAll(response, inquiry.policy) || matcher.isEqualTo(leader));
}

/**
 * Whether one validation of a response may serve clients with different identities. An origin that wants to be asked each time may
 * do so to check the credentials of each client; that it does not is stated by `public` only.
 */
function isValidatedForAll(response: StoredResponse, policy: CachePolicy): boolean {
  return isShareable(response, policy) ? isForAll(response, policy) : readCacheControl(response.fields, policy).public;
}

/** Checks whether the next flight, too, would probably bring nothing to the requests that wait for it. */
export function isWaitingPointless(result: FetchResult, inquiry: Inquiry, now: number): boolean {
  const { originFields, policy, rangeSupport } = inquiry;
  const isVainFor = (response: StoredResponse) => !isShareable(response, policy) || isTooOld(response, inquiry, now);
  switch (result.kind) {
    case 'generation':
    case 'confirmed':
      return isVainFor(result.generation.response);
    case 'unusable':
      return true;
    case 'revalidated':
      return isVainFor(result.entry.metadata);
    case 'relay':
      // The first part has shown whether parts can be combined. If they can, one exchange serves many requests.
      if (result.reason === 'part') return !rangeSupport.isKnown;
      // A response that Authorization kept from being shared may be shared by requests without Authorization.
      return result.reason !== 'authorization' || hasField(originFields, 'authorization');
    case 'failed':
      return !isLeaderLimit(result, inquiry);
  }
}

/** Checks whether a flight failed by a limit of the client that started it, which does not apply to the client that waited. */
export function isLeaderLimit(result: FetchResult, { client }: Pick<Inquiry, 'client'>): boolean {
  if (result.kind !== 'failed' || !(result.failure instanceof ProxyError)) return false;
  return isBeyondLimit(result.failure) && !refusalAppliesTo(client, result.failure, result.client);
}

/** A generation with a running fill. */
export interface RunningFill {
  /** Unique among the fills of all processes. */
  readonly id: string;
  readonly key: string;
  readonly generation: string;
  readonly sizeBytes: number | undefined;
  /** Bytes that the origin has sent since the generation was opened. */
  readonly receivedBytes: number;
  readonly readers: number;
  /** When its exchange began, in epoch milliseconds. */
  readonly startedAt: number;
}

/** Lists the running fills, the oldest first. A generation is open in one process at a time, so its name identifies its fill. */
export function listFills(flights: Flights): readonly RunningFill[] {
  return flights.running.flatMap(({ key, startedAt, generation }) => {
    if (generation === undefined || generation.outlook.fills.length === 0) return [];
    const { name, sizeBytes, received: receivedBytes, readerCount: readers } = generation;
    return [{ id: name, key, generation: name, sizeBytes, receivedBytes, readers, startedAt }];
  });
}

/** Returns the spans that running fills of a generation still have to bring, as far as their ends are known. */
export function listArriving(flights: Flights, name: string): readonly Span[] {
  return flights.running.flatMap(({ generation }) => {
    if (generation?.name !== name) return [];
    const { fills, sizeBytes = Number.POSITIVE_INFINITY } = generation.outlook;
    return fills
      .map(({ keptTo, limit }) => ({ start: keptTo, end: Math.min(limit, sizeBytes) }))
      .filter(({ start, end }) => start < end && Number.isFinite(end));
  });
}

/** Stops a fill; clients reading it are disconnected. Returns whether it was running in this process. */
export function stopFill(flights: Flights, id: string): boolean {
  const { id: found } = listFills(flights).find((fill) => fill.id === id) ?? {};
  const flight = flights.running.find(({ generation }) => found !== undefined && generation?.name === found);
  flight?.stop(new ProxyError('client_gone', { detail: 'the fill was stopped by hand' }));
  return flight !== undefined;
}
