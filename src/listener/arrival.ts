/** A connection that was accepted, on its way to the protocol that will be spoken on it. */

import type { Socket } from 'node:net';
import type { Peer } from '../http/message.ts';
import type { ConnectionPlace } from './connection-limits.ts';

/** Who has accepted connections. */
export interface ArrivalOwner {
  /** A connection is gone. */
  leave(arrival: Arrival): void;
}

const arrivalOf = Symbol('arrival');
type ArrivedSocket = Socket & { [arrivalOf]?: Arrival };

/** Knows who the client is, and whether anything came of it yet. There is one for as long as the connection is there. */
export class Arrival {
  readonly socket: Socket;
  readonly owner: ArrivalOwner;
  /** Who has connected, or the client that a proxy tells. */
  peer: Peer;
  /** Undefined as long as it has none. */
  place: ConnectionPlace | undefined;
  /** What had been read and used up when the present step began. */
  #usedBytes = 0;

  /** The owner is told when the socket is closed, without a function of its own for each: idle connections are many. */
  constructor(socket: Socket, peer: Peer, owner: ArrivalOwner) {
    this.socket = socket;
    this.peer = peer;
    this.owner = owner;
    (socket as ArrivedSocket)[arrivalOf] = this;
    socket.on('close', onClose);
  }

  /** Begins a step: what comes from now on, and what was put back, is for that. */
  beginStep(): void {
    this.#usedBytes = this.socket.bytesRead - this.socket.readableLength;
  }

  /** Whether nothing has come for the present step, as from balancers that only look whether we are there. */
  get isUnused(): boolean {
    return this.socket.bytesRead === this.#usedBytes;
  }
}

function onClose(this: ArrivedSocket): void {
  const arrival = this[arrivalOf];
  arrival?.owner.leave(arrival);
}
