/** The stores of random traffic: opened, closed and opened again, with faults. */

import { expect } from 'vitest';
import type { Fleet } from '../../../src/cache/fleet.ts';
import { StoreFault } from '../../../src/store/store.ts';
import { turn } from '../clocks/turn.ts';
import { createSteeredStore, type SteeredStore } from '../stores/steered-store.ts';
import type { Plan } from './traffic-plan.ts';
import type { DiskStep, EngineStep, ToldFault } from './traffic-steps.ts';

/** A step that affects the store itself. */
export type GroundStep = ToldFault | Exclude<DiskStep | EngineStep, { kind: 'restart' }>;

/** Returns the store of a process, by its number from 0. Processes may share one. */
export type StoreOf = (process: number, fleet: Fleet) => SteeredStore;

/** Opens a store, injects its faults, and checks what it leaves behind. */
export interface TrafficGround {
  /** Whether an entry that was to be removed may be served: its removal has failed, and the process that owes it has ended, or is another one. */
  readonly mayServeRemoved: boolean;
  /** Opens the stores. Those on a disk or in an engine have their earlier entries. `now` returns epoch milliseconds. */
  open(now: () => number): Promise<StoreOf>;
  /** Applies a step to the open store. */
  take(step: GroundStep): Promise<void>;
  /** Ends lasting faults. */
  heal(): Promise<void>;
  /** Waits a turn of the event loop. */
  turn(): Promise<void>;
  /** Waits a turn, and until the store has finished its calls of the file system, or has the answers of the engine. */
  rest(): Promise<void>;
  /** Fails where an open but unused store holds resources. */
  expectIdle(): Promise<void>;
  /** Fails where a closed store holds resources. */
  expectClosed(): Promise<void>;
  /** Fails where the store has wrong bytes after its last close. `latestVersion` is the last version of the origin. */
  expectRightKept(latestVersion: number): Promise<void>;
}

/** A memory store, which loses its entries when it is closed. */
export class MemoryGround implements TrafficGround {
  readonly mayServeRemoved = false;
  readonly #plan: Plan;
  #store: SteeredStore | undefined;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  async open(): Promise<StoreOf> {
    const { blockSizeBytes, maxSizeBytes } = this.#plan;
    const store = createSteeredStore({ blockSizeBytes, maxSizeBytes });
    this.#store = store;
    return () => store;
  }

  async take(step: GroundStep): Promise<void> {
    const store = this.#store;
    if (step.kind === 'fill-disk') store?.fail('writeBlock', new StoreFault('no_room', 'full'));
    if (step.kind === 'fault') store?.fail(step.step, new StoreFault('io', 'a fault'));
    if (step.kind === 'damage') store?.damageBlock(step.index);
    if (step.kind === 'lose') store?.loseBlock(step.index);
  }

  async heal(): Promise<void> {}

  turn(): Promise<void> {
    return turn();
  }

  rest(): Promise<void> {
    return turn();
  }

  async expectIdle(): Promise<void> {
    expect(this.#store?.held).toBe(0);
  }

  async expectClosed(): Promise<void> {}

  async expectRightKept(): Promise<void> {}
}
