import { describe, expect, it } from 'vitest';
import { createWaiters } from '../../src/cache/fill/readers.ts';

describe('waiters', () => {
  it('does not wait for a condition that holds already', async () => {
    await createWaiters().wait(() => true);
  });

  it('resolves each waiter when its own condition holds, and not before', async () => {
    const waiters = createWaiters();
    const met: number[] = [];
    let level = 0;
    const all = [3, 1, 2].map((wanted) => waiters.wait(() => level >= wanted).then(() => met.push(wanted)));
    level = 1;
    waiters.changed();
    await all[1];
    expect(met).toEqual([1]);
    level = 3;
    waiters.changed();
    await Promise.all(all);
    expect(met).toEqual([1, 3, 2]);
  });

  it('rejects with what the condition throws', async () => {
    const waiters = createWaiters();
    let failure: Error | undefined;
    const waiting = waiters.wait(() => {
      if (failure !== undefined) throw failure;
      return false;
    });
    failure = new Error('broken');
    waiters.changed();
    await expect(waiting).rejects.toThrow('broken');
  });

  it('rejects with the reason of an aborted signal, before and while it waits', async () => {
    const waiters = createWaiters();
    const leaving = new AbortController();
    const waiting = waiters.wait(() => false, leaving.signal);
    leaving.abort(new Error('left'));
    await expect(waiting).rejects.toThrow('left');
    await expect(waiters.wait(() => true, leaving.signal)).rejects.toThrow('left');
  });
});
