import { describe, expect, it } from 'vitest';
import { Revocation } from '../../src/cache/collapse/flight.ts';

describe('an invalidation during a flight', () => {
  it('concerns a response with the key, before and after it has arrived', () => {
    const early = new Revocation();
    early.revoke();
    expect(early.isRevokedFor()).toBe(true);
    early.settle(['g']);
    expect(early.isRevokedFor()).toBe(true);

    const late = new Revocation();
    late.settle(undefined);
    expect(late.isRevokedFor()).toBe(false);
    late.revoke();
    expect(late.isRevokedFor()).toBe(true);
  });

  it('concerns a response that turns out to have the tag', () => {
    const revocation = new Revocation();
    revocation.revokeTagged('g');
    expect([revocation.isRevokedFor(), revocation.isRevokedFor(['h']), revocation.isRevokedFor(['h', 'g'])]).toEqual([
      false,
      false,
      true,
    ]);
    revocation.settle(['h', 'g']);
    expect(revocation.isRevokedFor()).toBe(true);
  });

  it('concerns a response that has the tag at that time, not one that gets it later', () => {
    const revocation = new Revocation();
    revocation.settle(['g']);
    revocation.revokeTagged('h', ['g']);
    expect(revocation.isRevokedFor(['h'])).toBe(false);
    revocation.revokeTagged('g', ['g']);
    expect(revocation.isRevokedFor()).toBe(true);
  });

  it('keeps no tags once the response has arrived', () => {
    const revocation = new Revocation();
    for (const tag of ['g', 'h', 'g']) revocation.revokeTagged(tag);
    expect(revocation.tagCount).toBe(2);
    revocation.settle([]);
    for (const tag of ['i', 'j']) revocation.revokeTagged(tag, []);
    expect(revocation.tagCount).toBe(0);
  });

  it('came before a request only if the request joined after the tag was invalidated', () => {
    const revocation = new Revocation();
    revocation.revokeTagged('g');
    revocation.revokeTagged('h');
    revocation.settle(['h']);
    expect([0, 1, 2].map((count) => revocation.wasInvalidFor(count))).toEqual([false, false, true]);
  });
});
