/** Leases in a real engine: one holder in the whole fleet, fencing numbers, renewal, loss, and an engine that is away. */

import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { EngineLeases } from '../../src/fleet/engine/engine-leases.ts';
import type { FleetEngine } from '../../src/fleet/engine/fleet-engine.ts';
import { createSeal } from '../../src/store/redis/seal.ts';
import { createFakeClock, type FakeClock } from '../support/clocks/fake-clock.ts';
import { describeWithEngine } from '../support/engines/redis-server.ts';
import { TestEngine } from '../support/engines/test-engine.ts';

let engine: TestEngine;
let calls: FleetEngine;
beforeAll(async () => {
  engine = await TestEngine.start();
  calls = await engine.connect();
});
afterAll(async () => {
  await engine[Symbol.asyncDispose]();
});

let clock: FakeClock;
beforeEach(async () => {
  clock = createFakeClock();
  await engine.flush();
});

const leaseKey = (key: string) => `t:{${key}}:lease`;
const value = () => engine.server.command('GET', leaseKey('k'));
const end = () => engine.server.command('DEL', leaseKey('k'));
const leftMs = async () => Number(await engine.server.command('PTTL', leaseKey('k')));

function member(instance: string, connection: Pick<FleetEngine, 'run'> = calls) {
  const granted: string[] = [];
  const lost: string[] = [];
  const state = { isAway: false, isBehind: false, failures: 0, forged: 0 };
  const leases = new EngineLeases({
    engine: connection,
    instance,
    seal: createSeal(['the secret of the fleet']),
    onForged: () => {
      state.forged += 1;
    },
    address: () => `address of ${instance}`,
    leaseKey,
    clock,
    isAway: () => state.isAway,
    isBehind: () => state.isBehind,
    onFailure: () => {
      state.failures += 1;
    },
    onGranted: async (key) => void granted.push(key),
    onLost: (key) => lost.push(key),
  });
  return { leases, granted, lost, state };
}

/** Moves the clock on until a promise settles. */
async function asTimePasses<T>(promise: Promise<T>): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  promise.then(end, end);
  const pass = () => {
    clock.advance(100);
    return isOver;
  };
  await expect.poll(pass, { interval: 1 }).toBe(true);
  return await promise;
}

const theirs = (instance: string) => ({ kind: 'theirs', instance, socket: `address of ${instance}` });

describeWithEngine('a lease', () => {
  it('has one holder, which the others learn with its address, until it is released', async () => {
    const [a, b] = [member('a'), member('b')];
    expect(await a.leases.acquireLease('k')).toEqual({ kind: 'ours' });
    expect(await b.leases.acquireLease('k')).toEqual(theirs('a'));
    expect(await b.leases.acquireLease('other')).toEqual({ kind: 'ours' });
    expect(b.leases.fenceOf('k')).toBeUndefined();
    await a.leases.releaseLease('k');
    expect(a.leases.fenceOf('k')).toBeUndefined();
    expect(await b.leases.acquireLease('k')).toEqual({ kind: 'ours' });
    expect([a.granted, b.granted]).toEqual([['k'], ['other', 'k']]);
  });

  it('has a larger number than each one before it, also after a flush', async () => {
    const [a, b] = [member('a'), member('b')];
    const fences: number[] = [];
    for (const { leases } of [a, b, a]) {
      await leases.acquireLease('k');
      fences.push(leases.fenceOf('k') ?? 0);
      await leases.releaseLease('k');
    }
    await engine.flush();
    await b.leases.acquireLease('k');
    fences.push(b.leases.fenceOf('k') ?? 0);
    expect(fences).toEqual(fences.toSorted((one, other) => one - other));
    expect(new Set(fences).size).toBe(4);
    expect(fences[0]).toBeGreaterThan(1e15);
  });

  it('has a time limit, which its holder renews', async () => {
    const { leases } = member('a');
    await leases.acquireLease('k');
    await engine.server.command('PEXPIRE', leaseKey('k'), '1000');
    clock.advance(1_500);
    await leases.renew();
    expect(await leftMs()).toBeGreaterThan(3_000);
    await leases.releaseLease('k');
    expect(await value()).toBeNull();
    await leases.close();
    expect(clock.pending).toBe(0);
  });

  const forgeries: readonly (readonly [string, (value: string) => string])[] = [
    ['names another address', (value) => value.replace('address of b', 'attacker:1')],
    ['names another member', (value) => value.replace(' b ', ' c ')],
    ['has no tag, as earlier releases wrote it', (value) => value.replace(/ \S+ address/, ' address')],
    ['is no lease', () => 'nonsense'],
  ];
  for (const [name, forge] of forgeries) {
    it(`that ${name} is absent, and counted`, async () => {
      const [a, b] = [member('a'), member('b')];
      await b.leases.acquireLease('k');
      await engine.server.command('SET', leaseKey('k'), forge(String(await value())));
      expect(await a.leases.acquireLease('k')).toEqual({ kind: 'ours' });
      expect([a.state.forged, a.state.failures, a.leases.size]).toEqual([1, 0, 1]);
    });
  }

  it('of another key is absent', async () => {
    const [a, b] = [member('a'), member('b')];
    await b.leases.acquireLease('other');
    await engine.server.command('SET', leaseKey('k'), String(await engine.server.command('GET', leaseKey('other'))));
    expect(await a.leases.acquireLease('k')).toEqual({ kind: 'ours' });
    expect(a.state.forged).toBe(1);
  });

  it('is given up by a process that cannot keep up, whose writes are refused then', async () => {
    const [a, b] = [member('a'), member('b')];
    await a.leases.acquireLease('k');
    a.state.isBehind = true;
    await a.leases.renew();
    expect([a.leases.fenceOf('k'), a.lost, await value()]).toEqual([0, ['k'], null]);
    expect(await a.leases.acquireLease('k')).toEqual({ kind: 'ours' });
    expect(await b.leases.acquireLease('k')).toEqual({ kind: 'ours' });
    expect([a.leases.fenceOf('k'), (b.leases.fenceOf('k') ?? 0) > 0]).toEqual([0, true]);
  });

  it('that ended while no other process took it is put back with its number', async () => {
    const { leases, lost } = member('a');
    await leases.acquireLease('k');
    const before = await value();
    await end();
    await leases.renew();
    expect(await value()).toBe(before);
    expect(lost).toEqual([]);
  });

  it('that another process has taken is noticed as lost, and not released for it', async () => {
    const [a, b] = [member('a'), member('b')];
    await a.leases.acquireLease('k');
    await end();
    await b.leases.acquireLease('k');
    await a.leases.renew();
    expect(a.lost).toEqual(['k']);
    // Lower than any: what was begun under the lost lease is not stored.
    expect(a.leases.fenceOf('k')).toBe(0);
    await a.leases.releaseLease('k');
    expect(await a.leases.acquireLease('k')).toEqual(theirs('b'));
  });

  it('is released by its own holder only, even before the holder knows of its loss', async () => {
    const [a, b] = [member('a'), member('b')];
    await a.leases.acquireLease('k');
    await end();
    await b.leases.acquireLease('k');
    await a.leases.releaseLease('k');
    expect(await a.leases.acquireLease('k')).toEqual(theirs('b'));
  });
});

describeWithEngine('a holder that cannot be reached', () => {
  it('passes its lease on when it releases it, or when its time has passed', async () => {
    const [a, b] = [member('a'), member('b')];
    await a.leases.acquireLease('k');
    const waiting = b.leases.acquireLease('k', 'a');
    await end();
    expect(await asTimePasses(waiting)).toEqual({ kind: 'ours' });
    expect(b.leases.fenceOf('k')).toBeGreaterThan(a.leases.fenceOf('k') ?? 0);
  });

  it('is asked once more where it has renewed its lease, then left aside for a time', async () => {
    let looked = Promise.withResolvers<void>();
    const watched: Pick<FleetEngine, 'run'> = {
      run: (...call) => calls.run(...call).finally(() => looked.resolve()),
    };
    const [a, b] = [member('a'), member('b', watched)];
    await a.leases.acquireLease('k');
    const losing = async () => {
      await engine.server.command('PEXPIRE', leaseKey('k'), '2000');
      looked = Promise.withResolvers();
      const waiting = b.leases.acquireLease('k', 'a');
      await looked.promise;
      await a.leases.renew();
      return await asTimePasses(waiting);
    };
    expect(await losing()).toEqual(theirs('a'));
    // Other readers that lose it at the same time.
    expect(await losing()).toEqual(theirs('a'));
    clock.advance(1_000);
    // A lease that only this process knows.
    expect(await losing()).toEqual({ kind: 'ours' });
    expect(b.leases.fenceOf('k')).toBeUndefined();
    expect(await b.leases.acquireLease('k')).toEqual({ kind: 'ours' });
    expect(b.leases.size).toBe(0);
    clock.advance(11_000);
    expect(await b.leases.acquireLease('k')).toEqual(theirs('a'));
  });
});

describeWithEngine('an engine that is away', () => {
  it('is not asked: the process has leases that only it knows', async () => {
    const { leases, state } = member('a', { run: () => Promise.reject(new Error('asked')) });
    state.isAway = true;
    expect(await leases.acquireLease('k')).toEqual({ kind: 'ours' });
    await leases.releaseLease('k');
    await leases.renew();
    expect(state.failures).toBe(0);
  });

  it('is noticed by a call that fails', async () => {
    const { leases, state } = member('a', { run: () => Promise.reject(new Error('gone')) });
    expect(await leases.acquireLease('k')).toEqual({ kind: 'ours' });
    expect(state.failures).toBe(1);
  });

  it('may grant a lease too late: it is given back', async () => {
    const late = Promise.withResolvers<void>();
    const slow: Pick<FleetEngine, 'run'> = {
      run: async (...call) => {
        await late.promise;
        return await calls.run(...call);
      },
    };
    const { leases, state } = member('a', slow);
    const asking = leases.acquireLease('k');
    clock.advance(1_000);
    expect(await asking).toEqual({ kind: 'ours' });
    expect(state.failures).toBe(1);
    late.resolve();
    await expect.poll(async () => [await value(), leases.fenceOf('k')]).toEqual([null, undefined]);
  });

  it('is back: leases that only the process knew are claimed, and renewed from then on', async () => {
    const { leases, granted, lost, state } = member('a');
    state.isAway = true;
    for (const key of ['k', 'released']) await leases.acquireLease(key);
    await leases.releaseLease('released');
    state.isAway = false;
    await leases.claim();
    expect(await value()).toMatch(/^\d+ a \S+ address of a$/);
    expect(leases.fenceOf('k')).toBeGreaterThan(0);
    expect([granted, lost, leases.size]).toEqual([['k'], [], 1]);
    await leases.releaseLease('k');
    expect(await value()).toBeNull();
  });

  it('is back: a lease that another process has by now is lost, and what was begun under it is not stored', async () => {
    const [a, b] = [member('a'), member('b')];
    a.state.isAway = true;
    await a.leases.acquireLease('k');
    await b.leases.acquireLease('k');
    a.state.isAway = false;
    await a.leases.claim();
    expect([a.lost, a.leases.fenceOf('k'), a.leases.size]).toEqual([['k'], 0, 0]);
    expect(await value()).toMatch(/ b \S+ address of b$/);
  });

  it('is back: a lease that is released while it is claimed is given back', async () => {
    const { leases, state } = member('a');
    state.isAway = true;
    await leases.acquireLease('k');
    state.isAway = false;
    const claiming = leases.claim();
    await leases.releaseLease('k');
    await claiming;
    expect([await value(), leases.size]).toEqual([null, 0]);
  });

  it('keeps the leases of before: they are renewed when it is back', async () => {
    const { leases, lost, state } = member('a');
    await leases.acquireLease('k');
    const fence = leases.fenceOf('k');
    state.isAway = true;
    await leases.renew();
    expect(leases.fenceOf('k')).toBe(fence);
    await end();
    state.isAway = false;
    await leases.renew();
    expect(await leftMs()).toBeGreaterThan(0);
    expect(lost).toEqual([]);
  });
});
