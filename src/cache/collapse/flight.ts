/**
 * One exchange with the origin for a key, its result, and the requests that wait for it. What is invalidated while it runs
 * may be read, but is neither stored nor given to later requests. The exchange goes on when a waiting client leaves; it
 * ends when the last one leaves and the route says so.
 */

import type { Fields } from '../../http/fields.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Errand } from '../../origin/origin.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { Relay, Representation } from '../answer.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';
import type { UnreadTransfers } from '../fill/fill-scheduler.ts';
import type { Seat } from '../fill/readers.ts';
import { type FillPolicy, type Inquiry, isOpenEnded } from '../inquiry.ts';
import type { RequestMatcher } from '../lookup/lookup.ts';

/** What of a response is for the one that started the flight alone, though the rest is shared. */
interface Personal {
  readonly personal?: Fields;
}

/** What is stored of a relay once it has been read. */
export interface Kept {
  readonly tags: readonly string[] | undefined;
  /** Resolves when it is stored, or will not be. */
  readonly done: Promise<void>;
}

/** What an exchange came to once its head was there. */
export type FetchResult =
  /** The generation is being put together; who asked for the same may read along. */
  | ({ readonly kind: 'generation'; readonly generation: OpenGeneration } & Personal)
  /** The stored entry was validated by a 304, and so were others of the same name that `alike` holds. */
  | ({
      readonly kind: 'revalidated';
      readonly entry: StoredEntry;
      readonly alike: readonly StoredEntry[];
    } & Personal)
  /** The response may not be shared, or only once it is stored; it is for the one that started the flight alone. */
  | {
      readonly kind: 'relay';
      readonly relay: Relay;
      readonly reason: string;
      readonly kept?: Kept | undefined;
      /** What is stored, and known not to be current any more. */
      readonly outdated?: StoredEntry | undefined;
    }
  /** What came, or is stored, is of no use to the one that started the flight: its request is to be passed on. */
  | { readonly kind: 'unusable'; readonly reason: string }
  /** The origin failed: by an error, or by a status of its own where a stale response may be served; or a limit of this client. */
  | { readonly kind: 'failed'; readonly failure: ProxyError | number; readonly client: string };

/** A result for one of those who waited for it, with its own hold on the generation: it is theirs to close. */
export type WaiterResult =
  | Exclude<FetchResult, { kind: 'generation' }>
  | (Extract<FetchResult, { kind: 'generation' }> & { readonly representation: Representation });

/** What an exchange has to respect while it runs. */
export interface Clearance {
  /** Ends the exchange, with a `ProxyError` for its reason. */
  readonly signal: AbortSignal;
  /**
   * Whether what the exchange brings may be found before it is whole: only where this process has the lease of the key, so
   * that no other one opens the same generation to complete it.
   */
  readonly mayPublish: boolean;
  /** Whether the key was invalidated meanwhile: what the exchange brings may be read, but not be stored. */
  readonly isRevoked: boolean;
  /** Set where what is stored under the key was expired meanwhile, in epoch milliseconds: what validates it was asked for before. */
  readonly expiredAt: number | undefined;
  /** Whether a response with these tags was, which has not landed yet. */
  isRevokedFor(tags: readonly string[] | undefined): boolean;
  /** Names the request that all who wait are waiting for now. It is told of those who come to wait. */
  awaitErrand(errand: Errand): void;
  /** Takes a step that makes something findable; who purges waits for those that were begun before: see `Flights.settled`. */
  storing<T>(step: () => Promise<T>): Promise<T>;
}

/** Who waits for a flight, how long, and what for. */
type WaitingRequest = Pick<Inquiry, 'client' | 'request' | 'originFields'>;

/** Asks the origin. Never rejects. */
export type ExchangeFunction = (clearance: Clearance) => Promise<FetchResult>;

/** What a flight is made with. */
interface FlightOptions {
  readonly key: string;
  /** What becomes of it when all who wait for it have left. */
  readonly unreadPolicy: Pick<FillPolicy, 'onAbort' | 'finishMaxPerClient'>;
  readonly unread: UnreadTransfers;
  readonly exchange: ExchangeFunction;
  /** The request that has started it, where its response may be for equal requests only. */
  readonly leader: RequestMatcher | undefined;
  /** The stored generation that the exchange is to open, where it is one. */
  readonly reopens: string | undefined;
  readonly mayPublish: boolean;
  /** Epoch milliseconds. */
  readonly startedAt: number;
}

/** One exchange with the origin, on its way or landed. */
export class Flight implements Clearance {
  readonly key: string;
  /** When it began, in epoch milliseconds. */
  readonly startedAt: number;
  readonly mayPublish: boolean;
  /** The request that has started it; undefined where what it brings is known to be for those who may wait. */
  readonly leader: RequestMatcher | undefined;
  /** Resolves when the response's head is there, or is known not to come. */
  readonly landed: Promise<FetchResult>;
  /** Resolves when nothing of it is under way any more. */
  readonly ended: Promise<void>;
  readonly #unreadPolicy: FlightOptions['unreadPolicy'];
  readonly #unread: UnreadTransfers;
  /** The client that it goes on for unread. */
  #leftBy: string | undefined;
  readonly #reopens: string | undefined;
  readonly #abort = new AbortController();
  #result: FetchResult | undefined;
  #newer: StoredResponse | undefined;
  #expiredAt: number | undefined;
  /** The seats of those who wait for the result. */
  readonly #waiting = new Set<Seat>();
  #errand: Errand | undefined;
  readonly #storing = new Steps();
  readonly #revocation = new Revocation();

  constructor(options: FlightOptions) {
    const { key, unreadPolicy, unread, exchange, leader, reopens, mayPublish, startedAt } = options;
    this.key = key;
    this.leader = leader;
    this.startedAt = startedAt;
    this.mayPublish = mayPublish;
    this.#unreadPolicy = unreadPolicy;
    this.#unread = unread;
    this.#reopens = reopens;
    this.landed = exchange(this).then((result) => {
      this.#result = result;
      if (this.#leftBy !== undefined) this.#unread.forget(this.#leftBy, this);
      if (this.#newer !== undefined) this.generation?.freshen(this.#newer);
      if (this.#expiredAt !== undefined) this.expire(this.#expiredAt);
      this.#revocation.settle(this.#tags);
      return result;
    });
    this.ended = this.landed.then(async (result) => {
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
    return this.#revocation.concerns();
  }

  get expiredAt(): number | undefined {
    return this.#expiredAt;
  }

  isRevokedFor(tags: readonly string[] | undefined): boolean {
    return this.#revocation.concerns(tags);
  }

  /** The generation, once there is one. */
  get generation(): OpenGeneration | undefined {
    return this.#result?.kind === 'generation' ? this.#result.generation : undefined;
  }

  /** The tags of what it brings to the store. */
  get #tags(): readonly string[] | undefined {
    return this.#result?.kind === 'relay' ? this.#result.kept?.tags : this.generation?.response.tags;
  }

  /** Whether it has a generation of this name open, or is about to. */
  hasOpen(generation: string): boolean {
    return this.generation === undefined ? this.#reopens === generation : this.generation.name === generation;
  }

  /** Whether its head is still to come, and all who waited for it have left. */
  get isUnread(): boolean {
    return this.#result === undefined && this.#waiting.size === 0;
  }

  /** Whether there is still something to be had of it for a late request. */
  get isJoinable(): boolean {
    if (this.signal.aborted) return false;
    if (this.#result !== undefined) return this.generation?.isJoinable === true;
    // What it brings is too old for those who come now; what is stored may have been validated since.
    return this.#expiredAt === undefined || this.#reopens !== undefined;
  }

  /** Waits for the result, until the one who waits leaves. When the last one leaves, a flight of a `stop` route ends. */
  async wait(asking: WaitingRequest): Promise<WaiterResult> {
    const seat = { client: asking.client, isOpenEnded: isOpenEnded(asking) };
    if (this.#result !== undefined) return arrive(this.#result, seat);
    const { tagCount } = this.#revocation;
    const isExpired = this.#expiredAt !== undefined;
    const arrival = this.landed.then((result) =>
      isExpired || this.#revocation.wasOverFor(tagCount) ? outdated : arrive(result, seat),
    );
    this.#waiting.add(seat);
    this.#errand?.onWanted?.(seat.client);
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

  /** Waits as the one who has started it. A response for that one alone is not left unread when its client goes. */
  async lead(asking: WaitingRequest): Promise<WaiterResult> {
    try {
      return await this.wait(asking);
    } catch (error) {
      this.abandonRelay();
      throw error;
    }
  }

  /** Gives back a response that only the one who has started it could have read, once it is there. */
  abandonRelay(): void {
    void this.landed.then((result) => {
      if (result.kind === 'relay') result.relay.response.body.close();
    });
  }

  /** Gives the generation that it has open, or is about to, metadata that is newer. */
  freshen(metadata: StoredResponse): void {
    this.#newer = metadata;
    this.generation?.freshen(metadata);
  }

  awaitErrand(errand: Errand): void {
    const askers = () => Array.from(this.#waiting, ({ client }) => client);
    errand.askers = askers;
    this.#errand = errand;
  }

  storing<T>(step: () => Promise<T>): Promise<T> {
    return this.#storing.take(step);
  }

  /** Waits for the steps of storing that have been begun. */
  settled(): Promise<void> {
    return this.#storing.settled();
  }

  /** Ends the lifetime of what it brings: that is stored, and validated before it is given to others. */
  expire(expiredAt: number): void {
    this.#expiredAt = expiredAt;
    const { generation } = this;
    if (generation !== undefined) generation.freshen({ ...generation.response, expiredAt });
    else if (this.#result !== undefined) this.revoke();
  }

  /** As `expire`, if it has this tag. What is not known to have it yet is not stored if it turns out to. */
  expireTagged(tag: string, expiredAt: number): void {
    if (this.generation === undefined) this.revokeTagged(tag);
    else if (this.generation.response.tags?.includes(tag) === true) this.expire(expiredAt);
  }

  /** Keeps what it brings from being stored, because the key was invalidated. */
  revoke(): void {
    this.#revocation.revoke();
  }

  /** Keeps what it brings from being stored if it has this tag. */
  revokeTagged(tag: string): void {
    this.#revocation.revokeTagged(tag, this.#tags);
  }

  /** Ends it at once, in the air or landed; who reads what it brings is cut off. */
  stop(error: ProxyError): void {
    this.#abort.abort(error);
    this.generation?.stop(error);
  }
}

/** What is invalid already for those who have come since, though it is on its way. */
const outdated: WaiterResult = { kind: 'unusable', reason: 'outdated' };

function arrive(result: FetchResult, seat: Seat): WaiterResult {
  return result.kind === 'generation' ? { ...result, representation: result.generation.attach(seat) } : result;
}

function leave(arrival: WaiterResult): void {
  if (arrival.kind === 'generation') arrival.representation.close();
}

/** Notes the invalidations that concern one exchange. */
export class Revocation {
  #isRevoked = false;
  /** What was invalidated before it was known which tags the response has, in order; none is most often. */
  #tags: Set<string> | undefined;
  #isSettled = false;
  #firstOwn = -1;

  /** Its key was invalidated. */
  revoke(): void {
    this.#isRevoked = true;
  }

  /** Everything that has this tag was invalidated; `known` are the tags of the response once they are known. */
  revokeTagged(tag: string, known: readonly string[] = []): void {
    if (!this.#isSettled) this.#tags = (this.#tags ?? new Set()).add(tag);
    else if (known.includes(tag)) this.#isRevoked = true;
  }

  /** How many tags were invalidated as long as it was not known which ones the response has. */
  get tagCount(): number {
    return this.#tags?.size ?? 0;
  }

  /** Whether a response with these tags, if they are not known yet, has been invalidated since it was asked for. */
  concerns(tags: readonly string[] = []): boolean {
    return this.#isRevoked || tags.some((tag) => this.#tags?.has(tag) === true);
  }

  /** The response has come, and has these tags. */
  settle(tags: readonly string[] = []): void {
    this.#isRevoked = this.concerns(tags);
    this.#firstOwn = [...(this.#tags ?? [])].findIndex((tag) => tags.includes(tag));
    this.#tags = undefined;
    this.#isSettled = true;
  }

  /** Whether the response was invalid already for those who came when so many tags were invalidated. */
  wasOverFor(tagCount: number): boolean {
    return this.#firstOwn >= 0 && this.#firstOwn < tagCount;
  }
}

/** The steps that are being taken. */
export class Steps {
  #taken: Set<Promise<void>> | undefined;

  /** Takes a step. */
  take<T>(step: () => Promise<T>): Promise<T> {
    const taken = step();
    const over = (): void => void this.#taken?.delete(ended);
    const ended: Promise<void> = taken.then(over, over);
    this.#taken ??= new Set();
    this.#taken.add(ended);
    return taken;
  }

  /** Waits for those that have been begun. Never rejects. */
  async settled(): Promise<void> {
    await Promise.all(this.#taken ?? []);
  }
}

/** The promise, or a rejection with the signal's reason as soon as it is aborted. */
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
