/** Clients that leave, and fills that end with their last reader (fill.onAbort). */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const whole = patternBytes(0, size);
const fields = { 'cache-control': 'max-age=60', etag: '"v1"' };
const sized = { ...fields, 'content-length': String(size) };

let store: SteeredStore;
let proxy: WholeProxy;
beforeEach(() => {
  store = createSteeredStore();
  proxy = createWholeProxy({
    createStore: () => store,
    fill: { onAbort: 'stop' },
  });
});
afterEach(() => proxy.close());

describe('a fill that ends with its last reader', () => {
  it('is stored when the reader leaves with the last byte, before the origin has ended the body', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    await exchange.send(whole);
    expect(await client.bytes()).toEqual(Buffer.from(whole));
    await client.leave();
    exchange.end();
    await proxy.fillsEnded(1);
    expect(proxy.fillEvents()[0]).toMatchObject({ result: 'stored', bytes: size, error: undefined });
    expect(await proxy.send().field('cache-status')).toMatch(/; hit/);
  });

  it('is stored when the reader leaves during the commit', async () => {
    const commit = store.hold('commit');
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.respond({ fields }, whole);
    await commit.reached;
    expect(await client.bytes()).toEqual(Buffer.from(whole));
    commit.release();
    await proxy.fillsEnded(1);
    expect(proxy.fillEvents()[0]).toMatchObject({ result: 'stored', error: undefined });
  });

  it('does not make a reader of a body of unknown length wait for the commit', async () => {
    const commit = store.hold('commit');
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole);
    exchange.end();
    expect(await client.bytes()).toEqual(Buffer.from(whole));
    commit.release();
    await proxy.fillsEnded(1);
    expect(proxy.fillEvents()[0]).toMatchObject({ result: 'stored', error: undefined });
  });

  it.each(['bytes=-10', 'bytes=5000-5009', 'bytes=0-', 'bytes=0-9,50-59'])(
    'goes on for a client that waits for the bytes or the length of %s',
    async (range) => {
      const reading = proxy.send();
      const exchange = await proxy.origin.next();
      exchange.head({ fields });
      await exchange.send(whole.subarray(0, 5));
      await reading.readUntil(5);
      const waiting = proxy.send({ fields: { range } });
      await turn();
      await reading.leave();
      await turn();
      expect(exchange.isClosed).toBe(false);
      void exchange.send(whole.subarray(5));
      exchange.end();
      expect(await waiting.status()).toBe(206);
      await waiting.bytes();
      expect(proxy.origin.requests).toBe(1);
    },
  );

  it('ends when the only client leaves that waits for its length', async () => {
    const waiting = proxy.send({ fields: { range: 'bytes=-10' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(whole.subarray(0, 5));
    await turn();
    await waiting.leave();
    await proxy.fillsEnded(1);
    expect(exchange.isClosed).toBe(true);
    expect(await waiting.status()).toBe(499);
    expect(store.held).toBe(0);
  });

  it('is not joined by a request that comes while it is being given up', async () => {
    const opening = store.hold('openWriter');
    const leaving = proxy.send();
    const first = await proxy.origin.next();
    first.head({ fields: sized });
    await opening.reached;
    await leaving.leave();
    const coming = proxy.send();
    opening.release();
    (await proxy.origin.next()).respond({ fields }, whole);
    expect(await coming.bytes()).toEqual(Buffer.from(whole));
  });
});

describe('a fill whose rest could be requested again', () => {
  const part = { 'content-range': `bytes 0-${size - 1}/${size}`, 'content-length': String(size), ...fields };

  /** Begins a fill, and has its only client leave within the first block. */
  async function beginAndLeave() {
    proxy = createWholeProxy({ originRanges: 'always', fill: { onAbort: 'stop', returnMs: 500 } });
    const client = proxy.send({ fields: { range: 'bytes=0-' } });
    const exchange = await proxy.origin.next();
    exchange.head({ status: 206, fields: part });
    await exchange.send(whole.subarray(0, 100));
    await client.readUntil(100);
    await client.leave();
    await turn();
    return exchange;
  }

  it('waits a moment for a client that returns, without reading further', async () => {
    const exchange = await beginAndLeave();
    // A chunk that was asked for before is taken; then the connection fills up.
    void exchange.send(whole.subarray(100, 200));
    let isTaken = false;
    void exchange.send(whole.subarray(200)).then(() => {
      isTaken = true;
    });
    proxy.clock.advance(499);
    await turn();
    expect(isTaken).toBe(false);
    expect(exchange.isClosed).toBe(false);
    const again = proxy.send({ fields: { range: 'bytes=0-' } });
    await again.readUntil(size);
    exchange.end();
    expect(await again.bytes()).toEqual(Buffer.from(whole));
    expect(proxy.origin.requests).toBe(1);
  });

  it('ends when no client has returned within the moment', async () => {
    const exchange = await beginAndLeave();
    proxy.clock.advance(499);
    await turn();
    expect(exchange.isClosed).toBe(false);
    proxy.clock.advance(1);
    await turn();
    expect(exchange.isClosed).toBe(true);
  });

  it('goes on for as long as a client that has returned reads it', async () => {
    const exchange = await beginAndLeave();
    const again = proxy.send({ fields: { range: 'bytes=50-' } });
    await again.readUntil(50);
    proxy.clock.advance(1000);
    await turn();
    expect(exchange.isClosed).toBe(false);
    await exchange.send(whole.subarray(100));
    exchange.end();
    expect((await again.bytes()).length).toBe(size - 50);
    expect(proxy.origin.requests).toBe(1);
  });
});
