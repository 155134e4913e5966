/**
 * Limits the number of connections at a time, of all clients and of one address, and emits an event when a connection opens or
 * closes and when a request begins.
 */

import { clientName, type PeerList } from '../../guard/client.ts';
import type { Handler } from '../../http/message.ts';
import type { BegunEvent, ConnectionEvent, Emit } from '../../telemetry/events.ts';

/** The place of one connection. */
export interface ConnectionPlace {
  /** Counts it as this client's; false when the client has as many as it may have. Called once. */
  takeFor(address: string): boolean;
  /** Gives it back. Called once. */
  leave(): void;
}

/** The places for connections, of one listener or of several together. */
export interface ConnectionLimits {
  /** Takes one of the places; undefined when there is none. */
  enter(): ConnectionPlace | undefined;
}

/** Limits that can be set anew. */
export interface AdjustableConnectionLimits extends ConnectionLimits {
  /** Goes by other rules from the next connection on; those that are there stay, and count. */
  adjust(rules: ConnectionRules): void;
}

/** What limits are made of. */
export interface ConnectionRules {
  /** The most connections at a time; 0 sets no limit. */
  readonly connections: number;
  /** The most connections of one client at a time; 0 sets no limit. */
  readonly connectionsPerClient: number;
  /** Those who connect for many clients, and are not counted as one. Peers of Unix sockets are not either. */
  readonly isExempt: PeerList;
}

/** Creates the places. Of an IPv6 address the first 64 bits tell who a client is. */
export function createConnectionLimits(options: ConnectionRules): AdjustableConnectionLimits {
  let rules = options;
  const counts = new Map<string, number>();
  let total = 0;

  class Place implements ConnectionPlace {
    #client: string | undefined;

    takeFor(address: string): boolean {
      const { connectionsPerClient, isExempt } = rules;
      if (connectionsPerClient === 0 || address === '' || isExempt(address)) return true;
      const client = clientName(address);
      const count = counts.get(client) ?? 0;
      if (count >= connectionsPerClient) return false;
      counts.set(client, count + 1);
      this.#client = client;
      return true;
    }

    leave(): void {
      total -= 1;
      if (this.#client === undefined) return;
      const count = counts.get(this.#client) ?? 0;
      if (count > 1) counts.set(this.#client, count - 1);
      else counts.delete(this.#client);
    }
  }

  return {
    enter() {
      const { connections } = rules;
      if (connections > 0 && total >= connections) return undefined;
      total += 1;
      return new Place();
    },
    adjust(changed) {
      rules = changed;
    },
  };
}

/** As many as there are. */
export const noConnectionLimits: ConnectionLimits = createConnectionLimits({
  connections: 0,
  connectionsPerClient: 0,
  isExempt: () => false,
});

const begun: BegunEvent = { kind: 'begun', what: 'request' };

/** A handler that tells of each request before it is answered; a hit tells that by itself. */
export function reportRequests(handler: Handler, emit: Emit): Handler {
  const told: Handler = (request) => {
    emit(begun);
    return handler(request);
  };
  return handler.hit === undefined ? told : Object.assign(told, { hit: handler.hit });
}

/** Limits that tell of each connection that they let in, and of its end. */
export function reportConnections(
  limits: ConnectionLimits,
  scheme: ConnectionEvent['scheme'],
  emit: Emit,
): ConnectionLimits {
  const opened: ConnectionEvent = { kind: 'connection', stage: 'opened', scheme };
  const closed: ConnectionEvent = { kind: 'connection', stage: 'closed', scheme };
  return {
    enter() {
      const place = limits.enter();
      if (place === undefined) return undefined;
      emit(opened);
      return new ReportedPlace(place, emit, closed);
    },
  };
}

class ReportedPlace implements ConnectionPlace {
  readonly #place: ConnectionPlace;
  readonly #emit: Emit;
  readonly #closed: ConnectionEvent;

  constructor(place: ConnectionPlace, emit: Emit, closed: ConnectionEvent) {
    this.#place = place;
    this.#emit = emit;
    this.#closed = closed;
  }

  takeFor(address: string): boolean {
    return this.#place.takeFor(address);
  }

  leave(): void {
    this.#place.leave();
    this.#emit(this.#closed);
  }
}
