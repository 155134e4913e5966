import { describe, expect, it } from 'vitest';
import { type BackoffOptions, countDeaths, restartDelayMs } from '../../src/fleet/worker-slot.ts';

const options: BackoffOptions = { firstMs: 500, mostMs: 30_000, mostAloneMs: 1000, steadyAfterMs: 60_000 };

describe('deaths in a row', () => {
  it.each([
    { name: 'the first death is one', deaths: 0, livedMs: 10, want: 1 },
    { name: 'one that comes soon after another is counted with it', deaths: 1, livedMs: 10, want: 2 },
    { name: 'one just before its worker is steady is counted too', deaths: 4, livedMs: 59_999, want: 5 },
    { name: 'one of a worker that was steady begins a new row', deaths: 4, livedMs: 60_000, want: 1 },
  ])('$name', ({ deaths, livedMs, want }) => {
    expect(countDeaths(deaths, livedMs, options)).toBe(want);
  });
});

describe('the wait for the next worker', () => {
  it.each([
    { name: 'there is none after the first death', deaths: 1, fraction: 0, want: 0 },
    { name: 'the second death is waited for', deaths: 2, fraction: 0, want: 500 },
    { name: 'each further one twice as long', deaths: 5, fraction: 0, want: 4000 },
    { name: 'up to the longest wait', deaths: 8, fraction: 0, want: 30_000 },
    { name: 'however many there were', deaths: 5000, fraction: 0, want: 30_000 },
    { name: 'chance takes up to half of it away', deaths: 2, fraction: 1, want: 250 },
    { name: 'and less where it is less', deaths: 8, fraction: 0.5, want: 22_500 },
    { name: 'where nobody else serves, it is short', deaths: 8, fraction: 0, isAlone: true, want: 1000 },
    { name: 'but it is there', deaths: 2, fraction: 0, isAlone: true, want: 500 },
  ])('$name', ({ deaths, fraction, isAlone = false, want }) => {
    expect(restartDelayMs(deaths, fraction, isAlone, options)).toBe(want);
  });
});
