/** Readers of a transfer that ends because too much has come for too little: who goes on, who is cut off, and who is told. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { settled } from '../support/conversation.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { createLimitedGate } from '../support/limited-gate.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { createRangeOrigin, type Transfer } from '../support/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/whole-proxy.ts';

const size = 40_000;
const whole = patternBytes(0, size);
/** A client may owe 10,000 bytes, for good; a delivered byte pays for ten. */
const amplification = { factor: 10, freeBytes: 10_000, windowMs: 1e12 };

let clock: FakeClock;
let proxy: WholeProxy;
beforeEach(() => {
  clock = createFakeClock(0);
  proxy = createWholeProxy({ originRanges: 'auto', gate: createLimitedGate({ amplification }, clock) });
});
afterEach(() => proxy.close());

/** Sends block by block until the transfer is ended or over. */
async function run(transfer: Transfer, from = 0): Promise<void> {
  for (let at = from; at < size && !transfer.exchange.isClosed; at += 1000) {
    void transfer.sendTo(Math.min(size, at + 1000));
    await settled();
  }
  transfer.exchange.end();
  await settled();
}

describe('a client that reads more slowly than the origin sends', () => {
  it.each([true, false])('gets all of it: the transfer waits for it; the origin gives parts: %s', async (hasRanges) => {
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size, hasRanges });
    const client = proxy.send();
    const transfer = await origin.begin();
    await run(transfer);
    expect(clock.pending).toBe(1);
    clock.advance(29_999);
    await settled();
    expect(transfer.exchange.isClosed).toBe(false);
    expect(await client.bytes()).toEqual(Buffer.from(whole));
    await settled();
    expect(origin.asked).toEqual(['whole']);
    expect(clock.pending).toBe(0);
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stored', bytes: size }]);
  });

  it('is waited for half a minute, and gets the rest by another transfer after that', async () => {
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size });
    const client = proxy.send();
    await run(await origin.begin());
    clock.advance(30_000);
    await settled();
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stopped', bytes: 11_000, error: 'origin_share_spent' }]);
    const reading = client.bytes();
    await run(await origin.begin(), 10_240);
    expect(await reading).toEqual(Buffer.from(whole));
    expect(origin.asked).toEqual(['whole', 'bytes=10240- if "v1"']);
    expect(clock.pending).toBe(0);
  });

  it.each([
    ['stored', { 'cache-control': 'max-age=60' }],
    ['relayed', { 'cache-control': 'no-store' }],
  ])('gets what it reads as it comes meanwhile, %s', async (_name, fields) => {
    const read = proxy.send({ target: '/read' });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    void exchange.send(whole.subarray(0, 1000));
    await read.readUntil(1000);
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size });
    const unread = proxy.send({ target: '/unread' });
    await run(await origin.begin());
    expect(clock.pending).toBe(1);
    for (let at = 1000; at < size; at += 1000) {
      void exchange.send(whole.subarray(at, at + 1000));
      // So little that it does not pay for what is unread.
      await read.readUntil(at + 1);
    }
    exchange.end();
    expect(await read.bytes()).toEqual(Buffer.from(whole));
    await unread.leave();
  });

  it('is not waited for any more when it leaves', async () => {
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size, hasRanges: false });
    const client = proxy.send();
    await run(await origin.begin());
    expect(proxy.fillEvents()).toEqual([]);
    await client.leave();
    clock.advance(30_000);
    await settled();
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stopped', error: 'origin_share_spent' }]);
  });
});

describe('a client that wants what lies far behind', () => {
  it('is cut off when the share is spent on the way there, and told so when it comes again', async () => {
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size, hasRanges: false });
    const far = { fields: { range: 'bytes=39999-' } };
    const client = proxy.send(far);
    await run(await origin.begin());
    expect(await client.status()).toBe(206);
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_share_spent' });
    await settled();
    const again = proxy.send(far);
    expect(await again.status()).toBe(429);
    await again.bytes();
    expect(proxy.origin.requests).toBe(1);
    expect(proxy.requestEvents().map(({ error }) => error)).toEqual(['origin_share_spent', 'origin_share_spent']);
  });

  it('gets it all the same where another client wants it too', async () => {
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: size, hasRanges: false });
    const far = { fields: { range: 'bytes=15000-15009' } };
    const clients = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5'].map((peer) =>
      proxy.send({ ...far, peer }),
    );
    // What the entry may owe is another matter.
    const reading = proxy.send({ peer: '192.0.2.6' });
    const read = reading.bytes();
    await run(await origin.begin());
    for (const client of clients) expect(await client.bytes()).toEqual(Buffer.from(whole.subarray(15_000, 15_010)));
    expect(await read).toEqual(Buffer.from(whole));
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('what is relayed and not stored', () => {
  it('goes on as long as it is read, however long it is', async () => {
    const client = proxy.send({ target: '/live' });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'no-store' } });
    for (let at = 0; at < 50; at += 1) void exchange.send(whole.subarray(0, 5000));
    exchange.end();
    expect(await client.bytes()).toHaveLength(250_000);
  });

  it('is cut off where most of it is dropped on the way', async () => {
    const client = proxy.send({ target: '/live', fields: { range: 'bytes=39999-' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'no-store', 'content-length': String(size) } });
    for (let at = 0; at < size; at += 1000) void exchange.send(whole.subarray(at, at + 1000));
    exchange.end();
    expect(await client.status()).toBe(206);
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_share_spent' });
    expect(exchange.isClosed).toBe(true);
  });
});
