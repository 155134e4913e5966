import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { createTether } from '../../src/http/tether.ts';

const gone = new Error('gone');

it('is aborted with the signal that it follows, before or later, for the same reason', () => {
  const followed = new AbortController();
  const early = createTether(followed.signal);
  followed.abort(gone);
  const late = createTether(followed.signal);
  expect([early.signal.reason, late.signal.reason]).toEqual([gone, gone]);
});

it('is aborted by itself, and leaves the other one alone', () => {
  const followed = new AbortController();
  const tether = createTether(followed.signal);
  tether.abort(gone);
  expect([tether.signal.reason, followed.signal.aborted]).toEqual([gone, false]);
});

it('follows no more once it was released, and leaves nothing behind', () => {
  const followed = new AbortController();
  const tether = createTether(followed.signal);
  tether.release();
  expect(getEventListeners(followed.signal, 'abort')).toEqual([]);
  followed.abort(gone);
  expect(tether.signal.aborted).toBe(false);
});
