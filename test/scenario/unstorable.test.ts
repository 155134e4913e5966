/** Fills that the store refuses in the middle: their readers still get their bytes, or are cut off. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StoreFault } from '../../src/store/store.ts';
import { settled } from '../support/clients/conversation.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 100_000;
const whole = patternBytes(0, size);
const fields = { 'cache-control': 'max-age=60', etag: '"v1"' };
const sized = { ...fields, 'content-length': String(size) };

let store: SteeredStore;
let proxy: WholeProxy;
beforeEach(() => {
  store = createSteeredStore();
  proxy = createWholeProxy({ createStore: () => store, windowBytes: store.blockSizeBytes });
});
afterEach(async () => {
  await proxy.close();
  expect(store.held).toBe(0);
});

const textAt = (start: number, end: number) => Buffer.from(patternBytes(start, end)).toString('latin1');

/** Sends the whole from the origin, in pieces, as fast as it is read. */
async function sendWhole(exchange: Awaited<ReturnType<WholeProxy['origin']['next']>>) {
  for (let at = 0; at < size; at += 700) await exchange.send(whole.subarray(at, at + 700));
  exchange.end();
}

describe('a store that refuses a body of unknown length in the middle', () => {
  it.each(['bytes=-10', 'bytes=90000-', 'bytes=0-', 'bytes=0-9,50-59', 'bytes=90000-90009'])(
    'has %s answered with the whole, because the fill cannot run ahead of a request that waits',
    async (range) => {
      const waiting = proxy.send({ fields: { range } });
      const exchange = await proxy.origin.next();
      exchange.head({ fields });
      await exchange.send(whole.subarray(0, 5000));
      store.fail('writeBlock', new StoreFault('no_room', 'full'));
      void (async () => {
        for (let at = 5000; at < size; at += 700) await exchange.send(whole.subarray(at, at + 700));
        exchange.end();
      })();
      expect(await waiting.status()).toBe(200);
      expect(await waiting.bytes()).toEqual(Buffer.from(whole));
      await proxy.fillsEnded(1);
    },
  );

  it('still lets a range be served that has arrived by then', async () => {
    const plain = proxy.send();
    const waiting = proxy.send({ fields: { range: 'bytes=6000-6009' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    store.fail('writeBlock', new StoreFault('no_room', 'full'));
    void sendWhole(exchange);
    const [all, bytes] = await Promise.all([plain.bytes(), waiting.bytes()]);
    expect(all).toEqual(Buffer.from(whole));
    if ((await waiting.status()) === 206) expect(bytes).toEqual(Buffer.from(patternBytes(6000, 6010)));
    else expect(bytes).toEqual(Buffer.from(whole));
  });
});

describe('a store that refuses a body of known length in the middle', () => {
  it('lets readers ahead and behind be served at once', async () => {
    const behind = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    const ahead = proxy.send({ fields: { range: 'bytes=60000-60999' } });
    expect(await ahead.status()).toBe(206);
    store.fail('writeBlock', new StoreFault('io', 'broken'));
    void sendWhole(exchange);
    const [first, second] = await Promise.all([behind.bytes(), ahead.bytes()]);
    expect(first).toEqual(Buffer.from(whole));
    expect(second).toEqual(Buffer.from(patternBytes(60_000, 61_000)));
    await proxy.fillsEnded(1);
  });

  it('has a multipart cut off that goes back to lost bytes without a strong validator', async () => {
    const client = proxy.send({ fields: { range: 'bytes=60000-60009,20000-20009,5000-5009' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...sized, etag: 'W/"v1"' } });
    expect(await client.status()).toBe(206);
    store.fail('writeBlock', new StoreFault('io', 'broken'));
    void sendWhole(exchange);
    await expect(client.bytes()).rejects.toMatchObject({ code: 'bytes_gone' });
    await client.leave();
    await proxy.fillsEnded(1);
  });

  it('has a few blocks held to which a multipart goes back', async () => {
    const client = proxy.send({ fields: { range: 'bytes=60000-60009,5000-5009' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    store.fail('writeBlock', new StoreFault('io', 'broken'));
    void sendWhole(exchange);
    const text = Buffer.from(await client.bytes()).toString('latin1');
    for (const start of [60_000, 5000]) expect(text).toContain(textAt(start, start + 10));
    await proxy.fillsEnded(1);
    expect(proxy.origin.requests).toBe(1);
  });

  it('has more such blocks requested again, by one transfer at a time', async () => {
    const starts = Array.from({ length: 9 }, (_, index) => 90_000 - 10_000 * index);
    const client = proxy.send({ fields: { range: `bytes=${starts.map((start) => `${start}-${start + 99}`).join()}` } });
    store.fail('writeBlock', new StoreFault('no_room', 'full'));
    let isOver = false;
    const open = new Set<FakeExchange>();
    let mostOpen = 0;
    void (async () => {
      while (!isOver) {
        const exchange = await proxy.origin.next();
        open.add(exchange);
        mostOpen = Math.max(mostOpen, [...open].filter(({ isClosed }) => !isClosed).length);
        exchange.head({ fields: sized });
        void sendWhole(exchange).catch(() => {});
      }
    })();
    const text = Buffer.from(await client.bytes()).toString('latin1');
    isOver = true;
    for (const start of starts) expect(text).toContain(textAt(start, start + 100));
    expect(mostOpen).toBe(1);
    expect(open.size).toBeLessThan(starts.length);
  });

  it('lets a multipart go back to stored bytes', async () => {
    const client = proxy.send({ fields: { range: 'bytes=60000-60009,500-509' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    await exchange.send(whole.subarray(0, 3000));
    store.fail('writeBlock', new StoreFault('io', 'broken'));
    void (async () => {
      for (let at = 3000; at < size; at += 700) await exchange.send(whole.subarray(at, at + 700));
      exchange.end();
    })();
    const text = Buffer.from(await client.bytes()).toString('latin1');
    expect(text).toContain(Buffer.from(patternBytes(60_000, 60_010)).toString('latin1'));
    expect(text).toContain(Buffer.from(patternBytes(500, 510)).toString('latin1'));
    await proxy.fillsEnded(1);
  });
});

describe('a body of unknown length that is too large for the store', () => {
  it('is not stored again at once, because each try would empty the store', async () => {
    store.fail('writeBlock', new StoreFault('too_large', 'too large'));
    for (const detail of [undefined, 'detail=unshared']) {
      const client = proxy.send();
      const exchange = await proxy.origin.next();
      exchange.head({ fields });
      void sendWhole(exchange);
      expect(await client.bytes()).toEqual(Buffer.from(whole));
      if (detail !== undefined) expect(await client.field('cache-status')).toContain(detail);
    }
    expect(proxy.fillEvents()).toHaveLength(1);
  });
});

describe('a store that fails otherwise', () => {
  it('leaves no body of the origin open when a writer cannot be opened', async () => {
    store.fail('openWriter', new Error('a mistake of the store'));
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    expect(await client.status()).toBe(500);
    expect(exchange.isClosed).toBe(true);
  });

  it('leaves no body of the origin open when it cannot remove an invalidated entry', async () => {
    store.fail('removeKey', new Error('a mistake of the store'));
    const client = proxy.send({ method: 'POST' });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    expect(await client.status()).toBe(500);
    expect(exchange.isClosed).toBe(true);
  });
});

describe('stored bytes that are damaged', () => {
  it.each(['bytes=2000-2009', 'bytes=1024-', 'bytes=1500-1509,9000-9009'])(
    'where %s begins count as absent: the request is answered from the origin',
    async (range) => {
      const first = proxy.send();
      (await proxy.origin.next()).respond({ fields }, whole);
      await first.bytes();
      await proxy.fillsEnded(1);
      store.damageBlock(1);
      const client = proxy.send({ fields: { range } });
      (await proxy.origin.next()).respond({ fields }, whole);
      expect(await client.status()).toBe(206);
      expect((await client.bytes()).length).toBeGreaterThan(9);
      expect(await client.field('cache-status')).toMatch(/fwd=uri-miss/);
      await proxy.fillsEnded(2);
    },
  );

  it.each([
    ['come from the origin where it has the same strong validator', '"v1"'],
    ['cut off the response where the origin has another version by now', '"v2"'],
  ])('further on %s', async (_what, etag) => {
    const first = proxy.send();
    (await proxy.origin.next()).respond({ fields }, whole);
    await first.bytes();
    await proxy.fillsEnded(1);
    store.damageBlock(5);
    const client = proxy.send();
    expect(await client.status()).toBe(200);
    const [bytes] = await Promise.allSettled([
      client.bytes(),
      proxy.origin.next().then((exchange) => exchange.respond({ fields: { ...fields, etag } }, whole)),
    ]);
    if (etag === '"v1"') expect(bytes).toEqual({ status: 'fulfilled', value: Buffer.from(whole) });
    else expect(bytes).toMatchObject({ status: 'rejected', reason: { code: 'bytes_gone' } });
  });
});

describe('a store that takes nothing, in front of an origin with ranges', () => {
  it('lets a multipart of many descending ranges be served', async () => {
    await proxy.close();
    store = createSteeredStore();
    proxy = createWholeProxy({ createStore: () => store, windowBytes: 1024, originRanges: 'auto' });
    store.fail('writeBlock', new StoreFault('no_room', 'full'));
    createRangeOrigin(proxy.origin).serve();
    const starts = Array.from({ length: 9 }, (_, index) => 9000 - 1000 * index);
    const client = proxy.send({ fields: { range: `bytes=${starts.map((start) => `${start}-${start + 9}`).join()}` } });
    const text = Buffer.from(await client.bytes()).toString('latin1');
    for (const start of starts) expect(text).toContain(textAt(start, start + 10));
  });
});

describe('a store that takes nothing, with readers at several offsets,', () => {
  it('has a block fetched again that was released before a reader had reached it', async () => {
    await proxy.close();
    store = createSteeredStore();
    proxy = createWholeProxy({ createStore: () => store, windowBytes: 1024, originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin);
    store.fail('writeBlock', new StoreFault('no_room', 'full'));
    const held = store.hold('writeBlock');
    const ahead = proxy.send({ fields: { range: 'bytes=1100-' } });
    const first = await origin.begin();
    await first.sendTo(2000);
    void first.sendTo(2048);
    await ahead.readUntil(948);
    const behind = proxy.send();
    await origin.give();
    const reading = Promise.all([behind.bytes(), ahead.bytes()]);
    await settled();
    held.release();
    origin.serve();
    first.finish();
    const [all, rest] = await reading;
    expect(all).toEqual(Buffer.from(patternBytes(0, 10_000)));
    expect(rest).toEqual(Buffer.from(patternBytes(1100, 10_000)));
  });
});
