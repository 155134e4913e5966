import { describe, expect, it } from 'vitest';
import { OperationFault } from '../../src/admin/operations.ts';
import { createReloads } from '../../src/setup/reload.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';

/** Creates reloads that end when the test says so, with a record of their log lines. */
function createSteered() {
  const lines: string[] = [];
  const begun: PromiseWithResolvers<void>[] = [];
  const reloads = createReloads({
    emit: (event: ServerEvent) => {
      if (event.kind === 'life') lines.push(`${event.stage}: ${event.message}`);
    },
    addresses: () => ['http://127.0.0.1:1'],
    perform: () => {
      const run = Promise.withResolvers<void>();
      begun.push(run);
      return run.promise;
    },
  });
  return { reloads, lines, begun };
}

describe('createReloads', () => {
  it('logs the beginning and the end of a reload', async () => {
    const { reloads, lines, begun } = createSteered();
    const reload = reloads.reload();
    expect(lines).toEqual(['reloading: reloading the configuration']);
    begun[0]?.resolve();
    await reload;
    expect(lines.slice(1)).toEqual(['reloaded: reloaded: serving http://127.0.0.1:1']);
  });

  it('logs each problem of a failed reload in its own line, and rejects with all of them', async () => {
    const { reloads, lines, begun } = createSteered();
    const reload = reloads.reload();
    begun[0]?.reject(new Error('this is wrong\nthat is wrong'));
    await expect(reload).rejects.toMatchObject({
      name: 'OperationFault',
      reason: 'invalid',
      message: /this.*\n.*that/,
    });
    expect(lines.slice(1)).toEqual([
      'reload_failed: the configuration stays as it is: this is wrong',
      'reload_failed: the configuration stays as it is: that is wrong',
    ]);
  });

  it('rejects with an operation fault as it is', async () => {
    const { reloads, begun } = createSteered();
    const reload = reloads.reload();
    const fault = new OperationFault('unavailable', 'no');
    begun[0]?.reject(fault);
    await expect(reload).rejects.toBe(fault);
  });

  it('runs reloads one after the other, and one for all requests made meanwhile', async () => {
    const { reloads, begun } = createSteered();
    const first = reloads.reload();
    const second = reloads.reload();
    expect(reloads.reload()).toBe(second);
    expect(begun).toHaveLength(1);
    begun[0]?.reject(new Error('it failed'));
    await expect(first).rejects.toThrow('it failed');
    await expect.poll(() => begun.length).toBe(2);
    // The second reload has begun and has read the configuration, so a new request needs a third one.
    const third = reloads.reload();
    expect(third).not.toBe(second);
    begun[1]?.resolve();
    await second;
    await expect.poll(() => begun.length).toBe(3);
    begun[2]?.resolve();
    await third;
    expect(begun).toHaveLength(3);
  });

  it('never runs two at once, even for a request between the two', async () => {
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

  it('begins no reload after the end, but logs the one in progress', async () => {
    const { reloads, lines, begun } = createSteered();
    const first = reloads.reload();
    const second = reloads.reload();
    reloads.end();
    begun[0]?.resolve();
    await first;
    await expect(second).rejects.toMatchObject({ reason: 'unavailable' });
    await expect(reloads.reload()).rejects.toMatchObject({ reason: 'unavailable' });
    expect(lines.map((line) => line.split(':')[0])).toEqual(['reloading', 'reloaded']);
  });
});
