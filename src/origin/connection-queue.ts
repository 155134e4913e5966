/** Queues requests that wait for a connection: clients take turns, and no client holds more than its share of the connections. */

import type { Clock } from '../http/clock.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import type { ChargedClients, OriginUse } from './origin.ts';

/** The maximum numbers of running requests, and how long others wait. */
export interface QueueRules {
  /** Of all clients together. */
  readonly connections: number;
  /** Of one client; called each time that a request may begin. */
  readonly perClient: () => number;
  /** A client may exceed its share while fewer than this many run. Absent where it never may. */
  readonly beyondShares?: () => number;
  /** Of requests without the head of a response, of all clients together. Absent, or 0, for no limit. */
  readonly unanswered?: number;
  /** After how long a request stops waiting and fails with `origin_busy`. Absent for never. */
  readonly patience?: { readonly waitMs: number; readonly clock: Pick<Clock, 'after'> } | undefined;
  /** Called when a request has to wait. */
  readonly onWait?: ((shortage: Shortage) => void) | undefined;
}

/** Which limit makes requests wait, named as its option, and what holds the places. */
export interface Shortage {
  readonly limit: 'connections' | 'connectionsPerClient' | 'unansweredRequests';
  readonly most: number;
  /** Returns what holds the places; it looks at each of them. */
  readonly use: () => OriginUse;
}

/** The most requests to one origin that wait for a connection, of all clients; each takes memory, and most would wait in vain. */
const mostWaiting = 10_000;

type Send = (refusal?: ProxyError) => void;

/** The place of one request in the queue. */
export interface Turn {
  /**
   * Calls `send` once, when there is a connection for the request: within this call if one is free. Not after `leave`. With a
   * refusal where the client may not begin the transfer any more (`ChargedClients.whyNotBegin`).
   */
  begin(send: Send): void;
  /** Called when the head of the final response has arrived: the request does not count as unanswered any more. */
  answered(): void;
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
 * must find one (`beyondShares` is the exception). A request waits for a limited time. Waiting clients take turns; at each turn the oldest request of the client gets a connection. A request that several
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
  /** The places of the requests that have a connection. */
  readonly #running = new Set<Place>();
  #unanswered = 0;
  #waiting = 0;

  constructor(rules: QueueRules) {
    this.#rules = rules;
  }

  /** Takes a place in the queue. Its connection counts for the client that began the transfer, or for another client of it that had an earlier turn. */
  join(charged?: ChargedClients): Turn {
    return new Place(this, charged);
  }

  /** What holds the places now. */
  get use(): OriginUse {
    const running = [...this.#running];
    const fills = running.filter(({ isFill }) => isFill).length;
    const [unanswered, waiting] = [this.#unanswered, this.#waiting];
    return { streams: running.length - fills - unanswered, fills, unanswered, waiting };
  }

  /** Gives a connection to a place where one is free and no request waits; returns whether it did. */
  takeFree(place: Place, client: Client): boolean {
    if (this.#lines.size > 0 || this.#isFull || !this.#hasShare(client)) return false;
    this.#hold(place, client);
    return true;
  }

  /** Gives a connection as `takeFree` does, if half of all connections, and half of the share of the client, stay free for other requests. */
  takeSpare(place: Place, client: Client): boolean {
    const held = this.#heldBy(client) + 1;
    const isShort = 2 * (this.#running.size + 1) > this.#rules.connections || 2 * held > this.#rules.perClient();
    return !isShort && this.takeFree(place, client);
  }

  /** Whether no request can begin, of whatever client. */
  get #isFull(): boolean {
    return this.#running.size >= this.#rules.connections || this.#hasTooManyUnanswered;
  }

  get #hasTooManyUnanswered(): boolean {
    const { unanswered = 0 } = this.#rules;
    return unanswered > 0 && this.#unanswered >= unanswered;
  }

  #hasShare(client: Client): boolean {
    if (client === undefined || this.#heldBy(client) < this.#rules.perClient()) return true;
    return this.#running.size < (this.#rules.beyondShares?.() ?? 0);
  }

  /** The limit that keeps a request of a client from beginning now. */
  shortageFor(client: Client): Shortage {
    const { connections, unanswered = 0, perClient } = this.#rules;
    const use = (): OriginUse => this.use;
    if (this.#running.size >= connections) return { limit: 'connections', most: connections, use };
    if (this.#hasTooManyUnanswered) return { limit: 'unansweredRequests', most: unanswered, use };
    if (!this.#hasShare(client)) return { limit: 'connectionsPerClient', most: perClient(), use };
    return { limit: 'connections', most: connections, use };
  }

  /** Whether the line has room: a client waits with at most as many requests as others still may, so that another always may. */
  hasRoomFor(client: Client): boolean {
    return (this.#lines.get(client)?.size ?? 0) < mostWaiting - this.#waiting;
  }

  /** Called when a place begins to wait. Returns a function that is called when it does not wait any more. */
  noteWaiting(place: Place, client: Client): () => void {
    const { patience, onWait } = this.#rules;
    this.#waiting += 1;
    onWait?.(this.shortageFor(client));
    const stopTimer = patience?.clock.after(patience.waitMs, () => {
      const { limit, most } = this.shortageFor(client);
      place.refuse(noPlace(most, patience.waitMs, limit));
    });
    return () => {
      this.#waiting -= 1;
      stopTimer?.();
    };
  }

  /** Notes that the head of a response has arrived. */
  noteAnswered(): void {
    this.#unanswered -= 1;
    if (this.#lines.size > 0) this.proceed();
  }

  /** Notes that a spare request holds a connection. */
  noteSpare(place: Place): void {
    this.#spare.add(place);
  }

  /**
   * Has a transfer give up its connection to a request of `client` that waits: one that nobody reads any more, otherwise the latest
   * spare one, which brings the bytes that are needed last. One of the client itself where the share of the client is used up.
   */
  needOne(client: Client): void {
    const isOwn = client !== undefined && this.#heldBy(client) >= this.#rules.perClient();
    if (!isOwn && !this.#isFull) return;
    const mayBe = ({ holder }: Place) => !isOwn || holder === client;
    const unread = this.#running.values().find((place) => place.isUnread && mayBe(place));
    const place = unread ?? [...this.#spare].findLast(mayBe);
    if (place === undefined) return;
    this.#spare.delete(place);
    place.giveUp();
  }

  #hold(place: Place, client: Client): void {
    this.#running.add(place);
    this.#unanswered += 1;
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
    this.#running.delete(place);
    if (!place.isAnswered) this.#unanswered -= 1;
    const left = this.#heldBy(client) - 1;
    if (left > 0) this.#held.set(client, left);
    else this.#held.delete(client);
    // The pool learns later in this tick that the connection is free.
    if (this.#lines.size > 0) queueMicrotask(() => this.proceed());
  }

  /** Begins the requests that may begin now. */
  proceed(): void {
    while (!this.#isFull) {
      const client = this.#next();
      if (client === none) return;
      const line = this.#lines.get(client) as Set<Place>;
      const [place] = line as Iterable<Place> as [Place];
      // The client goes behind the others.
      this.#lines.delete(client);
      this.#lines.set(client, line);
      this.#hold(place, client);
      place.go(client);
    }
  }

  /** The first waiting client that may hold one more. */
  #next(): Client | typeof none {
    if (this.#lines.size === 0) return none;
    for (const client of this.#lines.keys()) if (this.#hasShare(client)) return client;
    return none;
  }

  #heldBy(client: Client): number {
    return this.#held.get(client) ?? 0;
  }
}

/** Returns the error of a request that has waited for long enough. `most` is the value of the limit. */
export function noPlace(most: number, waitMs: number, limit: Shortage['limit'] = 'connections'): ProxyError {
  const detail = `no place at the origin within ${waitMs / 1000} s: ${limit} is ${most}`;
  return new ProxyError('origin_busy', { detail, fields: [retryAfter(waitMs)] });
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
  /** Whether the head of the response has arrived. */
  isAnswered = false;
  #stopTimer: (() => void) | undefined;

  constructor(queue: ConnectionQueue, charged: ChargedClients | undefined) {
    this.#queue = queue;
    this.#charged = charged;
  }

  begin(send: Send): void {
    if (this.#state !== 'new') return;
    const client = this.#charged?.client;
    const isSpare = this.#charged?.isSpare === true;
    if (isSpare ? this.#queue.takeSpare(this, client) : this.#queue.takeFree(this, client)) {
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
    if (!this.#queue.hasRoomFor(client)) {
      this.#state = 'over';
      send(new ProxyError('origin_busy', { detail: 'too many requests wait', fields: [retryAfter(1000)] }));
      return;
    }
    this.#state = 'waiting';
    this.#send = send;
    this.#want(client);
    if (!this.#isWaiting) return;
    this.#queue.needOne(client);
    if (!this.#isWaiting) return;
    this.#stopTimer = this.#queue.noteWaiting(this, client);
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

  /** Whether it holds its connection for a response that is taken into the store. */
  get isFill(): boolean {
    return this.isAnswered && this.#charged?.bodyClients !== undefined;
  }

  answered(): void {
    if (this.#state !== 'busy' || this.isAnswered) return;
    this.isAnswered = true;
    this.#queue.noteAnswered();
  }

  /** Ends the wait with an error. */
  refuse(error: ProxyError): void {
    if (!this.#isWaiting) return;
    this.#state = 'over';
    this.#stopWaiting();
    const send = this.#send;
    this.#send = undefined;
    send?.(error);
  }

  /** Whether it holds its connection for a transfer that nobody reads any more. */
  get isUnread(): boolean {
    return this.#charged?.isSpare !== true && this.#charged?.onNeeded !== undefined;
  }

  /** Asks a transfer to give up its connection. */
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
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    if (this.#clients !== undefined) this.#queue.withdraw(this, this.#clients);
    if (this.#charged !== undefined) this.#charged.onWanted = undefined;
  }
}
