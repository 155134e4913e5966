import { describe, expect, it } from 'vitest';
import { type BackoffOptions, countDeaths, restartDelayMs } from '../../src/fleet/worker-slot.ts';

const options: BackoffOptions = { firstMs: 500, mostMs: 30_000, mostAloneMs: 1000, steadyAfterMs: 60_000 };

describe('deaths in a row', () => {
  it.each([
    { name: 'the first death counts as one', deaths: 0, livedMs: 10, want: 1 },
    { name: 'a death soon after another is counted with it', deaths: 1, livedMs: 10, want: 2 },
    { name: 'a death just before its worker is steady is counted too', deaths: 4, livedMs: 59_999, want: 5 },
    { name: 'the death of a steady worker begins a new row', deaths: 4, livedMs: 60_000, want: 1 },
  ])('$name', ({ deaths, livedMs, want }) => {
    expect(countDeaths(deaths, livedMs, options)).toBe(want);
  });
});

describe('the delay of the next worker', () => {
  it.each([
    { name: 'is zero after the first death', deaths: 1, fraction: 0, want: 0 },
    { name: 'begins with the second death', deaths: 2, fraction: 0, want: 500 },
    { name: 'doubles with each further death', deaths: 5, fraction: 0, want: 4000 },
    { name: 'is at most the longest delay', deaths: 8, fraction: 0, want: 30_000 },
    { name: 'is the longest one however many deaths there were', deaths: 5000, fraction: 0, want: 30_000 },
    { name: 'is shortened at random by up to half', deaths: 2, fraction: 1, want: 250 },
    { name: 'is shortened less by a smaller fraction', deaths: 8, fraction: 0.5, want: 22_500 },
    { name: 'is short while no other worker serves', deaths: 8, fraction: 0, isAlone: true, want: 1000 },
    { name: 'is not zero while no other worker serves', deaths: 2, fraction: 0, isAlone: true, want: 500 },
  ])('$name', ({ deaths, fraction, isAlone = false, want }) => {
    expect(restartDelayMs(deaths, fraction, isAlone, options)).toBe(want);
  });
});
