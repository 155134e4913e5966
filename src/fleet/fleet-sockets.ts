/** The sockets of all places that a fleet listens on, bound once and kept, whichever workers there are. */

import type { BindPlace } from '../listener/bind.ts';
import { type BoundPlace, bindPlace } from './bound-socket.ts';
import type { Handle } from './channel.ts';

/** A place, by its name among all of a configuration. */
export interface NamedPlace {
  readonly name: string;
  readonly place: BindPlace;
}

/** A socket to hand over, as `WorkerCalls.takeSocket` takes it. */
export interface SlotSocket {
  readonly name: string;
  readonly slot: number;
  readonly handle: Handle;
}

/** The slot of a socket that all workers have. */
const everySlot = 0;

/** The sockets of all places; none at first. */
export class FleetSockets {
  readonly #workers: number;
  readonly #bind: typeof bindPlace;
  #places = new Map<string, BoundPlace>();

  constructor(workers: number, bind = bindPlace) {
    this.#workers = workers;
    this.#bind = bind;
  }

  /** The names of the places that are bound. */
  get names(): readonly string[] {
    return [...this.#places.keys()];
  }

  /**
   * Binds those that are not bound yet, and gives their names; all of them or none. Rejects as `bind` does. Workers are
   * numbered from 1 on.
   */
  async open(places: readonly NamedPlace[]): Promise<readonly string[]> {
    await using opened = new AsyncDisposableStack();
    const added = new Map<string, BoundPlace>();
    for (const { name, place } of places) {
      if (this.#places.has(name)) continue;
      added.set(
        name,
        opened.adopt(await this.#bind(place, this.#workers), (bound) => bound.close()),
      );
    }
    opened.move();
    for (const [name, bound] of added) this.#places.set(name, bound);
    return [...added.keys()];
  }

  /** What the worker of a slot listens on, of these places. */
  socketsOf(slot: number, names: readonly string[] = this.names): readonly SlotSocket[] {
    return names.flatMap((name) => {
      const handles = this.#places.get(name)?.handles ?? [];
      const isShared = handles.length < this.#workers;
      const handle = isShared ? handles[0] : handles[slot - 1];
      return handle === undefined ? [] : [{ name, slot: isShared ? everySlot : slot, handle }];
    });
  }

  /** What nobody but the worker of a slot listens on: connections wait there while it cannot take them. */
  ownSocketsOf(slot: number): readonly SlotSocket[] {
    return this.socketsOf(slot).filter((socket) => socket.slot === slot);
  }

  /** Gives back the sockets of these places, or of all. */
  close(names: readonly string[] = this.names): void {
    for (const name of names) {
      this.#places.get(name)?.close();
      this.#places.delete(name);
    }
  }
}
