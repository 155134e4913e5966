import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ConnectionSlot, createConnectionLimits } from '../../src/listener/accept/connection-limits.ts';

const noneExempt = () => false;

describe('createConnectionLimits', () => {
  it('limits the connections of all clients together', () => {
    const limits = createConnectionLimits({ connections: 2, connectionsPerClient: 0, isExempt: noneExempt });
    const place = limits.enter();
    expect(limits.enter()).toBeDefined();
    expect(limits.enter()).toBeUndefined();
    place?.leave();
    expect(limits.enter()).toBeDefined();
    expect(limits.enter()).toBeUndefined();
  });

  it('has no limits where they are 0', () => {
    const limits = createConnectionLimits({ connections: 0, connectionsPerClient: 0, isExempt: noneExempt });
    for (let count = 0; count < 1000; count += 1) {
      expect(limits.enter()?.takeFor('192.0.2.1')).toBe(true);
    }
  });

  it.each<[first: string, second: string, isSame: boolean]>([
    ['192.0.2.1', '192.0.2.1', true],
    ['192.0.2.1', '192.0.2.2', false],
    ['2001:db8::1', '2001:db8::2', true],
    ['2001:db8::1', '2001:db8:0:0:ffff:ffff:ffff:ffff', true],
    ['2001:db8:0:1::1', '2001:db8:0:1:a::', true],
    ['2001:db8:0:1::1', '2001:db8:0:2::1', false],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:f::', true],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:3::', false],
    ['::1', '::2', true],
    ['::1', '1::', false],
    ['64:ff9b::192.0.2.1', '64:ff9b::c000:202', true],
  ])('%s and %s are one client: %s', (first, second, isSame) => {
    const limits = createConnectionLimits({ connections: 0, connectionsPerClient: 1, isExempt: noneExempt });
    expect(limits.enter()?.takeFor(first)).toBe(true);
    expect(limits.enter()?.takeFor(second)).toBe(!isSame);
  });

  it('leave room for further clients where they are to: six clients do not take 200', () => {
    const limits = createConnectionLimits({
      connections: 200,
      connectionsPerClient: 200,
      leavesRoom: true,
      isExempt: noneExempt,
    });
    const take = (address: string): number => {
      for (let count = 0; ; count += 1) {
        const place = limits.enter();
        if (place?.takeFor(address) === true) continue;
        place?.leave();
        return count;
      }
    };
    const counts = Array.from({ length: 6 }, (_, at) => take(`192.0.2.${at}`));
    expect(counts.slice(0, 3)).toEqual([100, 50, 25]);
    expect(limits.enter()?.takeFor('192.0.2.100')).toBe(true);
  });

  it('does not count peers at Unix sockets, nor exempt addresses', () => {
    const isExempt = (address: string) => address === '10.0.0.1';
    const limits = createConnectionLimits({ connections: 0, connectionsPerClient: 1, isExempt });
    const isTaken = (address: string) => limits.enter()?.takeFor(address);
    for (const address of ['', '', '10.0.0.1', '10.0.0.1', '192.0.2.1']) expect(isTaken(address)).toBe(true);
    expect(isTaken('192.0.2.1')).toBe(false);
  });

  it('applies changed limits from the next connection on, and counts open connections', () => {
    const limits = createConnectionLimits({ connections: 0, connectionsPerClient: 0, isExempt: noneExempt });
    const places = [1, 2].map(() => limits.enter());
    for (const place of places) place?.takeFor('192.0.2.1');
    limits.adjust({ connections: 2, connectionsPerClient: 1, isExempt: noneExempt });
    expect(limits.enter()).toBeUndefined();
    places[0]?.leave();
    const next = limits.enter();
    expect(next?.takeFor('192.0.2.2')).toBe(true);
    limits.adjust({ connections: 0, connectionsPerClient: 1, isExempt: (address) => address === '192.0.2.2' });
    expect(limits.enter()?.takeFor('192.0.2.2')).toBe(true);
    expect(limits.enter()?.takeFor('192.0.2.3')).toBe(true);
    expect(limits.enter()?.takeFor('192.0.2.3')).toBe(false);
  });

  it('counts the open connections of each client at any time', () => {
    const steps = fc.array(
      fc.record({ address: fc.constantFrom('192.0.2.1', '192.0.2.2', '::1'), isLeaving: fc.boolean() }),
    );
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 4 }), (plan, connectionsPerClient) => {
        const limits = createConnectionLimits({ connections: 0, connectionsPerClient, isExempt: noneExempt });
        const present: { address: string; place: ConnectionSlot | undefined }[] = [];
        for (const { address, isLeaving } of plan) {
          const mine = present.filter((each) => each.address === address);
          if (isLeaving && mine[0] !== undefined) {
            mine[0].place?.leave();
            present.splice(present.indexOf(mine[0]), 1);
          } else if (!isLeaving) {
            const place = limits.enter();
            const isTaken = place?.takeFor(address);
            expect(isTaken).toBe(mine.length < connectionsPerClient);
            // A refused connection gives its place back, and was never counted for its client.
            if (isTaken === true) present.push({ address, place });
            else place?.leave();
          }
        }
      }),
    );
  });
});
