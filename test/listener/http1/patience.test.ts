/** Time limits of a connection, counted in checks. */

import { describe, expect, it } from 'vitest';
import type { ListenerLimits } from '../../../src/listener/listener.ts';
import { type ConnectionSnapshot, ConnectionWatch, Timeouts } from '../../../src/listener/timeouts.ts';
import { testLimits } from '../../support/proxies/open-listener.ts';

const view: ConnectionSnapshot = { waiting: 'next', requests: 1, progress: 0, isClientsTurn: true };
const limits = { headersTimeoutMs: 400, requestTimeoutMs: 1_000, keepAliveTimeoutMs: 3_000, idleTimeoutMs: 600 };

/** Returns the number of checks until one reports an exceeded limit, and that limit; 0 and `never` where none does. */
function looksUntil(of: Partial<ListenerLimits>, see: (look: number) => Partial<ConnectionSnapshot>): [number, string] {
  const watch = new ConnectionWatch(new Timeouts({ ...testLimits, ...of }));
  for (let look = 0; look < 1_000; look += 1) {
    const passed = watch.look({ ...view, ...see(look) });
    if (passed !== undefined) return [look + 1, passed];
  }
  return [0, 'never'];
}

describe('a time limit', () => {
  it.each<[string, Partial<ListenerLimits>, number | undefined]>([
    ['none', {}, 5_000],
    ['one', { headersTimeoutMs: 400 }, 100],
    ['several', limits, 100],
    ['a keep-alive time, with a second on top', { keepAliveTimeoutMs: 1_000 }, 500],
    ['a long one', { idleTimeoutMs: 3_600_000 }, 5_000],
    ['a short one', { idleTimeoutMs: 1 }, 20],
  ])('is checked at a quarter of the shortest limit: %s', (_name, of, periodMs) => {
    expect(new Timeouts({ ...testLimits, ...of }).periodMs).toBe(periodMs);
  });

  it.each<[string, Partial<ListenerLimits>, (look: number) => Partial<ConnectionSnapshot>, [number, string]]>([
    ['applies to the first head', limits, () => ({ waiting: 'first', requests: 0 }), [5, 'request']],
    ['applies to a head that trickles', limits, (look) => ({ waiting: 'head', progress: look }), [5, 'request']],
    ['applies to a body that trickles', limits, (look) => ({ waiting: 'body', progress: look }), [11, 'request']],
    [
      'applies to a request, including the time of its head',
      limits,
      (look) => ({ waiting: look < 3 ? 'head' : 'body', progress: look }),
      [11, 'request'],
    ],
    [
      'applies to a head, where only requests have a limit',
      { requestTimeoutMs: 400 },
      () => ({ waiting: 'head' }),
      [5, 'request'],
    ],
    [
      'applies to a head, no longer than to a request',
      { headersTimeoutMs: 5_000, requestTimeoutMs: 1_000 },
      () => ({ waiting: 'head' }),
      [5, 'request'],
    ],
    ['applies to the next request', limits, () => ({}), [41, 'quiet']],
    ['applies to the next request, without a keep-alive time', { idleTimeoutMs: 400 }, () => ({}), [5, 'quiet']],
    ['applies to a client that reads its response', limits, () => ({ waiting: 'nothing' }), [7, 'quiet']],
    ['does not apply in our turn', limits, () => ({ waiting: 'nothing', isClientsTurn: false }), [0, 'never']],
    ['does not apply while bytes are taken', limits, (look) => ({ waiting: 'nothing', progress: look }), [0, 'never']],
    [
      'does not apply while requests keep beginning',
      limits,
      (look) => ({ waiting: 'head', requests: look, progress: look }),
      [0, 'never'],
    ],
    ['does not apply where none is set', {}, () => ({ waiting: 'head' }), [0, 'never']],
    [
      'begins anew with each request',
      limits,
      (look) => ({ waiting: 'head', requests: Math.min(3, look), progress: look }),
      [8, 'request'],
    ],
    [
      "begins anew when it is the client's turn",
      limits,
      (look) => ({ waiting: 'nothing', isClientsTurn: look > 20 }),
      [27, 'quiet'],
    ],
  ])('%s', (_name, of, see, expected) => {
    expect(looksUntil(of, see)).toEqual(expected);
  });
});
