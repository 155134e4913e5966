import { describe, expect, it } from 'vitest';
import { watchHeartbeat } from '../../src/fleet/worker-slot.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { turn } from '../support/clocks/turn.ts';

/** Watches a worker that answers when the test says so. */
function openWatch() {
  const clock = createFakeClock();
  const events: string[] = [];
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
      onSilent: () => events.push('silent'),
      onHeard: () => events.push('heard'),
      onDead: () => events.push('dead'),
    },
    { intervalMs: 1000, silentAfter: 2, deadAfter: 4 },
  );
  return {
    clock,
    events,
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
  it('reports nothing while each beat is answered', async () => {
    const { clock, events, asked, answer, stop } = openWatch();
    for (let count = 0; count < 10; count += 1) {
      await answer();
      clock.advance(1000);
    }
    stop();
    expect({ events, asked: asked() }).toEqual({ events: [], asked: 11 });
  });

  it('does not ask again before it has an answer', () => {
    const { clock, asked } = openWatch();
    clock.advance(3000);
    expect(asked()).toBe(1);
  });

  it('reports silence, and its end', async () => {
    const { clock, events, answer } = openWatch();
    clock.advance(1000);
    expect(events).toEqual([]);
    clock.advance(1000);
    expect(events).toEqual(['silent']);
    await answer();
    expect(events).toEqual(['silent', 'heard']);
    clock.advance(1000);
    await answer();
    expect(events).toEqual(['silent', 'heard']);
  });

  it('reports a death once, and asks no more', async () => {
    const { clock, events, asked, answer } = openWatch();
    clock.advance(4000);
    expect(events).toEqual(['silent', 'dead']);
    clock.advance(100_000);
    await answer();
    expect({ events, asked: asked(), pending: clock.pending }).toEqual({
      events: ['silent', 'dead'],
      asked: 1,
      pending: 0,
    });
  });

  it('counts intervals and not time: a process that wakes up late has missed only one', async () => {
    const { events, stop } = openWatch();
    stop();
    const timers: (() => void)[] = [];
    const after = (_: number, callback: () => void) => {
      timers.push(callback);
      return () => undefined;
    };
    const parts = { clock: { after }, beat: () => new Promise(() => undefined), onHeard: () => {}, onDead: () => {} };
    watchHeartbeat(
      { ...parts, onSilent: () => events.push('silent') },
      { intervalMs: 1000, silentAfter: 2, deadAfter: 4 },
    );
    // Even if an hour has passed, only one timer fires.
    timers.shift()?.();
    expect(events).toEqual([]);
  });

  it('counts a failed answer as none', async () => {
    const { clock, events, fail } = openWatch();
    await fail();
    clock.advance(4000);
    expect(events).toEqual(['silent', 'dead']);
  });

  it('ends when it is stopped', () => {
    const { clock, events, stop } = openWatch();
    stop();
    clock.advance(10_000);
    expect({ events, pending: clock.pending }).toEqual({ events: [], pending: 0 });
  });
});
