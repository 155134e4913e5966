import { describe, expect, it } from 'vitest';
import { Revocation } from '../../src/cache/collapse/flight.ts';

describe('what is invalidated while something is on its way', () => {
  it('concerns it when it is its key, before and after it has come', () => {
    const early = new Revocation();
    early.revoke();
    expect(early.concerns()).toBe(true);
    early.settle(['g']);
    expect(early.concerns()).toBe(true);

    const late = new Revocation();
    late.settle(undefined);
    expect(late.concerns()).toBe(false);
    late.revoke();
    expect(late.concerns()).toBe(true);
  });

  it('concerns it when it turns out to have the tag', () => {
    const revocation = new Revocation();
    revocation.revokeTagged('g');
    expect([revocation.concerns(), revocation.concerns(['h']), revocation.concerns(['h', 'g'])]).toEqual([
      false,
      false,
      true,
    ]);
    revocation.settle(['h', 'g']);
    expect(revocation.concerns()).toBe(true);
  });

  it('concerns it when it has the tag at that time, not when it gets it later', () => {
    const revocation = new Revocation();
    revocation.settle(['g']);
    revocation.revokeTagged('h', ['g']);
    expect(revocation.concerns(['h'])).toBe(false);
    revocation.revokeTagged('g', ['g']);
    expect(revocation.concerns()).toBe(true);
  });

  it('keeps no tags in mind once it has come', () => {
    const revocation = new Revocation();
    for (const tag of ['g', 'h', 'g']) revocation.revokeTagged(tag);
    expect(revocation.tagCount).toBe(2);
    revocation.settle([]);
    for (const tag of ['i', 'j']) revocation.revokeTagged(tag, []);
    expect(revocation.tagCount).toBe(0);
  });

  it('is over for those only who came after the tag was invalidated', () => {
    const revocation = new Revocation();
    revocation.revokeTagged('g');
    revocation.revokeTagged('h');
    revocation.settle(['h']);
    expect([0, 1, 2].map((count) => revocation.wasOverFor(count))).toEqual([false, false, true]);
  });
});
