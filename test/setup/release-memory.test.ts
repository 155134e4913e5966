/** When and how often memory is given back to the system. */

import { expect, it } from 'vitest';
import { loadMallocTrim, releaseMemoryWhenIdle } from '../../src/setup/system.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';

const MB = 1024 * 1024;

function createGround(canRelease = true) {
  const clock = createFakeClock(0);
  const now = { megabytes: 100, active: 0 };
  let releases = 0;
  let loads = 0;
  releaseMemoryWhenIdle({
    clock,
    otherBytes: () => now.megabytes * MB,
    active: () => now.active,
    load: () => {
      loads += 1;
      if (!canRelease) return undefined;
      return () => {
        releases += 1;
        now.megabytes = 110;
      };
    },
  });
  const pass = () => clock.advance(30_000);
  return { clock, now, pass, releases: () => releases, loads: () => loads };
}

it.each<[megabytes: number, active: number, releases: number]>([
  [163, 0, 0],
  [164, 0, 1],
  [300, 0.1, 1],
  [300, 0.11, 0],
])('%i MB, 100 at the start, with an event loop active for %d of the time, are released %i times', (...row) => {
  const [megabytes, active, releases] = row;
  const ground = createGround();
  Object.assign(ground.now, { megabytes, active });
  ground.pass();
  expect(ground.releases()).toBe(releases);
});

it('the next release waits for another burst, and for quiet after that', () => {
  const { now, pass, releases } = createGround();
  now.megabytes = 300;
  pass();
  now.megabytes = 173;
  pass();
  expect(releases()).toBe(1);
  Object.assign(now, { megabytes: 400, active: 1 });
  pass();
  expect(releases()).toBe(1);
  now.active = 0;
  pass();
  expect(releases()).toBe(2);
});

it('growth is measured from the smallest size so far', () => {
  const { now, pass, releases } = createGround();
  now.megabytes = 60;
  pass();
  now.megabytes = 124;
  pass();
  expect(releases()).toBe(1);
});

it('checks end where the system has no such call', () => {
  const { clock, now, pass, loads } = createGround(false);
  now.megabytes = 300;
  pass();
  pass();
  expect([loads(), clock.pending]).toEqual([1, 0]);
});

it('loadMallocTrim returns a function that can be called, or undefined', () => {
  expect(() => loadMallocTrim()?.()).not.toThrow();
});
