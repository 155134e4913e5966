import { describe, expect, it } from 'vitest';
import { OperationFault } from '../../src/admin/operations.ts';
import { createReloads } from '../../src/setup/reload.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';

/** Reloads that take as long as the test wants, and what was told of them. */
function createSteered() {
  const told: string[] = [];
  const begun: PromiseWithResolvers<void>[] = [];
  const reloads = createReloads({
    emit: (event: ServerEvent) => {
      if (event.kind === 'life') told.push(`${event.stage}: ${event.message}`);
    },
    addresses: () => ['http://127.0.0.1:1'],
    perform: () => {
      const run = Promise.withResolvers<void>();
      begun.push(run);
      return run.promise;
    },
  });
  return { reloads, told, begun };
}

describe('createReloads', () => {
  it('tells of one that begins and ends', async () => {
    const { reloads, told, begun } = createSteered();
    const reload = reloads.reload();
    expect(told).toEqual(['reloading: reloading the configuration']);
    begun[0]?.resolve();
    await reload;
    expect(told.slice(1)).toEqual(['reloaded: reloaded: serving http://127.0.0.1:1']);
  });

  it('tells each problem of one that fails in a line of its own, and rejects with all of them', async () => {
    const { reloads, told, begun } = createSteered();
    const reload = reloads.reload();
    begun[0]?.reject(new Error('this is wrong\nthat is wrong'));
    await expect(reload).rejects.toMatchObject({
      name: 'OperationFault',
      reason: 'invalid',
      message: /this.*\n.*that/,
    });
    expect(told.slice(1)).toEqual([
      'reload_failed: the configuration stays as it is: this is wrong',
      'reload_failed: the configuration stays as it is: that is wrong',
    ]);
  });

  it('passes on what an operation rejects with', async () => {
    const { reloads, begun } = createSteered();
    const reload = reloads.reload();
    const fault = new OperationFault('unavailable', 'no');
    begun[0]?.reject(fault);
    await expect(reload).rejects.toBe(fault);
  });

  it('begins one after the other, and one for all who have asked meanwhile', async () => {
    const { reloads, begun } = createSteered();
    const first = reloads.reload();
    const second = reloads.reload();
    expect(reloads.reload()).toBe(second);
    expect(begun).toHaveLength(1);
    begun[0]?.reject(new Error('it failed'));
    await expect(first).rejects.toThrow('it failed');
    await expect.poll(() => begun.length).toBe(2);
    // What has begun has read what there was: who asks now wants another one.
    const third = reloads.reload();
    expect(third).not.toBe(second);
    begun[1]?.resolve();
    await second;
    await expect.poll(() => begun.length).toBe(3);
    begun[2]?.resolve();
    await third;
    expect(begun).toHaveLength(3);
  });

  it('begins no two at once, whoever asks in the moment between them', async () => {
    const { reloads, begun } = createSteered();
    const first = reloads.reload();
    const atItsEnd = first.then(() => reloads.reload());
    const second = reloads.reload();
    begun[0]?.resolve();
    await first;
    await expect.poll(() => begun.length).toBeGreaterThan(1);
    expect(begun).toHaveLength(2);
    begun[1]?.resolve();
    await Promise.all([atItsEnd, second]);
    expect(begun).toHaveLength(2);
  });

  it('begins none after the end; the one that is under way is told of all the same', async () => {
    const { reloads, told, begun } = createSteered();
    const first = reloads.reload();
    const second = reloads.reload();
    reloads.end();
    begun[0]?.resolve();
    await first;
    await expect(second).rejects.toMatchObject({ reason: 'unavailable' });
    await expect(reloads.reload()).rejects.toMatchObject({ reason: 'unavailable' });
    expect(told.map((line) => line.split(':')[0])).toEqual(['reloading', 'reloaded']);
  });
});
