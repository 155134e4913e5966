/** A round of the benchmark's load lasts until it has answers, however slow the machine is. */

import { describe, expect, it } from 'vitest';
import type { LoadResult } from '../../bench/load/load.ts';
import { runSteadyLoad } from '../../bench/workloads/steady-load.ts';
import type { Target } from '../../bench/workloads/workload.ts';

const nothing: LoadResult = {
  requests: 0,
  bytes: 0,
  seconds: 0.2,
  p50Us: undefined,
  p99Us: undefined,
  p999Us: undefined,
  failures: 0,
};

/** Makes a peer whose rounds have these results in order, then the last one again. Each round adds one request to the origin. */
function targetOf(results: readonly LoadResult[]): { readonly target: Target; readonly rounds: readonly number[] } {
  const rounds: number[] = [];
  const target: Target = {
    name: 'peer',
    origin: {
      port: 0,
      counters: async () => ({ requests: rounds.length, bodyBytes: 0, running: 0 }),
      [Symbol.dispose]: () => {},
    },
    peer: { port: 0, dir: '', pid: process.pid, [Symbol.asyncDispose]: async () => {} },
    generator: {
      name: 'told',
      run: async (_port, { seconds }) => {
        rounds.push(seconds);
        return results[rounds.length - 1] ?? results.at(-1) ?? nothing;
      },
    },
    seconds: 0.2,
    cores: undefined,
    allCores: undefined,
    everyCore: undefined,
    originCores: undefined,
    start: () => Promise.reject(new Error('it runs already')),
    hold: (resource) => resource,
    createFolder: () => Promise.reject(new Error('it needs none')),
    warmUp: async () => {},
    multiply: undefined,
  };
  return { target, rounds };
}

const file = { path: '/', window: { start: 0, end: 1000 } };
const load = (unit: 'requests' | 'gigabytes') => ({ request: { kind: 'whole' as const, file }, connections: 1, unit });

describe('a round', () => {
  it('is repeated for longer until there is an answer, and counts all requests to the origin', async () => {
    const part = { ...nothing, bytes: 300 };
    const { target, rounds } = targetOf([nothing, part, { ...part, requests: 4, bytes: 4000, seconds: 3.2 }]);
    const { result, originRequests, measurement } = await runSteadyLoad(target, load('requests'));
    expect(rounds).toEqual([0.2, 0.8, 3.2]);
    expect(result.requests).toBe(4);
    expect(originRequests).toBe(3);
    expect(measurement['rate']).toBeCloseTo(4 / 3.2);
  });

  it('of large bodies ends once there are bytes', async () => {
    const { target, rounds } = targetOf([{ ...nothing, bytes: 5e8, seconds: 0.5 }]);
    const { measurement } = await runSteadyLoad(target, load('gigabytes'));
    expect(rounds).toEqual([0.2]);
    expect(measurement['rate']).toBeCloseTo(1);
  });

  it('is given up where no answer ever arrives', async () => {
    const { target, rounds } = targetOf([nothing]);
    await expect(runSteadyLoad(target, load('requests'))).rejects.toThrow(/^peer: no answer within 51\.2 s$/);
    expect(rounds).toHaveLength(5);
  });

  it('fails at the first wrong answer', async () => {
    const { target, rounds } = targetOf([{ ...nothing, failures: 2 }]);
    await expect(runSteadyLoad(target, load('requests'))).rejects.toThrow('peer: 2 answers were not as wanted');
    expect(rounds).toHaveLength(1);
  });
});
