/** A connection that was accepted, on its way to the protocol that will be spoken on it. */

import type { Socket } from 'node:net';
import type { Peer } from '../http/message.ts';
import type { ConnectionPlace } from './connection-limits.ts';

/** Knows who the client is, and whether anything came of it yet. */
export class Arrival {
  readonly socket: Socket;
  readonly place: ConnectionPlace;
  /** Who has connected, or the client that a proxy tells. */
  peer: Peer;
  /** What had been read and used up when the present step began. */
  #usedBytes = 0;

  constructor(socket: Socket, peer: Peer, place: ConnectionPlace) {
    this.socket = socket;
    this.peer = peer;
    this.place = place;
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
