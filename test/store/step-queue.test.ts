import { describe, expect, it } from 'vitest';
import { StepQueue } from '../../src/store/disk/disk-writer.ts';

describe('a queue of steps', () => {
  it('begins the first step within the call', () => {
    const queue = new StepQueue();
    let isBegun = false;
    void queue.take(async () => {
      isBegun = true;
    });
    expect(isBegun).toBe(true);
  });

  it('begins each step when the one before has ended, also where that failed', async () => {
    const queue = new StepQueue();
    const first = Promise.withResolvers<string>();
    const seen: string[] = [];
    const one = queue.take(() => first.promise);
    const two = queue.take(async () => void seen.push('two'));
    const three = queue.take(async () => void seen.push('three'));
    await new Promise(setImmediate);
    expect(seen).toEqual([]);
    first.reject(new Error('broken'));
    await expect(one).rejects.toThrow('broken');
    await Promise.all([two, three]);
    expect(seen).toEqual(['two', 'three']);
  });

  it('is settled when all steps have ended', async () => {
    const queue = new StepQueue();
    const gate = Promise.withResolvers<void>();
    const seen: string[] = [];
    const step = queue.take(() => gate.promise.then(() => void seen.push('step')));
    const settled = queue.settled().then(() => void seen.push('settled'));
    gate.resolve();
    await Promise.all([step, settled]);
    expect(seen).toEqual(['step', 'settled']);
    await queue.settled();
  });
});
