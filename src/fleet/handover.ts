/** Which worker has which sockets: its own, and those of workers that are away. */

import type { WorkerCalls } from './calls.ts';
import type { Remote } from './channel.ts';
import { type Covers, changedCovers, decideCovers, type SlotFitness } from './covers.ts';
import type { FleetSockets, SlotSocket } from './fleet-sockets.ts';

/** A worker, as far as sockets are handed to it. */
type SocketTaker = Pick<Remote<WorkerCalls>, 'takeSocket' | 'leaveSocket'>;

/** Hands the sockets of a fleet to its workers. */
export class Handover {
  readonly #sockets: FleetSockets;
  readonly #takerOf: (slot: number) => SocketTaker | undefined;
  #covers: Covers = new Map();

  /** `takerOf` gives the process of a slot, if there is one. */
  constructor(sockets: FleetSockets, takerOf: (slot: number) => SocketTaker | undefined) {
    this.#sockets = sockets;
    this.#takerOf = takerOf;
  }

  /** Gives a worker what it listens on, of these places or of all; it arrives before whatever is asked of it next. */
  give(slot: number, names?: readonly string[]): void {
    handOver(this.#takerOf(slot), this.#sockets.socketsOf(slot, names));
  }

  /** Has a worker give up its sockets of these places, and those of the workers that it covers. */
  takeBack(slot: number, names: readonly string[]): void {
    const covered = [...this.#covers].flatMap(([each, by]) => (by === slot ? [each] : []));
    for (const each of [slot, ...covered]) takeBack(this.#takerOf(slot), this.#sockets.socketsOf(each, names));
  }

  /** Has connections taken by others where a worker cannot take them. */
  cover(slots: readonly SlotFitness[]): void {
    const covers = decideCovers(slots, this.#covers);
    const { begun, ended } = changedCovers(this.#covers, covers);
    this.#covers = covers;
    for (const [slot, by] of begun) handOver(this.#takerOf(by), this.#sockets.ownSocketsOf(slot));
    for (const [slot, by] of ended) takeBack(this.#takerOf(by), this.#sockets.ownSocketsOf(slot));
  }
}

function handOver(taker: SocketTaker | undefined, sockets: readonly SlotSocket[]): void {
  for (const { name, slot, handle } of sockets) {
    // Who cannot take it any more is gone, which is told elsewhere.
    taker?.takeSocket(name, slot, handle).catch(() => undefined);
  }
}

function takeBack(taker: SocketTaker | undefined, sockets: readonly SlotSocket[]): void {
  for (const { name, slot } of sockets) {
    // Whoever is gone has left it.
    taker?.leaveSocket(name, slot).catch(() => undefined);
  }
}
