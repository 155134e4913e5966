/** Collapse: the exchanges with the origin that run for each key, and those who wait for them. */

import type { Fields } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { StoredEntry } from '../store/store.ts';
import { untilAborted } from './abandonable.ts';
import type { Generation } from './generation.ts';
import type { Inquiry } from './inquiry.ts';
import type { Relay, Representation } from './representation.ts';
import { Revocation } from './revocation.ts';

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
  | ({ readonly kind: 'generation'; readonly generation: Generation } & Personal)
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
  /** Whether the key was invalidated meanwhile: what the exchange brings may be read, but not be stored. */
  readonly isRevoked: boolean;
  /** Whether a response with these tags was, which has not landed yet. */
  isRevokedFor(tags: readonly string[] | undefined): boolean;
}

/** Who waits for a flight, and how long. */
export type Asking = Pick<Inquiry, 'client'> & { readonly request: Pick<Inquiry['request'], 'signal'> };

/** Asks the origin. Never rejects. */
export type Exchange = (clearance: Clearance) => Promise<Landing>;

/** One exchange with the origin, on its way or landed. */
export class Flight implements Clearance {
  readonly key: string;
  /** Resolves when the response's head is there, or is known not to come. */
  readonly landed: Promise<Landing>;
  /** Resolves when nothing of it is under way any more. */
  readonly ended: Promise<void>;
  readonly #onAbort: 'finish' | 'stop';
  readonly #reopens: string | undefined;
  readonly #abort = new AbortController();
  #landing: Landing | undefined;
  #newer: StoredResponse | undefined;
  #waiting = 0;
  readonly #revocation = new Revocation();

  /** `reopens` names the stored generation that the exchange is to open, where it is one. */
  constructor(key: string, onAbort: 'finish' | 'stop', exchange: Exchange, reopens?: string) {
    this.key = key;
    this.#onAbort = onAbort;
    this.#reopens = reopens;
    this.landed = exchange(this).then((landing) => {
      this.#landing = landing;
      if (this.#newer !== undefined) this.generation?.freshen(this.#newer);
      this.#revocation.settle(this.#tags);
      return landing;
    });
    this.ended = this.landed.then(async (landing) => {
      if (landing.kind === 'relay') await landing.kept?.done;
      if (landing.kind !== 'generation') return;
      const closed = landing.generation.run();
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

  isRevokedFor(tags: readonly string[] | undefined): boolean {
    return this.#revocation.concerns(tags);
  }

  /** The generation, once there is one. */
  get generation(): Generation | undefined {
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

  /** Whether there is still something to be had of it for a late request. */
  get isJoinable(): boolean {
    if (this.signal.aborted) return false;
    return this.#landing === undefined || this.generation?.isJoinable === true;
  }

  /** Waits for the landing, until the one who waits leaves. When the last one leaves, a flight of a `stop` route ends. */
  async wait({ client, request: { signal } }: Asking): Promise<Arrival> {
    if (this.#landing !== undefined) return arrive(this.#landing, client);
    const { tagCount } = this.#revocation;
    const arrival = this.landed.then((landing) =>
      this.#revocation.wasOverFor(tagCount) ? outdated : arrive(landing, client),
    );
    this.#waiting += 1;
    try {
      return await untilAborted(arrival, signal);
    } catch (error) {
      void arrival.then(leave);
      throw error;
    } finally {
      this.#waiting -= 1;
      const isWanted = this.#waiting > 0 || this.#landing !== undefined || this.#onAbort === 'finish';
      if (!isWanted) this.#abort.abort(new ProxyError('client_gone'));
    }
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

function arrive(landing: Landing, client: string): Arrival {
  return landing.kind === 'generation' ? { ...landing, representation: landing.generation.attach(client) } : landing;
}

function leave(arrival: Arrival): void {
  if (arrival.kind === 'generation') arrival.representation.close();
}

/** The flights of all keys. */
export class Flights {
  /** Every flight that has not ended, those of invalidated keys too. */
  readonly #running = new Set<Flight>();
  readonly #byKey = new Map<string, Set<Flight>>();
  /** What is asked for outside of flights, and its key. */
  readonly #watched = new Map<Revocation, string>();

  /** The flights of a key that a late request may join, the latest last. */
  of(key: string): readonly Flight[] {
    const flights = this.#byKey.get(key);
    return flights === undefined ? [] : [...flights].filter((flight) => flight.isJoinable);
  }

  /** Starts a flight; see `Flight`. It is listed until it has ended. */
  start(key: string, onAbort: 'finish' | 'stop', exchange: Exchange, reopens?: string): Flight {
    const heeded: Exchange = (clearance) => exchange(clearance).then((landing) => this.#heed(landing));
    const flight = new Flight(key, onAbort, heeded, reopens);
    this.#running.add(flight);
    const flights = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, flights.add(flight));
    void flight.ended.then(() => this.#remove(flight));
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
    const isHeld = [...this.#running].some((flight) => isOpenIn(flight) && flight.generation?.isClosed !== true);
    return isHeld ? 'held' : undefined;
  }

  /** Waits until a generation that may not be joined any more has let go of the store. */
  async released(name: string): Promise<void> {
    const open = [...this.#running].filter((flight) => flight.generation?.name === name);
    await Promise.all(open.map((flight) => flight.ended));
  }

  /** Those who read what is stored learn what has become of it. */
  #heed(landing: Landing): Landing {
    if (landing.kind === 'revalidated') for (const entry of [landing.entry, ...landing.alike]) this.freshen(entry);
    if (landing.kind === 'relay' && landing.outdated !== undefined) this.freshen(landing.outdated);
    return landing;
  }

  /** Gives a generation that is open the metadata that has become of it: freshened, or known to be outdated. */
  freshen({ generation: name, metadata }: StoredEntry): void {
    for (const flight of this.#running) if (flight.hasOpen(name)) flight.freshen(metadata);
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

  /** Keeps what is running from being stored or joined if it has, or turns out to have, this tag. */
  invalidateTagged(tag: string): void {
    for (const flight of this.#running) flight.revokeTagged(tag);
    for (const revocation of this.#watched.keys()) revocation.revokeTagged(tag);
  }

  /** Ends all that is running, and waits until it has ended. */
  async stopAll(error: ProxyError): Promise<void> {
    const running = [...this.#running];
    for (const flight of running) flight.stop(error);
    await Promise.all(running.map((flight) => flight.ended));
  }

  #remove(flight: Flight): void {
    this.#running.delete(flight);
    const flights = this.#byKey.get(flight.key);
    if (flights?.delete(flight) === true && flights.size === 0) this.#byKey.delete(flight.key);
  }
}
