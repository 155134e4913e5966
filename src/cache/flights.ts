/** Collapse: the exchanges with the origin that run for each key, and those who wait for them. */

import { ProxyError } from '../http/proxy-error.ts';
import type { StoredEntry } from '../store/store.ts';
import { untilAborted } from './abandonable.ts';
import type { Fill } from './fill.ts';
import type { Relay, Representation } from './representation.ts';

/** What an exchange came to once its head was there. */
export type Landing =
  /** The response is to be stored; who asked for the same may read along. */
  | { readonly kind: 'fill'; readonly fill: Fill }
  /** The stored entry was validated by a 304. */
  | { readonly kind: 'revalidated'; readonly entry: StoredEntry }
  /** The response may not be shared; it is for the one that started the flight alone. */
  | { readonly kind: 'relay'; readonly relay: Relay; readonly reason: string }
  /** The origin failed: by an error, or by a status of its own where a stale response may be served instead. */
  | { readonly kind: 'failed'; readonly failure: ProxyError | number };

/** A landing for one of those who waited for it, with its own hold on the fill: it is theirs to close. */
export type Arrival =
  | Exclude<Landing, { kind: 'fill' }>
  | { readonly kind: 'fill'; readonly fill: Fill; readonly representation: Representation };

/** What an exchange has to respect while it runs. */
export interface Clearance {
  /** Ends the exchange, with a `ProxyError` for its reason. */
  readonly signal: AbortSignal;
  /** Whether the key was invalidated meanwhile: what the exchange brings may be read, but not be stored. */
  readonly isRevoked: boolean;
}

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
  readonly #abort = new AbortController();
  #landing: Landing | undefined;
  #waiting = 0;
  #isRevoked = false;

  constructor(key: string, onAbort: 'finish' | 'stop', exchange: Exchange) {
    this.key = key;
    this.#onAbort = onAbort;
    this.landed = exchange(this).then((landing) => {
      this.#landing = landing;
      return landing;
    });
    // A fill begins by waiting for its first byte; until that is there, all who waited for the landing are attached.
    this.ended = this.landed.then((landing) => (landing.kind === 'fill' ? landing.fill.run() : undefined));
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get isRevoked(): boolean {
    return this.#isRevoked;
  }

  /** The fill, once it runs. */
  get fill(): Fill | undefined {
    return this.#landing?.kind === 'fill' ? this.#landing.fill : undefined;
  }

  /** Whether there is still something to be had of it for a late request. */
  get isJoinable(): boolean {
    if (this.signal.aborted) return false;
    return this.#landing === undefined || this.fill?.isJoinable === true;
  }

  /** Waits for the landing, until the one who waits leaves. When the last one leaves, a flight of a `stop` route ends. */
  async wait(signal: AbortSignal): Promise<Arrival> {
    if (this.#landing !== undefined) return arrive(this.#landing);
    const arrival = this.landed.then(arrive);
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

  /** Keeps what it brings from being stored, because the key was invalidated. */
  revoke(): void {
    this.#isRevoked = true;
  }

  /** Ends it at once, in the air or landed; who reads what it brings is cut off. */
  stop(error: ProxyError): void {
    this.#abort.abort(error);
    this.fill?.stop(error);
  }
}

function arrive(landing: Landing): Arrival {
  return landing.kind === 'fill' ? { ...landing, representation: landing.fill.attach() } : landing;
}

function leave(arrival: Arrival): void {
  if (arrival.kind === 'fill') arrival.representation.close();
}

/** The flights of all keys. */
export class Flights {
  /** Every flight that has not ended, those of invalidated keys too. */
  readonly #running = new Set<Flight>();
  readonly #byKey = new Map<string, Set<Flight>>();

  /** The flights of a key that a late request may join, the latest last. */
  of(key: string): readonly Flight[] {
    const flights = this.#byKey.get(key);
    return flights === undefined ? [] : [...flights].filter((flight) => flight.isJoinable);
  }

  /** Starts a flight. It is listed until it has ended. */
  start(key: string, onAbort: 'finish' | 'stop', exchange: Exchange): Flight {
    const flight = new Flight(key, onAbort, exchange);
    this.#running.add(flight);
    const flights = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, flights.add(flight));
    void flight.ended.then(() => this.#remove(flight));
    return flight;
  }

  /** Keeps what is running for a key from being stored or joined. */
  invalidate(key: string): void {
    for (const flight of this.#byKey.get(key) ?? []) flight.revoke();
    this.#byKey.delete(key);
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
