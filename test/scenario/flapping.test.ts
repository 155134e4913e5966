/** An origin that answers a range sometimes with the part, sometimes with the whole. Absent bytes are requested once only. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { asWhole, createRangeOrigin, type RangeOrigin, type Twist } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart } from '../support/values/expect-bytes.ts';

/** Ten blocks of 1024 bytes, and a short one. */
const size = 10_500;
const whole = { sizeBytes: size };
const wholly: Twist = (honest) => asWhole(honest, size);

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto' });
  origin = createRangeOrigin(proxy.origin, whole);
});
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

const ask = (range: string) => proxy.send({ fields: { range } });

describe('when the origin sends the whole for the first bytes of a file', () => {
  it('a reader behind those bytes has the whole requested, even while the first bytes still come', async () => {
    const last = ask('bytes=8000-8099');
    await origin.give();
    await expectPart(last, 8000, 8100, whole);
    const first = ask('bytes=0-99');
    const transfer = await origin.begin(wholly);
    await turn();
    const middle = ask('bytes=3000-3099');
    const reading = middle.bytes();
    await origin.give(wholly);
    await reading;
    await expectPart(middle, 3000, 3100, whole);
    transfer.finish();
    await expectPart(first, 0, 100, whole);
    expect(origin.asked).toEqual(['bytes=7168-8191', 'bytes=0-1023 if "v1"', 'whole']);
  });
});

describe('when the origin sends the whole for a part behind a running transfer', () => {
  it('the whole is used, because the rest would have to be requested again', async () => {
    const near = ask('bytes=0-8099');
    const transfer = await origin.begin();
    await turn();
    const far = ask('bytes=6000-');
    const reading = far.bytes();
    await origin.give(wholly);
    await reading;
    await expectPart(far, 6000, size, whole);
    transfer.finish();
    await expectPart(near, 0, 8100, whole);
    expect(origin.asked).toEqual(['bytes=0-8191', 'bytes=5120- if "v1"']);
  });
});
