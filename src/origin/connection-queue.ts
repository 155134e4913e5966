/** Queues requests that wait for a connection: clients take turns, and no client holds more than its share of the connections. */

import { ProxyError } from '../http/proxy-error.ts';
import type { ChargedClients } from './origin.ts';

/** The maximum numbers of running requests. */
export interface QueueRules {
  /** Of all clients together. */
  readonly connections: number;
  /** Of one client; called each time that a request may begin. */
  readonly perClient: () => number;
}

type Send = (refusal?: ProxyError) => void;

/** The place of one request in the queue. */
export interface Turn {
  /**
   * Calls `send` once, when there is a connection for the request: within this call if one is free. Not after `leave`. With a
   * refusal where the client may not begin the transfer any more (`ChargedClients.whyNotBegin`).
   */
  begin(send: Send): void;
  /** Called when the request is over or no longer wanted. A second call does nothing. */
  leave(): void;
}

/** A client; undefined stands for requests that no client has caused. These have no maximum share. */
type Client = string | undefined;

/**
 * Queues requests in front of a pool. The pool itself would keep every request until its turn: a request that was given up would
 * still take a connection then, and delay others.
 *
 * A client holds at most its share of the connections, even while others are idle: it may hold them for long, and a later client
 * must find one. Waiting clients take turns; at each turn the oldest request of the client gets a connection. A request that several
 * clients want waits in the line of each of them, so that no client waits for the share of another.
 */
export class ConnectionQueue {
  readonly #rules: QueueRules;
  /** The waiting requests of each client. The first client has the next turn. */
  readonly #lines = new Map<Client, Set<Place>>();
  /** The number of connections that each client holds. */
  readonly #held = new Map<Client, number>();
  /** The spare requests that hold a connection and have not been told to give it up, the latest last. */
  readonly #spare = new Set<Place>();
  #busy = 0;

  constructor(rules: QueueRules) {
    this.#rules = rules;
  }

  /** Takes a place in the queue. Its connection counts for the client that began the transfer, or for another client of it that had an earlier turn. */
  join(charged?: ChargedClients): Turn {
    return new Place(this, charged);
  }

  /** Takes a connection for a client where one is free and no request waits; returns whether it did. */
  takeFree(client: Client): boolean {
    if (this.#lines.size > 0 || this.#busy >= this.#rules.connections) return false;
    if (client !== undefined && this.#heldBy(client) >= this.#rules.perClient()) return false;
    this.#hold(client);
    return true;
  }

  /** Takes a connection as `takeFree` does, if half of all connections, and half of the share of the client, stay free for other requests. */
  takeSpare(client: Client): boolean {
    const held = this.#heldBy(client) + 1;
    const isShort = 2 * (this.#busy + 1) > this.#rules.connections || 2 * held > this.#rules.perClient();
    return !isShort && this.takeFree(client);
  }

  /** Notes that a spare request holds a connection. */
  noteSpare(place: Place): void {
    this.#spare.add(place);
  }

  /**
   * Has a spare request give up its connection to a request of `client` that waits: the latest one, which brings the bytes that are
   * needed last. One of the client itself where the share of the client is used up.
   */
  needOne(client: Client): void {
    const isOwn = client !== undefined && this.#heldBy(client) >= this.#rules.perClient();
    if (!isOwn && this.#busy < this.#rules.connections) return;
    const place = [...this.#spare].findLast(({ holder }) => !isOwn || holder === client);
    if (place === undefined) return;
    this.#spare.delete(place);
    place.giveUp();
  }

  #hold(client: Client): void {
    this.#busy += 1;
    this.#held.set(client, this.#heldBy(client) + 1);
  }

  /** Adds a place to the line of a client. */
  admit(place: Place, client: Client): void {
    const line = this.#lines.get(client);
    if (line === undefined) this.#lines.set(client, new Set([place]));
    else line.add(place);
    this.proceed();
  }

  /** Removes a place from the lines of clients. */
  withdraw(place: Place, clients: Iterable<Client>): void {
    for (const client of clients) {
      const line = this.#lines.get(client);
      if (line?.delete(place) === true && line.size === 0) this.#lines.delete(client);
    }
  }

  /** Returns the connection of a request to the pool. */
  release(place: Place): void {
    const { holder: client } = place;
    this.#spare.delete(place);
    this.#busy -= 1;
    const left = this.#heldBy(client) - 1;
    if (left > 0) this.#held.set(client, left);
    else this.#held.delete(client);
    // The pool learns later in this tick that the connection is free.
    if (this.#lines.size > 0) queueMicrotask(() => this.proceed());
  }

  /** Begins the requests that may begin now. */
  proceed(): void {
    while (this.#busy < this.#rules.connections) {
      const client = this.#next();
      if (client === none) return;
      const line = this.#lines.get(client) as Set<Place>;
      const [place] = line as Iterable<Place>;
      // The client goes behind the others.
      this.#lines.delete(client);
      this.#lines.set(client, line);
      this.#hold(client);
      (place as Place).go(client);
    }
  }

  /** The first waiting client that holds less than its share. */
  #next(): Client | typeof none {
    if (this.#lines.size === 0) return none;
    const share = this.#rules.perClient();
    for (const client of this.#lines.keys()) {
      if (client === undefined || this.#heldBy(client) < share) return client;
    }
    return none;
  }

  #heldBy(client: Client): number {
    return this.#held.get(client) ?? 0;
  }
}

const none = Symbol('none');

class Place implements Turn {
  readonly #queue: ConnectionQueue;
  readonly #charged: ChargedClients | undefined;
  #state: 'new' | 'waiting' | 'busy' | 'over' = 'new';
  #send: Send | undefined;
  /** The clients in whose lines the place waits. */
  #clients: Set<Client> | undefined;
  /** The client that holds the connection. */
  holder: Client;

  constructor(queue: ConnectionQueue, charged: ChargedClients | undefined) {
    this.#queue = queue;
    this.#charged = charged;
  }

  begin(send: Send): void {
    if (this.#state !== 'new') return;
    const client = this.#charged?.client;
    const isSpare = this.#charged?.isSpare === true;
    if (isSpare ? this.#queue.takeSpare(client) : this.#queue.takeFree(client)) {
      this.#state = 'busy';
      this.holder = client;
      if (isSpare) this.#queue.noteSpare(this);
      send();
      return;
    }
    if (isSpare) {
      this.#state = 'over';
      send(new ProxyError('origin_busy', { detail: 'no connection to spare' }));
      return;
    }
    this.#state = 'waiting';
    this.#send = send;
    this.#want(client);
    if (this.#isWaiting) this.#queue.needOne(client);
    if (this.#charged === undefined) return;
    const onWanted = (client: string): void => this.#want(client);
    this.#charged.onWanted = onWanted;
    const { bodyClients = this.#charged.headClients } = this.#charged;
    for (const client of bodyClients?.() ?? []) this.#want(client);
  }

  /** Called when there is a connection for the request; `client` holds it. */
  go(client: Client): void {
    this.#state = 'busy';
    this.#stopWaiting();
    this.holder = client;
    const send = this.#send;
    this.#send = undefined;
    send?.(this.#charged?.whyNotBegin?.(this.#charged.client));
  }

  /** Asks a spare request to give up its connection. */
  giveUp(): void {
    this.#charged?.onNeeded?.();
  }

  leave(): void {
    const before = this.#state;
    this.#state = 'over';
    this.#send = undefined;
    if (before === 'waiting') this.#stopWaiting();
    else if (before === 'busy') this.#queue.release(this);
  }

  get #isWaiting(): boolean {
    return this.#state === 'waiting';
  }

  #want(client: Client): void {
    if (!this.#isWaiting || this.#clients?.has(client) === true) return;
    this.#clients ??= new Set();
    this.#clients.add(client);
    this.#queue.admit(this, client);
  }

  #stopWaiting(): void {
    if (this.#clients !== undefined) this.#queue.withdraw(this, this.#clients);
    if (this.#charged !== undefined) this.#charged.onWanted = undefined;
  }
}
