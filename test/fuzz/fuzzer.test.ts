/** The fuzzer finds planted faults. */

import { describe, expect, it } from 'vitest';
import { Coverage } from './coverage.ts';
import { fuzz, slowness } from './fuzzer.ts';
import { createChance, longestInput, mutate, stretch } from './mutator.ts';
import type { Target } from './target.ts';

const planted: Omit<Target, 'check'> = { name: 'planted', seeds: ['some text'], words: [] };

async function fuzzPlanted(seed: number, mostRuns: number) {
  using coverage = new Coverage((url) => url.endsWith('planted.ts'));
  const { plantedFault } = await import('./planted.ts');
  const tried: string[] = [];
  const result = fuzz({
    target: { ...planted, check: plantedFault },
    corpus: [],
    chance: createChance(seed),
    coverage,
    mayGoOn: (runs) => runs < mostRuns,
    onRun: (input) => tried.push(input),
  });
  return { ...result, tried };
}

describe('the fuzzer', () => {
  it('finds a fault behind several branches by coverage, and shortens its input', async () => {
    const { failure, found } = await fuzzPlanted(1, 400_000);
    expect(failure?.error.message).toBe('broken: the planted promise');
    expect(failure?.input).toBe('fault!');
    expect(found.length).toBeGreaterThan(2);
  });

  it('tries the same inputs with the same seed', async () => {
    const [one, other] = [await fuzzPlanted(5, 3000), await fuzzPlanted(5, 3000)];
    expect(one.tried).toEqual(other.tried);
    expect(one.tried.length).toBeGreaterThanOrEqual(3000);
  });

  it('tells a time that grows with the square of the length from a linear time', () => {
    let sum = 0;
    const linear = (input: string): void => {
      for (let at = 0; at < input.length; at += 1) sum += input.charCodeAt(at);
    };
    const square = (input: string): void => {
      for (let end = 0; end < input.length; end += 32) linear(input.slice(0, end));
    };
    const long = 'a'.repeat(longestInput);
    expect(slowness({ ...planted, check: square }, long)?.message).toMatch(/octets take \d+ ms/);
    expect(slowness({ ...planted, check: linear }, long)).toBeUndefined();
    expect(sum).toBeGreaterThan(0);
  });

  it('does not count time in which the thread does not run', () => {
    const cell = new Int32Array(new SharedArrayBuffer(4));
    const waits = (input: string) => void (input.length === longestInput && Atomics.wait(cell, 0, 0, 400));
    expect(slowness({ ...planted, check: waits }, 'a'.repeat(longestInput))).toBeUndefined();
  });
});

describe('inputs', () => {
  it('are octets of bounded length', () => {
    const chance = createChance(7);
    const pool = ['a, b', '"\xff"', ''];
    for (let count = 0; count < 3000; count += 1) {
      const input = mutate(pool, ['word'], chance);
      expect(input.length).toBeLessThanOrEqual(400);
      expect(input).toMatch(/^[\0-\xff]*$/);
      pool.push(input);
    }
    for (let count = 0; count < 20; count += 1) {
      expect(stretch(pool, ['word'], chance).length).toBeGreaterThan(longestInput / 2);
    }
  });
});
