/** The names of clients in limits: which addresses count as one client. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clientName } from '../../src/guard/client.ts';

describe('the name of a client', () => {
  it.each([
    ['', 'unknown'],
    ['192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::ffff', '2001:db8:1:2::/64'],
    ['2001:db8::3:4:5:6', '2001:db8:0:0::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['1::2:3:4:5:6:7', '1:0:2:3::/64'],
    ['::2:3:4:5:6:7:8', '0:2:3:4::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
    ['1::2:3:4:5:192.0.2.7', '1:0:2:3::/64'],
    ['1:2:3:4:5:6:192.0.2.7', '1:2:3:4::/64'],
  ])('%j is %j', (address, name) => expect(clientName(address)).toBe(name));

  it('is the /64 prefix of an IPv6 address in any notation', () => {
    const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(groups, fc.nat(7), fc.nat(8), fc.boolean(), (all, from, length, isLong) => {
        const zeroed = all.map((group, index) => (index >= from && index < from + length ? 0 : group));
        const text = zeroed.map((group) => group.toString(16).padStart(isLong ? 4 : 1, '0'));
        const end = Math.min(8, from + length);
        const short = `${text.slice(0, from).join(':')}::${text.slice(end).join(':')}`;
        const want = `${zeroed
          .slice(0, 4)
          .map((group) => group.toString(16))
          .join(':')}::/64`;
        expect(clientName(text.join(':'))).toBe(want);
        if (length > 0) expect(clientName(short)).toBe(want);
      }),
    );
  });
});
