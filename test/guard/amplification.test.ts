/** Bytes from the origin in proportion to delivered bytes: how much a client owes, and when its transfers are refused. */

import { describe, expect, it } from 'vitest';
import { OriginShare, type ShareRules } from '../../src/guard/limits/limited-origin.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';

/** A client may owe 1000 bytes. A second pays for 10 bytes, and so does a delivered byte. */
const rules: ShareRules = { factor: 10, freeBytes: 1000, windowMs: 100_000 };

function createShare(shareRules = rules) {
  const clock = { ms: 5 };
  return { clock, share: new OriginShare(shareRules, () => clock.ms) };
}

function describeRefusal(refusal: unknown): string {
  if (refusal === undefined) return 'may';
  if (!(refusal instanceof ProxyError) || refusal.code !== 'origin_share_spent') throw refusal;
  return `${refusal.fields.find(([name]) => name === 'retry-after')?.[1]} s, ${refusal.detail}`;
}

/** Returns `may` where a client may begin a transfer, and otherwise the Retry-After and the reason. */
function begun(share: OriginShare, client = 'a'): string {
  return describeRefusal(share.whyNotBegin(client));
}

const spent = (seconds: number) => `${seconds} s, the client has used up its share`;

describe('a client', () => {
  it.each<[owedBytes: number, want: string]>([
    [0, 'may'],
    [500, 'may'],
    [1000, 'may'],
    [1001, spent(1)],
    [1010, spent(1)],
    [1011, spent(2)],
    [6000, spent(500)],
  ])('that owes %i bytes begins a transfer: %s; other clients do', (owedBytes, want) => {
    const { share } = createShare();
    share.charge('a', owedBytes);
    expect(begun(share)).toBe(want);
    expect(begun(share, 'b')).toBe('may');
  });

  it.each<[owedBytes: number, want: string]>([
    [500, 'may'],
    [501, '1 s, no client reads the transfer'],
    [2000, '150 s, no client reads the transfer'],
  ])('that owes %i bytes keeps a transfer that no client reads: %s', (owedBytes, want) => {
    const { share } = createShare();
    share.charge('a', owedBytes);
    expect(describeRefusal(share.whyNotUnread('a'))).toBe(want);
    expect(share.whyNotUnread('b')).toBeUndefined();
  });

  it('begins a transfer again when delivered bytes have paid for it', () => {
    const { share } = createShare();
    share.charge('a', 2000);
    share.repay('a', 99);
    expect(begun(share)).toBe(spent(1));
    share.repay('a', 1);
    expect(begun(share)).toBe('may');
  });

  it('begins a transfer again when time has paid for it', () => {
    const { clock, share } = createShare();
    share.charge('a', 2000);
    clock.ms += 99_999;
    expect(begun(share)).toBe(spent(1));
    clock.ms += 1;
    expect(begun(share)).toBe('may');
  });

  it('gets no credit for bytes that were delivered before', () => {
    const { share } = createShare();
    share.repay('a', 1_000_000);
    share.charge('a', 1);
    share.repay('a', 1_000_000);
    share.charge('a', 1001);
    expect(begun(share)).toBe(spent(1));
  });
});

describe('amounts', () => {
  it.each([1e6, 100e9, 1e15])('are exact to a thousandth of %i free bytes after ten days', (freeBytes) => {
    const { clock, share } = createShare({ factor: 1, freeBytes, windowMs: 600_000 });
    clock.ms = 10 * 86_400_000;
    const chunk = Math.ceil(freeBytes / 500);
    for (let at = 0; at < 1000; at += 1) share.charge('a', chunk);
    share.repay('a', 1000 * chunk - freeBytes);
    expect(begun(share)).toBe('may');
    share.charge('a', freeBytes / 1000);
    expect(begun(share)).not.toBe('may');
  });
});
