/** Limits of time, in looks at a connection. */

import { describe, expect, it } from 'vitest';
import type { ListenerLimits } from '../../../src/listener/listener.ts';
import { ConnectionWatch, Timeouts, type View } from '../../../src/listener/timeouts.ts';
import { testLimits } from '../../support/proxies/open-listener.ts';

const view: View = { waiting: 'next', requests: 1, progress: 0, isClientsTurn: true };
const limits = { headersTimeoutMs: 400, requestTimeoutMs: 1_000, keepAliveTimeoutMs: 3_000, idleTimeoutMs: 600 };

/** How many looks in all it takes until one of them says that a limit was passed, which it says then; 0 for never. */
function looksUntil(of: Partial<ListenerLimits>, see: (look: number) => Partial<View>): [number, string] {
  const watch = new ConnectionWatch(new Timeouts({ ...testLimits, ...of }));
  for (let look = 0; look < 1_000; look += 1) {
    const passed = watch.look({ ...view, ...see(look) });
    if (passed !== undefined) return [look + 1, passed];
  }
  return [0, 'never'];
}

describe('a time', () => {
  it.each<[string, Partial<ListenerLimits>, number | undefined]>([
    ['none', {}, 5_000],
    ['one', { headersTimeoutMs: 400 }, 100],
    ['several', limits, 100],
    ['that of a connection that is kept, with a second on top', { keepAliveTimeoutMs: 1_000 }, 500],
    ['a long one', { idleTimeoutMs: 3_600_000 }, 5_000],
    ['a short one', { idleTimeoutMs: 1 }, 20],
  ])('is looked after at a quarter of the shortest limit: %s', (_name, of, periodMs) => {
    expect(new Timeouts({ ...testLimits, ...of }).periodMs).toBe(periodMs);
  });

  it.each<[string, Partial<ListenerLimits>, (look: number) => Partial<View>, [number, string]]>([
    ['for the first head', limits, () => ({ waiting: 'first', requests: 0 }), [5, 'request']],
    ['for a head, however it trickles', limits, (look) => ({ waiting: 'head', progress: look }), [5, 'request']],
    ['for a body, however it trickles', limits, (look) => ({ waiting: 'body', progress: look }), [11, 'request']],
    [
      'for a request, with the time of its head',
      limits,
      (look) => ({ waiting: look < 3 ? 'head' : 'body', progress: look }),
      [11, 'request'],
    ],
    [
      'for a head, where only requests have one',
      { requestTimeoutMs: 400 },
      () => ({ waiting: 'head' }),
      [5, 'request'],
    ],
    [
      'for a head, no longer than for a request',
      { headersTimeoutMs: 5_000, requestTimeoutMs: 1_000 },
      () => ({ waiting: 'head' }),
      [5, 'request'],
    ],
    ['for another request', limits, () => ({}), [41, 'quiet']],
    ['for another request, where no time for that is set', { idleTimeoutMs: 400 }, () => ({}), [5, 'quiet']],
    ['for a client to take its response', limits, () => ({ waiting: 'nothing' }), [7, 'quiet']],
    ['is none where we are waited for', limits, () => ({ waiting: 'nothing', isClientsTurn: false }), [0, 'never']],
    ['is none where something is taken', limits, (look) => ({ waiting: 'nothing', progress: look }), [0, 'never']],
    [
      'is none where requests come',
      limits,
      (look) => ({ waiting: 'head', requests: look, progress: look }),
      [0, 'never'],
    ],
    ['is none without limits', {}, () => ({ waiting: 'head' }), [0, 'never']],
    [
      'begins anew with each request',
      limits,
      (look) => ({ waiting: 'head', requests: Math.min(3, look), progress: look }),
      [8, 'request'],
    ],
    [
      'begins anew when the client may go on',
      limits,
      (look) => ({ waiting: 'nothing', isClientsTurn: look > 20 }),
      [27, 'quiet'],
    ],
  ])('%s', (_name, of, see, expected) => {
    expect(looksUntil(of, see)).toEqual(expected);
  });
});
