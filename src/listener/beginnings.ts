/** Tells of connections and requests as they begin, for those who count what is under way. */

import type { Handler } from '../http/message.ts';
import type { BegunEvent, ConnectionEvent, Emit } from '../telemetry/events.ts';
import type { ConnectionLimits, ConnectionPlace } from './connection-limits.ts';

const begun: BegunEvent = { kind: 'begun', what: 'request' };

/** A handler that tells of each request before it is answered; a hit tells that by itself. */
export function tellRequests(handler: Handler, emit: Emit): Handler {
  const told: Handler = (request) => {
    emit(begun);
    return handler(request);
  };
  return handler.hit === undefined ? told : Object.assign(told, { hit: handler.hit });
}

/** Limits that tell of each connection that they let in, and of its end. */
export function tellConnections(
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
      return new ToldPlace(place, emit, closed);
    },
  };
}

class ToldPlace implements ConnectionPlace {
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
