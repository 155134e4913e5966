/** Reasons why responses were not stored: the last one of each key, for a limited number of keys. */

import { describe, expect, it } from 'vitest';
import { NotStoredReasons } from '../../src/cache/lookup/hit-for-pass.ts';

const refusal = (reason: string, at = 0) => ({ reason, status: 200, at });

describe('the reasons why responses were not stored', () => {
  it('are kept by key, the last one of each', () => {
    const refusals = new NotStoredReasons();
    refusals.note('a', refusal('private', 1));
    refusals.note('b', refusal('no-store', 2));
    refusals.note('a', refusal('status', 3));
    expect(refusals.last('a')).toEqual(refusal('status', 3));
    expect(refusals.last('b')).toEqual(refusal('no-store', 2));
    expect(refusals.last('c')).toBeUndefined();
  });

  it('are forgotten when a response is stored', () => {
    const refusals = new NotStoredReasons();
    refusals.note('a', refusal('private'));
    refusals.forget('a');
    expect(refusals.last('a')).toBeUndefined();
  });

  it('are kept for at most ten thousand keys, those that were noted last', () => {
    const refusals = new NotStoredReasons();
    refusals.note('kept', refusal('private'));
    for (let at = 0; at < 9_999; at += 1) refusals.note(`k${at}`, refusal('private'));
    refusals.note('kept', refusal('private'));
    refusals.note('one more', refusal('private'));
    expect(['k0', 'k1', 'kept', 'one more'].map((key) => refusals.last(key) !== undefined)).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });
});
