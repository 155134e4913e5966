/**
 * Limits the number of concurrent connections, in total and per client. Also emits an event when a connection opens or closes,
 * and when a request begins.
 */

import { clientName, type PeerList } from '../../guard/client.ts';
import type { ConnectionEvent, Emit } from '../../telemetry/events.ts';

/** One connection as the limits count it. */
export interface ConnectionSlot {
  /** Counts the connection for a client address. Returns false when the client has reached its limit. Called once. */
  takeFor(address: string): boolean;
  /** Stops counting the connection. Called once. */
  leave(): void;
}

/** Connection limits, of one listener or shared by several. */
export interface ConnectionLimits {
  /** Counts a new connection; undefined when the total limit is reached. */
  enter(): ConnectionSlot | undefined;
}

/** Limits whose rules can change. */
export interface AdjustableConnectionLimits extends ConnectionLimits {
  /** Applies other rules from the next connection on. Open connections stay, and count. */
  adjust(rules: ConnectionRules): void;
}

/** Rules of connection limits. */
export interface ConnectionRules {
  /** Maximum number of concurrent connections; 0 sets no limit. */
  readonly connections: number;
  /** Maximum number of concurrent connections per client; 0 sets no limit. */
  readonly connectionsPerClient: number;
  /** Whether a client gets at most as many as stay free, so that a few of them cannot take all. For limits in total and per client. */
  readonly leavesRoom?: boolean;
  /** Addresses without a limit per client: proxies that connect for many clients. Peers of Unix sockets have none either. */
  readonly isExempt: PeerList;
}

/** Creates connection limits. All addresses of an IPv6 /64 network count as one client. */
export function createConnectionLimits(options: ConnectionRules): AdjustableConnectionLimits {
  let rules = options;
  const counts = new Map<string, number>();
  let total = 0;

  class Place implements ConnectionSlot {
    #client: string | undefined;

    takeFor(address: string): boolean {
      const { connections, connectionsPerClient, leavesRoom, isExempt } = rules;
      if (connectionsPerClient === 0 || address === '' || isExempt(address)) return true;
      const client = clientName(address);
      const count = counts.get(client) ?? 0;
      if (count >= connectionsPerClient) return false;
      // This connection is counted in the total.
      if (leavesRoom === true && connections > 0 && count > connections - total) return false;
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

/** No limits. */
export const unlimitedConnections: ConnectionLimits = createConnectionLimits({
  connections: 0,
  connectionsPerClient: 0,
  isExempt: () => false,
});

/** Wraps limits so that they emit an event when an admitted connection opens and when it closes. */
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

class ReportedPlace implements ConnectionSlot {
  readonly #place: ConnectionSlot;
  readonly #emit: Emit;
  readonly #closed: ConnectionEvent;

  constructor(place: ConnectionSlot, emit: Emit, closed: ConnectionEvent) {
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
