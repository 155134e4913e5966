/** A request with more ranges than `ranges.maxRanges` is one for the whole, at every step (RFC 9110 §14.2, §17.15). */

import { afterEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { fetched, settled } from '../support/clients/conversation.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const whole = Buffer.from(patternBytes(0, size));

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(() => proxy.close());

function start(maxRanges: number, more: Parameters<typeof createWholeProxy>[0] = {}): void {
  proxy = createWholeProxy({ originRanges: 'auto', route: { ranges: { maxRanges, coalesceGapBytes: 0 } }, ...more });
  origin = createRangeOrigin(proxy.origin);
}

/** A Range of `count` single bytes, each far from the next. */
const ranges = (count: number) =>
  `bytes=${Array.from({ length: count }, (_, at) => `${at * 50}-${at * 50}`).join(',')}`;

describe('a request with as many ranges as allowed', () => {
  it('is answered by the parts, and one with more by the whole, both cold and stored', async () => {
    start(3);
    for (const [target, count, status] of [
      ['/a', 3, 206],
      ['/b', 4, 200],
    ] as const) {
      const cold = proxy.send({ target, fields: { range: ranges(count) } });
      await origin.give();
      expect(await cold.status()).toBe(status);
      if (status === 200) expect(await cold.bytes()).toEqual(whole);
      await settled();
    }
    // No part was asked for where the whole is sent.
    expect(origin.asked).toEqual(['bytes=0-1023', 'whole']);
    const hit = proxy.send({ target: '/b', fields: { range: ranges(4) } });
    expect(await hit.bytes()).toEqual(whole);
    expect(await hit.field('cache-status')).toContain('hit');
  });

  it('counts as a hit only where all that is sent is stored', async () => {
    start(3);
    const first = proxy.send({ fields: { range: 'bytes=0-0' } });
    await origin.give();
    await first.bytes();
    await settled();
    const within = proxy.send({ fields: { range: ranges(3), 'cache-control': 'only-if-cached' } });
    expect(await within.status()).toBe(206);
    const beyond = proxy.send({ fields: { range: ranges(4), 'cache-control': 'only-if-cached' } });
    expect(await beyond.status()).toBe(504);
    expect(origin.asked).toHaveLength(1);
  });
});

describe('a request that is passed on', () => {
  it.each([
    [3, 4, undefined],
    [3, 3, ranges(3)],
    [150, 120, ranges(120)],
  ])('has its Range up to the same limit (at most %i, %i sent)', async (maxRanges, count, passed) => {
    start(maxRanges);
    await fetched(proxy, { fields: { 'cache-control': 'no-store' } });
    const client = proxy.send({ fields: { range: ranges(count) } });
    const exchange = await proxy.origin.next();
    expect(fieldValue(exchange.request.fields, 'range')).toBe(passed);
    exchange.respond({}, new Uint8Array(3));
    await client.bytes();
  });
});
