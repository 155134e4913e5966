/** Removals that the engine could not take are tried again, until they are done or the store is closed. */

import { expect, it } from 'vitest';
import { OwedRemovals, type Removal } from '../../src/store/redis/owed-removals.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { turn } from '../support/clocks/turn.ts';

const removal: Removal = { kind: 'key', key: 'k' };

/** Creates owed removals, all of which fail until `isBack`. */
function create() {
  const clock = createFakeClock();
  const ground = { clock, isBack: false, removed: [] as Removal[] };
  const owed = new OwedRemovals({
    clock,
    remove: async (each) => {
      if (!ground.isBack) throw new Error('away');
      ground.removed.push(each);
    },
  });
  return { ...ground, ground, owed };
}

it('tries again until the engine takes the removal', async () => {
  const { clock, ground, owed } = create();
  owed.add(removal);
  for (const isBack of [false, true]) {
    expect(owed.isOwing).toBe(true);
    ground.isBack = isBack;
    clock.advance(250);
    await turn();
  }
  expect(owed.isOwing).toBe(false);
  expect(ground.removed).toEqual([removal]);
  expect(clock.pending).toBe(0);
});

it('leaves no timer behind when it is closed', async () => {
  const { clock, owed } = create();
  owed.add(removal);
  expect(clock.pending).toBe(1);
  owed.close();
  expect(clock.pending).toBe(0);
});
