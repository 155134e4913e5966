import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { createFollowingSignal } from '../../src/http/tether.ts';

const gone = new Error('gone');

it('a tether is aborted with the signal that it follows, for the same reason, even if created later', () => {
  const followed = new AbortController();
  const early = createFollowingSignal(followed.signal);
  followed.abort(gone);
  const late = createFollowingSignal(followed.signal);
  expect([early.signal.reason, late.signal.reason]).toEqual([gone, gone]);
});

it('a tether can be aborted by itself, without the followed signal', () => {
  const followed = new AbortController();
  const tether = createFollowingSignal(followed.signal);
  tether.abort(gone);
  expect([tether.signal.reason, followed.signal.aborted]).toEqual([gone, false]);
});

it('a tether stops following once it is released, and leaves no listener behind', () => {
  const followed = new AbortController();
  const tether = createFollowingSignal(followed.signal);
  tether.release();
  expect(getEventListeners(followed.signal, 'abort')).toEqual([]);
  followed.abort(gone);
  expect(tether.signal.aborted).toBe(false);
});
