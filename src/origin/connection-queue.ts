/** Requests that wait for a connection: clients take turns, and none has more than its share of the connections. */

import type { Errand } from './origin.ts';

/** How many requests run at a time. */
export interface QueueRules {
  /** Of all clients together. */
  readonly connections: number;
  /** Of one client; read each time a request may begin. */
  readonly perClient: () => number;
}

/** One request's place. */
export interface Turn {
  /** Calls back once when there is a connection for it, in this call if there is one now; not after `leave`. */
  begin(send: () => void): void;
  /** It is over, or not wanted any more. A second call does nothing. */
  leave(): void;
}

/** A client; undefined stands for requests that no client has caused, which have no share to keep to. */
type Client = string | undefined;

/**
 * Stands before a pool that would keep every request until its turn: one that was given up would still cost a connection then,
 * and keep others waiting.
 *
 * A client holds at most its share of the connections, even while others are idle: what it holds it may hold for long, and a
 * client that comes later must find one. Clients that wait for a connection get one in turn, each the oldest of its requests.
 * A request that several clients want waits in the line of each of them, so that no client waits for another one's share.
 */
export class ConnectionQueue {
  readonly #rules: QueueRules;
  /** The requests of each client that waits. The client that comes next is the first one. */
  readonly #lines = new Map<Client, Set<Place>>();
  /** How many connections each client holds. */
  readonly #held = new Map<Client, number>();
  #busy = 0;

  constructor(rules: QueueRules) {
    this.#rules = rules;
  }

  /** Takes a place in the queue. Its connection counts as held by the client of the errand, or by the one whose turn came first. */
  join(errand?: Errand): Turn {
    return new Place(this, errand);
  }

  /** Takes a connection for a client where one is free and no request waits; tells whether it did. */
  takeFree(client: Client): boolean {
    if (this.#lines.size > 0 || this.#busy >= this.#rules.connections) return false;
    if (client !== undefined && this.#heldBy(client) >= this.#rules.perClient()) return false;
    this.#hold(client);
    return true;
  }

  #hold(client: Client): void {
    this.#busy += 1;
    this.#held.set(client, this.#heldBy(client) + 1);
  }

  /** Lets a place have its turn when it comes. */
  admit(place: Place, client: Client): void {
    const line = this.#lines.get(client);
    if (line === undefined) this.#lines.set(client, new Set([place]));
    else line.add(place);
    this.proceed();
  }

  /** Gives up a place among those that wait. */
  withdraw(place: Place, clients: Iterable<Client>): void {
    for (const client of clients) {
      const line = this.#lines.get(client);
      if (line?.delete(place) === true && line.size === 0) this.#lines.delete(client);
    }
  }

  /** Gives back a connection. */
  release(client: Client): void {
    this.#busy -= 1;
    const left = this.#heldBy(client) - 1;
    if (left > 0) this.#held.set(client, left);
    else this.#held.delete(client);
    // The pool learns of the connection in the course of this turn.
    if (this.#lines.size > 0) queueMicrotask(() => this.proceed());
  }

  /** Begins what may begin now. */
  proceed(): void {
    while (this.#busy < this.#rules.connections) {
      const client = this.#next();
      if (client === none) return;
      const line = this.#lines.get(client) as Set<Place>;
      const [place] = line as Iterable<Place>;
      // It goes behind the other clients.
      this.#lines.delete(client);
      this.#lines.set(client, line);
      this.#hold(client);
      (place as Place).go(client);
    }
  }

  /** The first client that waits and has not its share yet. */
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
  readonly #errand: Errand | undefined;
  #state: 'new' | 'waiting' | 'busy' | 'over' = 'new';
  #send: (() => void) | undefined;
  /** In whose lines it waits. */
  #clients: Set<Client> | undefined;
  /** The client that holds the connection. */
  #holder: Client;

  constructor(queue: ConnectionQueue, errand: Errand | undefined) {
    this.#queue = queue;
    this.#errand = errand;
  }

  begin(send: () => void): void {
    if (this.#state !== 'new') return;
    const client = this.#errand?.client;
    if (this.#queue.takeFree(client)) {
      this.#state = 'busy';
      this.#holder = client;
      send();
      return;
    }
    this.#state = 'waiting';
    this.#send = send;
    this.#want(client);
    if (this.#errand === undefined) return;
    const onWanted = (client: string): void => this.#want(client);
    this.#errand.onWanted = onWanted;
    const { wanters = this.#errand.askers } = this.#errand;
    for (const client of wanters?.() ?? []) this.#want(client);
  }

  /** There is a connection for it. */
  go(client: Client): void {
    this.#state = 'busy';
    this.#stopWaiting();
    this.#holder = client;
    const send = this.#send;
    this.#send = undefined;
    send?.();
  }

  leave(): void {
    const before = this.#state;
    this.#state = 'over';
    this.#send = undefined;
    if (before === 'waiting') this.#stopWaiting();
    else if (before === 'busy') this.#queue.release(this.#holder);
  }

  #want(client: Client): void {
    if (this.#state !== 'waiting' || this.#clients?.has(client) === true) return;
    this.#clients ??= new Set();
    this.#clients.add(client);
    this.#queue.admit(this, client);
  }

  #stopWaiting(): void {
    if (this.#clients !== undefined) this.#queue.withdraw(this, this.#clients);
    if (this.#errand !== undefined) this.#errand.onWanted = undefined;
  }
}
