/** What random traffic runs on: a store that is opened, closed and opened again, and that has faults. */

import { expect } from 'vitest';
import { StoreFault } from '../../../src/store/store.ts';
import { turn } from '../clocks/turn.ts';
import { createSteeredStore, type SteeredStore } from '../stores/steered-store.ts';
import type { Plan } from './traffic-plan.ts';
import type { DiskStep, ToldFault } from './traffic-steps.ts';

/** What happens to the store itself. */
export type GroundStep = ToldFault | Exclude<DiskStep, { kind: 'restart' }>;

/** A place for stores. */
export interface TrafficGround {
  /** Opens the store; after it was closed, with what it held. `now` tells epoch milliseconds. */
  open(now: () => number): Promise<SteeredStore>;
  /** Lets something happen to the store that is open. */
  take(step: GroundStep): Promise<void>;
  /** Ends the faults that go on. */
  heal(): Promise<void>;
  /** Passes a turn, in which the store may go on. */
  turn(): Promise<void>;
  /** Passes a turn, and waits until the store has done what it was asked for. */
  rest(): Promise<void>;
  /** Fails where a store that is open, and that nobody uses, holds on to something. */
  expectIdle(): Promise<void>;
  /** Fails where a store that was closed holds on to something. */
  expectClosed(): Promise<void>;
  /** Fails where a store that was closed for good kept wrong bytes. `latestVersion` is the last one of the origin. */
  expectRightKept(latestVersion: number): Promise<void>;
}

/** A store in memory, which is gone once it is closed. */
export class MemoryGround implements TrafficGround {
  readonly #plan: Plan;
  #store: SteeredStore | undefined;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  async open(): Promise<SteeredStore> {
    const { blockSizeBytes, maxSizeBytes } = this.#plan;
    this.#store = createSteeredStore({ blockSizeBytes, maxSizeBytes });
    return this.#store;
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
