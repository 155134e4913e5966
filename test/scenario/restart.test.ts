/** Partly stored entries after the proxy was closed and opened again over the same store: they are completed, not fetched anew. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore } from '../support/stores/steered-store.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';

let store: SteeredStore;
let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  store = createSteeredStore();
  open();
});
afterEach(async () => {
  await proxy.close();
  expect(store.held).toBe(0);
  await store.close();
});

/** Opens a proxy over the store, which goes on when the proxy is closed. */
function open(): void {
  proxy = createWholeProxy({
    createStore: () => ({ ...store, close: async () => {} }),
    originRanges: 'auto',
    fill: { resumeAttempts: 3 },
  });
  origin = createRangeOrigin(proxy.origin);
}

/** Closes the proxy in the middle of a transfer of the whole, after its client has got `offset` bytes. */
async function stopAfter(offset: number): Promise<void> {
  const client = proxy.send();
  const transfer = await origin.begin();
  void transfer.sendTo(offset);
  await expectUntil(client, offset);
  await proxy.close();
  await expect(client.bytes()).rejects.toMatchObject({ code: 'client_gone' });
  expect(transfer.exchange.isClosed || transfer.exchange.request.signal.aborted).toBe(true);
}

describe('a transfer that was ended by a stop', () => {
  it.each([
    [1024, 'bytes=1024- if "v1"'],
    [1025, 'bytes=1024- if "v1"'],
    [5000, 'bytes=4096- if "v1"'],
    [9216, 'bytes=9216- if "v1"'],
    [9999, 'bytes=9216- if "v1"'],
  ])('after %i bytes leaves its blocks: only the rest is fetched (%s)', async (offset, rest) => {
    await stopAfter(offset);
    const [entry] = await store.find(key);
    expect(entry).toMatchObject({ sizeBytes: size, isComplete: false });
    open();
    const client = proxy.send();
    const reading = client.bytes();
    await origin.give();
    await reading;
    await expectWhole(client);
    expect(origin.asked).toEqual([rest]);
    await proxy.fillsEnded(1);
    expect((await store.find(key))[0]).toMatchObject({ generation: entry?.generation, isComplete: true });
  });

  it('leaves nothing where no block was complete', async () => {
    await stopAfter(1023);
    expect(await store.find(key)).toEqual([]);
  });

  it('leaves nothing where there is no strong validator', async () => {
    origin.file = { ...origin.file, fields: { 'cache-control': 'max-age=60', etag: 'W/"v1"' } };
    await stopAfter(5000);
    expect(await store.find(key)).toEqual([]);
  });

  it('leaves blocks that are served without the origin', async () => {
    await stopAfter(5000);
    open();
    await expectPart(proxy.send({ fields: { range: 'bytes=100-4095' } }), 100, 4096);
    expect(proxy.origin.requests).toBe(0);
  });

  it('can break off again after the restart, and is resumed', async () => {
    await stopAfter(3000);
    open();
    const client = proxy.send();
    const reading = client.bytes();
    (await origin.begin()).cutAt(6500);
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    await origin.give();
    await reading;
    await expectWhole(client);
    expect(origin.asked).toEqual(['bytes=2048- if "v1"', 'bytes=6500- if "v1"']);
  });

  it('at an origin that has no ranges any more is completed from the whole', async () => {
    await stopAfter(5000);
    open();
    origin.file = { ...origin.file, hasRanges: false };
    const client = proxy.send({ fields: { range: 'bytes=7000-7099' } });
    await origin.give();
    await expectPart(client, 7000, 7100);
    await proxy.fillsEnded(1);
    expect(origin.asked).toEqual(['bytes=6144-7167 if "v1"']);
    expect((await store.find(key))[0]?.isComplete).toBe(true);
  });
});
