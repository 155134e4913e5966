/** Readers of transfers that have brought more bytes than their client may owe. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { settled } from '../support/clients/conversation.ts';
import { createRangeOrigin, type Transfer } from '../support/origins/range-origin.ts';
import { createLimitedGate } from '../support/proxies/limited-gate.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 40_000;
const whole = patternBytes(0, size);
/** A client may owe 10,000 bytes, and time pays nothing back. A delivered byte pays for two. */
const amplification = { factor: 2, freeBytes: 10_000, windowMs: 1e12 };

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', gate: createLimitedGate({ amplification }) });
});
afterEach(() => proxy.close());

/** Sends block by block until the transfer is ended or over. */
async function run(transfer: Transfer): Promise<void> {
  for (let at = 0; at < size && !transfer.exchange.isClosed; at += 1000) {
    void transfer.sendTo(Math.min(size, at + 1000));
    await settled();
  }
  transfer.exchange.end();
  await settled();
}

describe('a client that reads more slowly than the origin sends', () => {
  it.each([true, false])('gets the whole body by one transfer; the origin supports ranges: %s', async (hasRanges) => {
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size, hasRanges });
    const client = proxy.send();
    await run(await origin.begin());
    expect(await client.bytes()).toEqual(Buffer.from(whole));
    await settled();
    expect(origin.asked).toEqual(['whole']);
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stored', bytes: size }]);
  });
});

describe('a client that requests a range near the end of an origin without ranges', () => {
  it('gets the range, and no new transfer until delivered bytes have paid for it', async () => {
    // Without Accept-Ranges the whole would be asked for once more: it could be the part.
    const fields = { 'cache-control': 'max-age=60', etag: '"v1"', 'accept-ranges': 'none' };
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size, hasRanges: false, fields });
    const client = proxy.send({ fields: { range: 'bytes=39999-' } });
    await run(await origin.begin());
    expect(await client.bytes()).toEqual(Buffer.from(whole.subarray(39_999)));
    await settled();
    const refused = proxy.send({ target: '/other' });
    expect(await refused.status()).toBe(429);
    await refused.bytes();
    await proxy.send().bytes();
    const other = proxy.send({ target: '/other' });
    await run(await origin.begin());
    expect(await other.bytes()).toEqual(Buffer.from(whole));
    expect(proxy.origin.requests).toBe(2);
  });
});

describe('a body that is relayed and not stored', () => {
  it('continues while it is read, regardless of its length', async () => {
    const client = proxy.send({ target: '/live' });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'no-store' } });
    for (let at = 0; at < 50; at += 1) void exchange.send(whole.subarray(0, 5000));
    exchange.end();
    expect(await client.bytes()).toHaveLength(250_000);
  });
});
