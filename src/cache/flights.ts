/** Collapse: the exchanges with the origin that run for each key, and those who wait for them. */

import { ProxyError } from '../http/proxy-error.ts';
import type { StoredEntry } from '../store/store.ts';
import { untilAborted } from './abandonable.ts';
import type { Fill } from './fill.ts';
import type { Relay } from './representation.ts';

/** What an exchange came to once its head was there. */
export type Landing =
  /** The response is being stored; who asked for the same may read along. */
  | { readonly kind: 'fill'; readonly fill: Fill; readonly status: number }
  /** The stored entry was validated by a 304. */
  | { readonly kind: 'revalidated'; readonly entry: StoredEntry }
  /** The origin failed, by an error or with this status, and the stored entry may be served stale. */
  | { readonly kind: 'stale'; readonly entry: StoredEntry; readonly failure: ProxyError | number }
  /** The response may not be shared; it is for the one that started the flight alone. */
  | { readonly kind: 'relay'; readonly relay: Relay; readonly reason: string };

/** Asks the origin; the signal ends the exchange. Throws `ProxyError`. */
export type Exchange = (signal: AbortSignal) => Promise<Landing>;

/** One exchange with the origin, on its way or landed. */
export class Flight {
  readonly key: string;
  readonly #onAbort: 'finish' | 'stop';
  readonly #abort = new AbortController();
  readonly #landed: Promise<Landing>;
  #waiting = 0;
  #fill: Fill | undefined;
  #isInvalidated = false;

  constructor(key: string, onAbort: 'finish' | 'stop', exchange: Exchange) {
    this.key = key;
    this.#onAbort = onAbort;
    this.#landed = exchange(this.#abort.signal).then((landing) => {
      if (landing.kind === 'fill') this.#fill = landing.fill;
      if (this.#isInvalidated) this.#fill?.forbidCommit();
      return landing;
    });
  }

  /** Resolves when the response's head is there; rejects with the `ProxyError` of a failed exchange. */
  get landed(): Promise<Landing> {
    return this.#landed;
  }

  /** The fill, once it runs. */
  get fill(): Fill | undefined {
    return this.#fill;
  }

  /** Waits for the landing, until the one who waits leaves. When the last one leaves, a flight of a `stop` route ends. */
  async wait(signal: AbortSignal): Promise<Landing> {
    this.#waiting += 1;
    try {
      return await untilAborted(this.#landed, signal);
    } finally {
      this.#waiting -= 1;
      if (signal.aborted && this.#waiting === 0 && this.#onAbort === 'stop') this.#stop();
    }
  }

  /** Keeps what it brings from being stored, because the key was invalidated. */
  invalidate(): void {
    this.#isInvalidated = true;
    this.#fill?.forbidCommit();
  }

  #stop(): void {
    if (this.#fill === undefined) this.#abort.abort(new ProxyError('client_gone'));
    else this.#fill.stopUnlessRead();
  }
}

/** The flights of all keys. */
export class Flights {
  readonly #running = new Map<string, Set<Flight>>();
  /** Every fill that has not ended, those of invalidated keys too. */
  readonly #fills = new Set<Fill>();

  /** The flights of a key that a late request may join, the latest last. */
  of(key: string): readonly Flight[] {
    const flights = this.#running.get(key);
    return flights === undefined ? [] : [...flights].filter((flight) => flight.fill?.isJoinable !== false);
  }

  /** Starts a flight. It is listed until it has landed and, where it is a fill, until the fill has ended. */
  start(key: string, onAbort: 'finish' | 'stop', exchange: Exchange): Flight {
    const flight = new Flight(key, onAbort, exchange);
    const flights = this.#running.get(key) ?? new Set();
    this.#running.set(key, flights.add(flight));
    flight.landed.then(
      (landing) => this.#follow(flight, landing),
      () => this.#remove(flight),
    );
    return flight;
  }

  /** Keeps what is running for a key from being stored or joined. */
  invalidate(key: string): void {
    for (const flight of this.#running.get(key) ?? []) flight.invalidate();
    this.#running.delete(key);
  }

  /** Cuts every running fill off and waits until all have ended. */
  async stopAll(error: ProxyError): Promise<void> {
    for (const fill of this.#fills) fill.stop(error);
    await Promise.all([...this.#fills].map((fill) => fill.ended));
  }

  #follow(flight: Flight, landing: Landing): void {
    if (landing.kind !== 'fill') {
      this.#remove(flight);
      return;
    }
    const { fill } = landing;
    this.#fills.add(fill);
    void fill.ended.then(() => {
      this.#fills.delete(fill);
      this.#remove(flight);
    });
  }

  #remove(flight: Flight): void {
    const flights = this.#running.get(flight.key);
    if (flights?.delete(flight) === true && flights.size === 0) this.#running.delete(flight.key);
  }
}
