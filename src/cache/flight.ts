/** One exchange with the origin for a key, what it comes to, and those who wait for it. */

import type { Fields } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { Errand } from '../origin/origin.ts';
import type { StoredEntry } from '../store/store.ts';
import { untilAborted } from './abandonable.ts';
import { isOpenEnded } from './asked.ts';
import type { Asker } from './asker.ts';
import type { FillPolicy } from './fill-policy.ts';
import type { Inquiry } from './inquiry.ts';
import type { OpenGeneration } from './opened.ts';
import type { Seat } from './readers.ts';
import type { Relay, Representation } from './representation.ts';
import { Revocation } from './revocation.ts';
import { Steps } from './steps.ts';
import type { UnreadTransfers } from './unread-transfers.ts';

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
export type Landing =
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

/** A landing for one of those who waited for it, with its own hold on the generation: it is theirs to close. */
export type Arrival =
  | Exclude<Landing, { kind: 'generation' }>
  | (Extract<Landing, { kind: 'generation' }> & { readonly representation: Representation });

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
export type Asking = Pick<Inquiry, 'client' | 'request' | 'originFields'>;

/** Asks the origin. Never rejects. */
export type Exchange = (clearance: Clearance) => Promise<Landing>;

/** What a flight is made with. */
export interface FlightOptions {
  readonly key: string;
  /** What becomes of it when all who wait for it have left. */
  readonly unreadPolicy: Pick<FillPolicy, 'onAbort' | 'finishMaxPerClient'>;
  readonly unread: UnreadTransfers;
  readonly exchange: Exchange;
  /** The request that has started it, where its response may be for equal requests only. */
  readonly leader: Asker | undefined;
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
  readonly leader: Asker | undefined;
  /** Resolves when the response's head is there, or is known not to come. */
  readonly landed: Promise<Landing>;
  /** Resolves when nothing of it is under way any more. */
  readonly ended: Promise<void>;
  readonly #unreadPolicy: FlightOptions['unreadPolicy'];
  readonly #unread: UnreadTransfers;
  /** The client that it goes on for unread. */
  #leftBy: string | undefined;
  readonly #reopens: string | undefined;
  readonly #abort = new AbortController();
  #landing: Landing | undefined;
  #newer: StoredResponse | undefined;
  #expiredAt: number | undefined;
  /** The seats of those who wait for the landing. */
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
    this.landed = exchange(this).then((landing) => {
      this.#landing = landing;
      if (this.#leftBy !== undefined) this.#unread.forget(this.#leftBy, this);
      if (this.#newer !== undefined) this.generation?.freshen(this.#newer);
      if (this.#expiredAt !== undefined) this.expire(this.#expiredAt);
      this.#revocation.settle(this.#tags);
      return landing;
    });
    this.ended = this.landed.then(async (landing) => {
      if (landing.kind === 'relay') await landing.kept?.done;
      if (landing.kind !== 'generation') return;
      const closed = landing.generation.run(this.#waiting);
      if (this.signal.aborted) landing.generation.stop(toProxyError(this.signal.reason));
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
    return this.#landing?.kind === 'generation' ? this.#landing.generation : undefined;
  }

  /** The tags of what it brings to the store. */
  get #tags(): readonly string[] | undefined {
    return this.#landing?.kind === 'relay' ? this.#landing.kept?.tags : this.generation?.response.tags;
  }

  /** Whether it has a generation of this name open, or is about to. */
  hasOpen(generation: string): boolean {
    return this.generation === undefined ? this.#reopens === generation : this.generation.name === generation;
  }

  /** Whether its head is still to come, and all who waited for it have left. */
  get isUnread(): boolean {
    return this.#landing === undefined && this.#waiting.size === 0;
  }

  /** Whether there is still something to be had of it for a late request. */
  get isJoinable(): boolean {
    if (this.signal.aborted) return false;
    if (this.#landing !== undefined) return this.generation?.isJoinable === true;
    // What it brings is too old for those who come now; what is stored may have been validated since.
    return this.#expiredAt === undefined || this.#reopens !== undefined;
  }

  /** Waits for the landing, until the one who waits leaves. When the last one leaves, a flight of a `stop` route ends. */
  async wait(asking: Asking): Promise<Arrival> {
    const seat = { client: asking.client, isOpenEnded: isOpenEnded(asking) };
    if (this.#landing !== undefined) return arrive(this.#landing, seat);
    const { tagCount } = this.#revocation;
    const isExpired = this.#expiredAt !== undefined;
    const arrival = this.landed.then((landing) =>
      isExpired || this.#revocation.wasOverFor(tagCount) ? outdated : arrive(landing, seat),
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
  async lead(asking: Asking): Promise<Arrival> {
    try {
      return await this.wait(asking);
    } catch (error) {
      this.abandonRelay();
      throw error;
    }
  }

  /** Gives back a response that only the one who has started it could have read, once it is there. */
  abandonRelay(): void {
    void this.landed.then((landing) => {
      if (landing.kind === 'relay') landing.relay.response.body.close();
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
    else if (this.#landing !== undefined) this.revoke();
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
const outdated: Arrival = { kind: 'unusable', reason: 'outdated' };

function arrive(landing: Landing, seat: Seat): Arrival {
  return landing.kind === 'generation' ? { ...landing, representation: landing.generation.attach(seat) } : landing;
}

function leave(arrival: Arrival): void {
  if (arrival.kind === 'generation') arrival.representation.close();
}
