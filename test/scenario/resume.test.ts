/** Transfers from an origin with ranges that break off and are resumed: clients see a pause, or are cut off. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin, type Twist } from '../support/origins/range-origin.ts';
import {
  type Client,
  createWholeProxy,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';
/** Around the boundaries of the blocks, which have 1024 bytes, and around the end of the body. */
const offsets = [0, 1, 1023, 1024, 1025, 2047, 2048, 5000, 9215, 9216, 9217, 9998, 9999];

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => open({ originRanges: 'auto' }));
afterEach(async () => {
  expect(proxy.clock.pending).toBe(0);
  await proxy.close();
});

function open({ fill, ...options }: WholeProxyOptions): void {
  proxy = createWholeProxy({ ...options, fill: { resumeAttempts: 3, ...fill } });
  origin = createRangeOrigin(proxy.origin);
}

/** Lets the pause before the next attempt pass. */
async function pause(ms = 100): Promise<void> {
  await proxy.clock.whenPending(1);
  proxy.clock.advance(ms - 1);
  await turn();
  expect(proxy.origin.untaken).toBe(0);
  proxy.clock.advance(1);
}

const expectCut = (client: Client, code = 'generation_changed') =>
  expect(client.bytes()).rejects.toMatchObject({ code });

async function expectStored(): Promise<void> {
  await proxy.fillsEnded(1);
  const { requests } = proxy.origin;
  await expectWhole(proxy.send());
  await expectPart(proxy.send({ fields: { range: 'bytes=1000-1100' } }), 1000, 1101);
  expect(proxy.origin.requests).toBe(requests);
}

describe('a transfer from an origin with ranges', () => {
  it.each(offsets)('that breaks off at %i is resumed there', async (offset) => {
    const client = proxy.send();
    const first = await origin.begin();
    expect(await client.status()).toBe(200);
    first.cutAt(offset);
    await expectUntil(client, offset);
    await pause();
    const rest = await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['whole', `bytes=${offset}- if "v1"`]);
    await expectStored();
    expect(rest.exchange.isClosed).toBe(true);
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stored', bytes: size, error: undefined }]);
  });

  it('that is slow gives each byte as it arrives', async () => {
    const clients = [proxy.send(), proxy.send({ fields: { range: 'bytes=1000-1100' } })];
    const [plain = expect.fail(), part = expect.fail()] = clients;
    const transfer = await origin.begin();
    for (const offset of [1, 2, 3, 1001, 1002, 1023, 1024, 1025, 2048, 2049]) {
      void transfer.sendTo(offset);
      await expectUntil(plain, offset);
      if (offset > 1000) await part.readUntil(Math.min(offset, 1101) - 1000);
    }
    await expectPart(part, 1000, 1101);
    transfer.finish();
    await expectWhole(plain);
  });

  it('that breaks off in every block is resumed each time, and no byte is fetched twice', async () => {
    const client = proxy.send();
    const reading = client.bytes();
    for (let offset = 700; offset < size; offset += 1024) {
      (await origin.begin()).cutAt(offset);
      await pause();
    }
    await origin.give();
    await reading;
    await expectWhole(client);
    await expectStored();
    expect(proxy.fillEvents()[0]?.bytes).toBe(size);
  });

  it('of a range is resumed up to the end of the range only', async () => {
    const client = proxy.send({ fields: { range: 'bytes=2000-5000' } });
    (await origin.begin()).cutAt(3333);
    await pause();
    await origin.give();
    await expectPart(client, 2000, 5001);
    expect(origin.asked).toEqual(['bytes=1024-5119', 'bytes=3333-5119 if "v1"']);
  });

  it('that ends too early without an error is resumed, too', async () => {
    const client = proxy.send();
    const first = await origin.begin();
    void first.sendTo(4000);
    first.exchange.end();
    await pause();
    await origin.give();
    await expectWhole(client);
    expect(origin.asked[1]).toBe('bytes=4000- if "v1"');
  });

  it.each(['origin_reset', 'origin_timeout', 'origin_body_short', 'origin_ill_framed'] as const)(
    'that fails with %s is resumed',
    async (code) => {
      const client = proxy.send();
      (await origin.begin()).cutAt(4000, new ProxyError(code));
      await pause();
      await origin.give();
      await expectWhole(client);
    },
  );

  it('that ends without close_notify is not resumed, because the next one would end so, too', async () => {
    const client = proxy.send();
    (await origin.begin()).cutAt(4000, new ProxyError('origin_tls_truncated'));
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_tls_truncated' });
    expect(origin.asked).toEqual(['whole']);
  });

  it('serves all its readers, including those that come during the pause', async () => {
    const early = [proxy.send(), proxy.send({ fields: { range: 'bytes=-100' } })];
    (await origin.begin()).cutAt(4000);
    await proxy.clock.whenPending(1);
    const late = [proxy.send(), proxy.send({ fields: { range: 'bytes=3000-5000' } })];
    await turn();
    origin.serve();
    proxy.clock.advance(100);
    for (const client of [early[0], late[0]]) await expectWhole(client ?? expect.fail());
    await expectPart(early[1] ?? expect.fail(), 9900, size);
    await expectPart(late[1] ?? expect.fail(), 3000, 5001);
  });

  it('that gets the whole instead of the rest sends no byte twice', async () => {
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await pause();
    origin.file = { ...origin.file, hasRanges: false };
    await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['whole', 'bytes=4000- if "v1"']);
  });

  it.each<[string, Twist]>([
    ['another validator', (honest) => ({ ...honest, fields: { ...honest.fields, etag: '"v2"' }, seed: 2 })],
    ['a 404', (honest) => ({ ...honest, status: 404 })],
    ['a 410', (honest) => ({ ...honest, status: 410 })],
  ])('that finds %s cuts off its readers, and leaves nothing in the store', async (_name, twist) => {
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await expectUntil(client, 4000);
    await pause();
    await origin.give(twist);
    await expectCut(client);
    await proxy.fillsEnded(1);
    expect(await proxy.store.find(key)).toEqual([]);
    const again = proxy.send();
    await origin.give();
    await expectWhole(again);
  });

  it.each([500, 502, 503, 408, 429])('that finds a %i is tried again', async (status) => {
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await pause();
    await origin.give((honest) => ({ ...honest, status }));
    await pause(200);
    await origin.give();
    await expectWhole(client);
    expect(origin.asked.slice(1)).toEqual(Array(2).fill('bytes=4000- if "v1"'));
  });

  it.each([401, 403])('that finds a %i is not tried again, and what has arrived stays stored', async (status) => {
    const known = proxy.send({ target: '/known', fields: { range: 'bytes=0-9' } });
    await origin.give();
    await expectPart(known, 0, 10);
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await pause();
    await origin.give((honest) => ({ ...honest, status }));
    await expectCut(client, 'origin_refused_rest');
    expect(proxy.clock.pending).toBe(0);
    await proxy.fillsEnded(2);
    await expectPart(proxy.send({ fields: { range: 'bytes=0-3071' } }), 0, 3072);
    expect(origin.asked).toHaveLength(3);
  });
});

describe('the attempts to resume', () => {
  it('have growing pauses between them, and an end', async () => {
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await expectUntil(client, 4000);
    for (const ms of [100, 200, 400]) {
      await pause(ms);
      (await proxy.origin.next()).fail(new ProxyError('origin_refused'));
    }
    await expectCut(client, 'origin_refused');
    await proxy.fillsEnded(1);
    expect(proxy.clock.pending).toBe(0);
    expect(proxy.fillEvents()).toMatchObject([{ result: 'failed', bytes: 4000, error: 'origin_refused' }]);
    // The bytes that have arrived are not lost.
    const again = proxy.send();
    const reading = again.bytes();
    await origin.give();
    await reading;
    await expectWhole(again);
    expect(origin.asked.at(-1)).toBe('bytes=3072- if "v1"');
  });

  it('start anew after a byte of progress', async () => {
    const client = proxy.send();
    const reading = client.bytes();
    (await origin.begin()).cutAt(4000);
    for (const offset of [4001, 4002, 4003, 4004, 4005]) {
      await pause(100);
      (await proxy.origin.next()).fail(new ProxyError('origin_refused'));
      await pause(200);
      (await origin.begin()).cutAt(offset);
    }
    await pause(100);
    await origin.give();
    await reading;
    await expectWhole(client);
  });

  it('are not made for a transfer without readers under onAbort stop', async () => {
    await proxy.close();
    open({ originRanges: 'auto', fill: { onAbort: 'stop' } });
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await proxy.clock.whenPending(1);
    await client.leave();
    await proxy.fillsEnded(1);
    expect(proxy.clock.pending).toBe(0);
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stopped' }]);
  });
});
