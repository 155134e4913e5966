import { describe, expect, it } from 'vitest';
import { watchHeartbeat } from '../../src/fleet/worker-slot.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { turn } from '../support/clocks/turn.ts';

/** Somebody who answers when the test says so. */
function openPatient() {
  const clock = createFakeClock();
  const told: string[] = [];
  let asked = 0;
  let pending = Promise.withResolvers<void>();
  const stop = watchHeartbeat(
    {
      clock,
      beat: () => {
        asked += 1;
        pending = Promise.withResolvers<void>();
        return pending.promise;
      },
      onSilent: () => told.push('silent'),
      onHeard: () => told.push('heard'),
      onDead: () => told.push('dead'),
    },
    { intervalMs: 1000, silentAfter: 2, deadAfter: 4 },
  );
  return {
    clock,
    told,
    stop,
    asked: () => asked,
    answer: async () => {
      pending.resolve();
      await turn();
    },
    fail: async () => {
      pending.reject(new Error('gone'));
      await turn();
    },
  };
}

describe('a heartbeat', () => {
  it('tells nothing of whom it hears every time', async () => {
    const { clock, told, asked, answer, stop } = openPatient();
    for (let count = 0; count < 10; count += 1) {
      await answer();
      clock.advance(1000);
    }
    stop();
    expect({ told, asked: asked() }).toEqual({ told: [], asked: 11 });
  });

  it('asks once, and not again before it has heard', () => {
    const { clock, asked } = openPatient();
    clock.advance(3000);
    expect(asked()).toBe(1);
  });

  it('tells of silence, and of its end', async () => {
    const { clock, told, answer } = openPatient();
    clock.advance(1000);
    expect(told).toEqual([]);
    clock.advance(1000);
    expect(told).toEqual(['silent']);
    await answer();
    expect(told).toEqual(['silent', 'heard']);
    clock.advance(1000);
    await answer();
    expect(told).toEqual(['silent', 'heard']);
  });

  it('tells of a death once, and asks no more', async () => {
    const { clock, told, asked, answer } = openPatient();
    clock.advance(4000);
    expect(told).toEqual(['silent', 'dead']);
    clock.advance(100_000);
    await answer();
    expect({ told, asked: asked(), pending: clock.pending }).toEqual({
      told: ['silent', 'dead'],
      asked: 1,
      pending: 0,
    });
  });

  it('counts intervals and not time: who wakes up late has missed one', async () => {
    const { told, stop } = openPatient();
    stop();
    const timers: (() => void)[] = [];
    const after = (_: number, callback: () => void) => {
      timers.push(callback);
      return () => undefined;
    };
    const parts = { clock: { after }, beat: () => new Promise(() => undefined), onHeard: () => {}, onDead: () => {} };
    watchHeartbeat(
      { ...parts, onSilent: () => told.push('silent') },
      { intervalMs: 1000, silentAfter: 2, deadAfter: 4 },
    );
    // An hour has passed since, and one timer has come due.
    timers.shift()?.();
    expect(told).toEqual([]);
  });

  it('takes an answer that fails for none', async () => {
    const { clock, told, fail } = openPatient();
    await fail();
    clock.advance(4000);
    expect(told).toEqual(['silent', 'dead']);
  });

  it('ends when it is no longer wanted', () => {
    const { clock, told, stop } = openPatient();
    stop();
    clock.advance(10_000);
    expect({ told, pending: clock.pending }).toEqual({ told: [], pending: 0 });
  });
});
