/**
 * Runs a flight: one exchange with the origin for a key, its fetch result, and the requests that wait for it. A response that is
 * invalidated during the flight may be read, but is neither stored nor given to later requests. The exchange goes on when a waiting
 * client leaves; when the last one leaves, the fill policy decides.
 */

import type { Fields } from '../../http/fields.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { ChargedClients } from '../../origin/origin.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { Relay, Representation } from '../answer.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';
import type { UnreadTransfers } from '../fill/fill-scheduler.ts';
import type { Seat } from '../fill/readers.ts';
import { type FillPolicy, type Inquiry, isOpenEnded } from '../inquiry.ts';
import type { RequestMatcher } from '../lookup/lookup.ts';

/** The fields of a shared response that are only for the request that started the flight. */
interface Personal {
  readonly personal?: Fields;
}

/** A relayed response that is stored once it has been read. */
export interface Kept {
  readonly tags: readonly string[] | undefined;
  /** Resolves when it is stored, or will not be stored. */
  readonly done: Promise<void>;
}

/** The result of an exchange, once the response head has arrived. */
export type FetchResult =
  /** A generation is being filled. Other requests for the same may read it too. */
  | ({ readonly kind: 'generation'; readonly generation: OpenGeneration } & Personal)
  /**
   * The stored entry is current, by a 304, or a 200 with the same strong validator (`status`); so are the other entries (`alike`)
   * that the strong entity tag of a 304 names.
   */
  | ({
      readonly kind: 'revalidated';
      readonly entry: StoredEntry;
      readonly alike: readonly StoredEntry[];
      readonly status: number;
    } & Personal)
  /** A 304 validated a generation that another flight is filling, and that the store does not find yet. */
  | ({ readonly kind: 'confirmed'; readonly generation: OpenGeneration } & Personal)
  /** The response is only for the request that started the flight: it may not be shared, or only once it is stored. */
  | {
      readonly kind: 'relay';
      readonly relay: Relay;
      readonly reason: string;
      readonly kept?: Kept | undefined;
      /** The stored entry that is now known to be outdated. */
      readonly outdated?: StoredEntry | undefined;
    }
  /** The response, or the stored entry, is of no use to the request that started the flight. That request must be passed on. */
  | { readonly kind: 'unusable'; readonly reason: string }
  /** The origin failed with an error, or with a status where a stale response may be served; or a limit of `client` applied. */
  | { readonly kind: 'failed'; readonly failure: ProxyError | number; readonly client: string };

/** The result for one waiting request. It has a representation of its own, which the request must close. */
export type WaiterResult =
  | Exclude<FetchResult, { readonly generation: OpenGeneration }>
  | (Extract<FetchResult, { readonly generation: OpenGeneration }> & { readonly representation: Representation });

/** The limits of a running exchange: its signal, its lease, and invalidations. */
export interface Clearance {
  /** Ends the exchange. The reason is a `ProxyError`. */
  readonly signal: AbortSignal;
  /**
   * Whether the generation may be published before it is whole. Only where this process has the lease of the key: otherwise
   * another process could reopen the same generation for its absent bytes.
   */
  readonly mayPublish: boolean;
  /** Whether the response was invalidated meanwhile. It may then be read, but not stored. */
  readonly isRevoked: boolean;
  /** When the key was expired meanwhile, in epoch milliseconds. A 304 to a request from before that does not renew the entry. */
  readonly expiredAt: number | undefined;
  /** Checks whether a response with these tags, which has not become a fetch result yet, was invalidated meanwhile. */
  isRevokedFor(tags: readonly string[] | undefined): boolean;
  /** Sets the charged clients of the origin request that the flight now waits for: they include each client that joins. */
  awaitCharged(charged: ChargedClients): void;
  /** Runs a step that changes which responses are found. A purge waits for steps that began before it: see `Flights.settled`. */
  storing<T>(step: () => Promise<T>): Promise<T>;
}

/** A request that waits for a flight. */
type WaitingRequest = Pick<Inquiry, 'client' | 'request' | 'originFields'>;

/** Runs the exchange with the origin. Never rejects. */
export type ExchangeFunction = (clearance: Clearance) => Promise<FetchResult>;

/** Options of a flight. */
interface FlightOptions {
  readonly key: string;
  /** Decides whether the flight goes on when all waiting requests have left. */
  readonly unreadPolicy: Pick<FillPolicy, 'onAbort' | 'finishMaxPerClient'>;
  readonly unread: UnreadTransfers;
  readonly exchange: ExchangeFunction;
  /** Gets the fetch result before the waiting requests do. */
  readonly flights: { noteResult(result: FetchResult): void };
  /** The request that started it, where its response may be for equal requests only. */
  readonly leader: RequestMatcher | undefined;
  /** The name of the stored generation that the exchange reopens; undefined for other exchanges. */
  readonly reopens: string | undefined;
  readonly mayPublish: boolean;
  /** Epoch milliseconds. */
  readonly startedAt: number;
}

/** One exchange with the origin. The response head has been handled once its fetch result is known. */
export class Flight implements Clearance {
  readonly key: string;
  /** When it began, in epoch milliseconds. */
  readonly startedAt: number;
  readonly mayPublish: boolean;
  /** The request that started it; undefined where its response is known to be for every request that may wait. */
  readonly leader: RequestMatcher | undefined;
  /** Resolves when the response head has arrived, or is known not to arrive. */
  readonly fetchResult: Promise<FetchResult>;
  /** Resolves when the exchange, its fills and its storing are over. */
  readonly ended: Promise<void>;
  readonly #unreadPolicy: FlightOptions['unreadPolicy'];
  readonly #unread: UnreadTransfers;
  /** The client to which it is charged while it goes on unread. */
  #leftBy: string | undefined;
  readonly #reopens: string | undefined;
  readonly #abort = new AbortController();
  #result: FetchResult | undefined;
  #newer: StoredResponse | undefined;
  #expiredAt: number | undefined;
  /** The seats of the requests that wait for the result. */
  readonly #waiting = new Set<Seat>();
  #charged: ChargedClients | undefined;
  readonly #storing = new Steps();
  readonly #revocation = new Revocation();

  constructor(options: FlightOptions) {
    const { key, unreadPolicy, unread, exchange, flights, leader, reopens, mayPublish, startedAt } = options;
    this.key = key;
    this.leader = leader;
    this.startedAt = startedAt;
    this.mayPublish = mayPublish;
    this.#unreadPolicy = unreadPolicy;
    this.#unread = unread;
    this.#reopens = reopens;
    this.fetchResult = exchange(this).then((result) => {
      flights.noteResult(result);
      this.#result = result;
      if (this.#leftBy !== undefined) this.#unread.forget(this.#leftBy, this);
      if (this.#newer !== undefined) this.generation?.freshen(this.#newer);
      if (this.#expiredAt !== undefined) this.expire(this.#expiredAt);
      this.#revocation.settle(this.#tags);
      return result;
    });
    this.ended = this.fetchResult.then(async (result) => {
      if (result.kind === 'relay') await result.kept?.done;
      if (result.kind !== 'generation') return;
      const closed = result.generation.run(this.#waiting);
      if (this.signal.aborted) result.generation.stop(toProxyError(this.signal.reason));
      await closed;
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get isRevoked(): boolean {
    return this.#revocation.isRevokedFor();
  }

  get expiredAt(): number | undefined {
    return this.#expiredAt;
  }

  isRevokedFor(tags: readonly string[] | undefined): boolean {
    return this.#revocation.isRevokedFor(tags);
  }

  /** The generation, once the fetch result is one. */
  get generation(): OpenGeneration | undefined {
    return this.#result?.kind === 'generation' ? this.#result.generation : undefined;
  }

  /** The tags of the response that it stores. */
  get #tags(): readonly string[] | undefined {
    return this.#result?.kind === 'relay' ? this.#result.kept?.tags : this.generation?.response.tags;
  }

  /** Checks whether it has a generation of this name open, or is about to reopen it. */
  hasOpen(generation: string): boolean {
    return this.generation === undefined ? this.#reopens === generation : this.generation.name === generation;
  }

  /** Whether its response head has not arrived yet and no request waits for it. */
  get isUnread(): boolean {
    return this.#result === undefined && this.#waiting.size === 0;
  }

  /** Whether a later request may still join it. */
  get isJoinable(): boolean {
    if (this.signal.aborted) return false;
    if (this.#result !== undefined) return this.generation?.isJoinable === true;
    // A response requested before the expiry is too old for later requests. A stored entry may have been validated since.
    return this.#expiredAt === undefined || this.#reopens !== undefined;
  }

  /**
   * Waits for the result; rejects with the signal's reason when the client leaves. When the last waiting client leaves, the flight
   * ends if the policy is `stop`, or the client has too many unread transfers.
   */
  async wait(asking: WaitingRequest): Promise<WaiterResult> {
    const seat = { client: asking.client, isOpenEnded: isOpenEnded(asking) };
    if (this.#result !== undefined) return arrive(this.#result, seat);
    const { tagCount } = this.#revocation;
    const isExpired = this.#expiredAt !== undefined;
    const arrival = this.fetchResult.then((result) =>
      isExpired || this.#revocation.wasInvalidFor(tagCount) ? outdated : arrive(result, seat),
    );
    this.#waiting.add(seat);
    this.#charged?.onWanted?.(seat.client);
    try {
      return await untilAborted(arrival, asking.request.signal);
    } catch (error) {
      void arrival.then(leave);
      throw error;
    } finally {
      this.#waiting.delete(seat);
      if (this.isUnread && !this.#mayGoOnFor(asking.client)) this.#abort.abort(new ProxyError('client_gone'));
    }
  }

  #mayGoOnFor(client: string): boolean {
    const { onAbort, finishMaxPerClient } = this.#unreadPolicy;
    if (onAbort === 'stop') return false;
    this.#leftBy ??= client;
    return this.#unread.mayGoOn(this.#leftBy, this, finishMaxPerClient);
  }

  /** Waits as the request that started it. When its client leaves, a relay is closed, because only this request could read it. */
  async lead(asking: WaitingRequest): Promise<WaiterResult> {
    try {
      return await this.wait(asking);
    } catch (error) {
      this.abandonRelay();
      throw error;
    }
  }

  /** Closes the body of a relay as soon as the fetch result is known: only the request that started it could have read it. */
  abandonRelay(): void {
    void this.fetchResult.then((result) => {
      if (result.kind === 'relay') result.relay.response.body.close();
    });
  }

  /** Gives newer metadata to the generation that it has open or is about to reopen. */
  freshen(metadata: StoredResponse): void {
    this.#newer = metadata;
    this.generation?.freshen(metadata);
  }

  awaitCharged(charged: ChargedClients): void {
    const headClients = () => Array.from(this.#waiting, ({ client }) => client);
    charged.headClients = headClients;
    this.#charged = charged;
  }

  storing<T>(step: () => Promise<T>): Promise<T> {
    return this.#storing.take(step);
  }

  /** Waits for the storing steps that have begun. */
  settled(): Promise<void> {
    return this.#storing.settled();
  }

  /** Expires its response: it is still stored, and is validated before it is reused. A relay whose fetch result is known is not stored. */
  expire(expiredAt: number): void {
    this.#expiredAt = expiredAt;
    const { generation } = this;
    if (generation !== undefined) generation.freshen({ ...generation.response, expiredAt });
    else if (this.#result !== undefined) this.revoke();
  }

  /** As `expire`, if its generation has this tag. Without a generation, as `revokeTagged`. */
  expireTagged(tag: string, expiredAt: number): void {
    if (this.generation === undefined) this.revokeTagged(tag);
    else if (this.generation.response.tags?.includes(tag) === true) this.expire(expiredAt);
  }

  /** Keeps its response from being stored, because the key was invalidated. */
  revoke(): void {
    this.#revocation.revoke();
  }

  /** Keeps its response from being stored if it has this tag, or turns out to have it. */
  revokeTagged(tag: string): void {
    this.#revocation.revokeTagged(tag, this.#tags);
  }

  /** Ends it at once, before or after its fetch result is known. Clients reading its response are disconnected. */
  stop(error: ProxyError): void {
    this.#abort.abort(error);
    this.generation?.stop(error);
  }
}

/** The result for requests that joined after the invalidation of the response. */
const outdated: WaiterResult = { kind: 'unusable', reason: 'outdated' };

function arrive(result: FetchResult, seat: Seat): WaiterResult {
  if (!('generation' in result)) return result;
  // The flight that fills a confirmed generation may have ended just now.
  if (result.kind === 'confirmed' && result.generation.isClosed) return outdated;
  return { ...result, representation: result.generation.attach(seat) };
}

function leave(arrival: WaiterResult): void {
  if ('representation' in arrival) arrival.representation.close();
}

/** Records the invalidations that concern one exchange. */
export class Revocation {
  #isRevoked = false;
  /** The tags that were invalidated before the tags of the response were known, in order. Most often there are none. */
  #tags: Set<string> | undefined;
  #isSettled = false;
  /** The index of the first of these tags that the response has; -1 for none. */
  #firstOwn = -1;

  /** Records that its key was invalidated. */
  revoke(): void {
    this.#isRevoked = true;
  }

  /** Records that all responses with this tag were invalidated; `known` are the tags of the response, once they are known. */
  revokeTagged(tag: string, known: readonly string[] = []): void {
    if (!this.#isSettled) this.#tags = (this.#tags ?? new Set()).add(tag);
    else if (known.includes(tag)) this.#isRevoked = true;
  }

  /** Number of tags that were invalidated so far, while the tags of the response are not known. */
  get tagCount(): number {
    return this.#tags?.size ?? 0;
  }

  /** Checks whether a response has been invalidated since its request was sent. `tags` are its tags, where `settle` was not called yet. */
  isRevokedFor(tags: readonly string[] = []): boolean {
    return this.#isRevoked || tags.some((tag) => this.#tags?.has(tag) === true);
  }

  /** Sets the tags of the response, which has arrived. */
  settle(tags: readonly string[] = []): void {
    this.#isRevoked = this.isRevokedFor(tags);
    this.#firstOwn = [...(this.#tags ?? [])].findIndex((tag) => tags.includes(tag));
    this.#tags = undefined;
    this.#isSettled = true;
  }

  /** Checks whether the response was invalid already for a request that joined after `tagCount` tags had been invalidated. */
  wasInvalidFor(tagCount: number): boolean {
    return this.#firstOwn >= 0 && this.#firstOwn < tagCount;
  }
}

/** Storing steps that are running. */
export class Steps {
  #taken: Set<Promise<void>> | undefined;

  /** Runs a step and returns its promise. */
  take<T>(step: () => Promise<T>): Promise<T> {
    const taken = step();
    const over = (): void => void this.#taken?.delete(ended);
    const ended: Promise<void> = taken.then(over, over);
    this.#taken ??= new Set();
    this.#taken.add(ended);
    return taken;
  }

  /** Waits for the steps that have begun. Never rejects. */
  async settled(): Promise<void> {
    await Promise.all(this.#taken ?? []);
  }
}

/** Settles as the promise does, or rejects with the signal's reason as soon as the signal aborts. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    const stay = () => signal.removeEventListener('abort', leave);
    signal.addEventListener('abort', leave, { once: true });
    promise.then(
      (value) => {
        stay();
        resolve(value);
      },
      (thrown) => {
        stay();
        reject(thrown);
      },
    );
  });
}
