/** Transfers that no client reads any more: how many of one client go on (fill.finishMaxPerClient). */

import { afterEach, describe, expect, it } from 'vitest';
import { settled } from '../support/clients/conversation.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import {
  type Client,
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const whole = patternBytes(0, size);
const fields = { 'cache-control': 'max-age=60', etag: '"v1"' };
const sized = { ...fields, 'content-length': String(size) };
const alice = '192.0.2.1';
const bob = '192.0.2.2';

let proxy: WholeProxy;
afterEach(() => proxy.close());

function start(options: WholeProxyOptions = {}): void {
  proxy = createWholeProxy({ ...options, fill: { finishMaxPerClient: 2, ...options.fill } });
}

interface Begun {
  readonly client: Client;
  readonly exchange: FakeExchange;
}

/** Sends a request, and lets the first block of its transfer arrive. */
async function begin(sent: Sent): Promise<Begun> {
  const client = proxy.send({ peer: alice, ...sent });
  const exchange = await proxy.origin.next();
  exchange.head({ fields: sized });
  await exchange.send(whole.subarray(0, 1024));
  return { client, exchange };
}

/** Begins a transfer whose client leaves after its first byte. */
async function leave(sent: Sent): Promise<FakeExchange> {
  const { client, exchange } = await begin(sent);
  await client.readUntil(1);
  await client.leave();
  await settled();
  return exchange;
}

async function end(exchange: FakeExchange): Promise<void> {
  void exchange.send(whole.subarray(1024));
  exchange.end();
  await settled();
}

const areClosed = (exchanges: readonly FakeExchange[]) => exchanges.map(({ isClosed }) => isClosed);

describe('of the transfers that one client leaves behind', () => {
  it('as many go on as allowed, and further ones stop', async () => {
    start();
    const exchanges = [await leave({ target: '/1' }), await leave({ target: '/2' }), await leave({ target: '/3' })];
    expect(areClosed(exchanges)).toEqual([false, false, true]);
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stopped', error: 'client_gone' }]);
    for (const exchange of exchanges.slice(0, 2)) await end(exchange);
    expect(proxy.fillEvents().map(({ result }) => result)).toEqual(['stopped', 'stored', 'stored']);
  });

  it('those count whose reader has got all its bytes', async () => {
    start();
    const exchanges: FakeExchange[] = [];
    for (let name = 0; name < 4; name += 1) {
      const { client, exchange } = await begin({ target: `/file?${name}`, fields: { range: 'bytes=0-0' } });
      expect(await client.bytes()).toEqual(Buffer.from(whole.subarray(0, 1)));
      await settled();
      exchanges.push(exchange);
    }
    expect(areClosed(exchanges)).toEqual([false, false, true, true]);
  });

  it('those count whose head has not arrived yet', async () => {
    start();
    const exchanges: FakeExchange[] = [];
    for (const target of ['/1', '/2', '/3']) {
      const client = proxy.send({ target, peer: alice });
      exchanges.push(await proxy.origin.next());
      await client.leave();
      await settled();
    }
    expect(exchanges.map(({ request }) => request.signal.aborted)).toEqual([false, false, true]);
    const [first] = exchanges as [FakeExchange];
    first.respond({ fields }, whole);
    await settled();
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stored' }]);
    expect((await leave({ target: '/4' })).isClosed).toBe(false);
    expect((await leave({ target: '/5' })).isClosed).toBe(true);
  });

  it('those count whose head arrives after the client has left', async () => {
    start();
    const client = proxy.send({ target: '/1', peer: alice });
    const exchange = await proxy.origin.next();
    await client.leave();
    exchange.head({ fields: sized });
    await exchange.send(whole.subarray(0, 1024));
    await settled();
    const others = [await leave({ target: '/2' }), await leave({ target: '/3' })];
    expect(areClosed([exchange, ...others])).toEqual([false, false, true]);
  });

  it('those of other clients do not count', async () => {
    start();
    for (const target of ['/1', '/2', '/3']) await leave({ target });
    expect((await leave({ target: '/4', peer: bob })).isClosed).toBe(false);
  });

  it('those do not count that have ended', async () => {
    start();
    const [first] = [await leave({ target: '/1' }), await leave({ target: '/2' })];
    await end(first);
    expect((await leave({ target: '/3' })).isClosed).toBe(false);
    expect((await leave({ target: '/4' })).isClosed).toBe(true);
  });

  it('those do not count that are read again', async () => {
    start();
    const exchanges = [await leave({ target: '/1' }), await leave({ target: '/2' })];
    const again = proxy.send({ target: '/1', peer: bob });
    await again.readUntil(1);
    exchanges.push(await leave({ target: '/3' }));
    expect(areClosed(exchanges)).toEqual([false, false, false]);
    // When that reader leaves, too, the transfer is one too many.
    await again.leave();
    await settled();
    expect(areClosed(exchanges)).toEqual([true, false, false]);
  });

  it('those do not count that have a block or less left', async () => {
    start();
    for (const target of ['/1', '/2']) await leave({ target });
    const { client, exchange } = await begin({ target: '/3' });
    await exchange.send(whole.subarray(1024, size - 1000));
    await client.readUntil(1);
    await client.leave();
    await settled();
    expect(exchange.isClosed).toBe(false);
  });

  it('none goes on where finishMaxPerClient is 0', async () => {
    start({ fill: { finishMaxPerClient: 0 } });
    expect((await leave({ target: '/1' })).isClosed).toBe(true);
  });
});

it('a player that seeks in one file keeps its one transfer', async () => {
  start({ fill: { finishMaxPerClient: 1 } });
  const exchange = await leave({ target: '/film' });
  for (let at = 1024; at < size; at += 1024) {
    await exchange.send(whole.subarray(at, Math.min(size, at + 1024)));
    const seek = proxy.send({ target: '/film', peer: alice, fields: { range: `bytes=${at}-` } });
    await seek.readUntil(100);
    await seek.leave();
    await settled();
  }
  exchange.end();
  await settled();
  expect(proxy.origin.requests).toBe(1);
  expect(proxy.fillEvents()).toMatchObject([{ result: 'stored' }]);
});

it('a fetch without a reader, under complete always, counts', async () => {
  start({ originRanges: 'auto', fill: { complete: 'always', finishMaxPerClient: 0 } });
  const origin = createRangeOrigin(proxy.origin, { sizeBytes: size });
  origin.serve();
  await proxy.send({ peer: alice, fields: { range: 'bytes=0-0' } }).bytes();
  await settled();
  expect(origin.asked).toEqual(['bytes=0-1023']);
});

it('a background revalidation does not count', async () => {
  start({ fill: { finishMaxPerClient: 0 } });
  const lived = { 'cache-control': 'max-age=1, stale-while-revalidate=60' };
  const first = proxy.send({ peer: alice });
  (await proxy.origin.next()).respond({ fields: { ...lived, etag: '"v1"' } }, whole);
  await first.bytes();
  await settled();
  proxy.clock.advance(5000);
  const stale = proxy.send({ peer: alice });
  const exchange = await proxy.origin.next();
  await stale.bytes();
  exchange.head({ fields: { ...lived, etag: '"v2"', 'content-length': String(size) } });
  await exchange.send(whole.subarray(0, 1024));
  await settled();
  await end(exchange);
  expect(proxy.fillEvents().map(({ result }) => result)).toEqual(['stored', 'stored']);
});
