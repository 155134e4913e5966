/** Clients for which the origin sends more than they read: which are refused, and which client is charged for which bytes. */

import { afterEach, describe, expect, it } from 'vitest';
import { settled } from '../support/clients/conversation.ts';
import type { FakeExchange, FakeHead } from '../support/origins/fake-origin.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import { createLimitedGate } from '../support/proxies/limited-gate.ts';
import {
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
const tail: Sent = { fields: { range: 'bytes=-1' } };

/**
 * No origin request is begun for a client that owes more than 31,000 bytes. It is forgiven 1000 bytes per second, and each
 * byte that is delivered to it pays for ten.
 */
const amplification = { factor: 10, freeBytes: 31_000, windowMs: 31_000 };
const alice = '192.0.2.1';
const bob = '192.0.2.2';

let proxy: WholeProxy;
let ms = 0;
afterEach(() => proxy.close());

function start(options: WholeProxyOptions = {}): void {
  ms = 0;
  proxy = createWholeProxy({ ...options, gate: createLimitedGate({ amplification }, { now: () => ms }) });
}

/** Sends a request that the origin answers at once. */
async function answered(sent: Sent, head: FakeHead = { fields }, bytes: Uint8Array = whole): Promise<FakeExchange> {
  const client = proxy.send(sent);
  const exchange = await proxy.origin.next();
  exchange.respond(head, bytes);
  await client.bytes();
  await settled();
  return exchange;
}

/** Lets Alice ask for the last byte of four files, each of which the origin has to send whole. */
async function spend(): Promise<void> {
  for (const target of ['/1', '/2', '/3', '/4']) await answered({ ...tail, target, peer: alice });
}

async function expectRefused(sent: Sent): Promise<void> {
  const before = proxy.origin.requests;
  const client = proxy.send(sent);
  expect(await client.status()).toBe(429);
  expect(Number(await client.field('retry-after'))).toBeGreaterThan(0);
  await client.bytes();
  expect(proxy.origin.requests).toBe(before);
}

describe('a client that has spent its share', () => {
  it('is refused a response that is not stored, and gets it after the time in Retry-After', async () => {
    start();
    await spend();
    const refused = proxy.send({ target: '/5', peer: alice });
    expect([await refused.status(), await refused.field('retry-after')]).toEqual([429, '9']);
    ms += 8_900;
    await expectRefused({ target: '/5', peer: alice });
    ms += 100;
    await answered({ target: '/5', peer: alice });
  });

  it('gets stored responses, and pays off its debt by reading them', async () => {
    start();
    await spend();
    for (let reads = 0; reads < 2; reads += 1) {
      const stored = proxy.send({ target: '/1', peer: alice });
      expect(await stored.field('cache-status')).toContain('hit');
      expect(await stored.bytes()).toEqual(Buffer.from(whole));
      await settled();
    }
    await answered({ target: '/5', peer: alice });
  });

  it('does not affect other clients', async () => {
    start();
    await spend();
    await answered({ target: '/5', peer: bob });
  });

  it('may still send HEAD requests, which bring no bytes', async () => {
    start();
    await spend();
    const client = proxy.send({ method: 'HEAD', target: '/5', peer: alice });
    (await proxy.origin.next()).head({ fields: sized, framing: 'none' });
    expect(await client.status()).toBe(200);
    await client.bytes();
  });

  it('gets a stale response where stale-if-error allows it, and 429 where not', async () => {
    start();
    const stored = { 'cache-control': 'max-age=1, stale-if-error=60' };
    await answered({ target: '/stale', peer: bob }, { fields: stored });
    await answered({ target: '/strict', peer: bob }, { fields: { 'cache-control': 'max-age=1, must-revalidate' } });
    proxy.clock.advance(5000);
    await spend();
    await expectRefused({ target: '/strict', peer: alice });
    const client = proxy.send({ target: '/stale', peer: alice });
    expect(await client.status()).toBe(200);
    expect(await client.field('cache-status')).toContain('detail=origin_share_spent');
    await client.bytes();
  });

  it('is refused alone when other clients wait for the response to its request', async () => {
    start();
    await spend();
    const [refused, joined, third] = [alice, bob, bob].map((peer) => proxy.send({ target: '/5', peer }));
    expect(await refused?.status()).toBe(429);
    (await proxy.origin.next()).respond({ fields }, whole);
    for (const client of [joined, third]) expect(await client?.bytes()).toEqual(Buffer.from(whole));
    await settled();
    expect(proxy.origin.requests).toBe(5);
  });
});

describe('a client that leaves', () => {
  /** Sends a request and leaves after the first byte. */
  async function leave(target: string): Promise<FakeExchange> {
    const client = proxy.send({ target, peer: alice });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    await exchange.send(whole.subarray(0, 1));
    await client.readUntil(1);
    await client.leave();
    await settled();
    return exchange;
  }

  it('has its transfers finished only while it owes no more than half', async () => {
    start();
    for (const target of ['/1', '/2', '/3', '/4']) {
      const exchange = await leave(target);
      for (let at = 1; at < size && !exchange.isClosed; at += 1000) {
        void exchange.send(whole.subarray(at, Math.min(size, at + 1000)));
        await settled();
      }
      exchange.end();
      await settled();
    }
    const fills = proxy.fillEvents();
    expect(fills.map(({ result }) => result)).toEqual(['stored', 'stopped', 'stopped', 'stopped']);
    expect(fills.at(-1)?.bytes).toBeLessThan(2500);
    // Bytes that were on their way when the transfers were stopped count.
    await expectRefused({ target: '/5', peer: alice });
  });

  it('leaves a transfer to its other readers, on their account, without a break', async () => {
    start();
    await spend();
    ms += 15_000;
    const first = proxy.send({ target: '/5', peer: alice });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: sized });
    await exchange.send(whole.subarray(0, 1));
    const second = proxy.send({ target: '/5', peer: bob });
    await second.readUntil(1);
    await first.leave();
    for (let at = 1; at < size; at += 1000) void exchange.send(whole.subarray(at, Math.min(size, at + 1000)));
    exchange.end();
    expect(await second.bytes()).toEqual(Buffer.from(whole));
    await settled();
    expect(proxy.origin.requests).toBe(5);
    expect(proxy.fillEvents().at(-1)).toMatchObject({ result: 'stored', bytes: size });
  });
});

describe('bytes requested within a generation that another client reads', () => {
  it('are charged to the client that reads them', async () => {
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: 1_000_000 });
    origin.serve();
    // Bob keeps the generation open by reading slowly. Alice reads one byte at 35 offsets that lie far apart.
    const reading = proxy.send({ peer: bob, fields: { range: 'bytes=0-1023' } });
    expect(await reading.status()).toBe(206);
    const statuses: number[] = [];
    for (let place = 1; place <= 35; place += 1) {
      const first = place * 20_480;
      const client = proxy.send({ peer: alice, fields: { range: `bytes=${first}-${first}` } });
      statuses.push(await client.status());
      await client.bytes();
      await settled();
    }
    expect(statuses.filter((status) => status === 206).length).toBeGreaterThan(25);
    expect(statuses.at(-1)).toBe(429);
    const other = proxy.send({ peer: bob, target: '/other', fields: { range: 'bytes=0-0' } });
    expect(await other.status()).toBe(206);
    await other.bytes();
    await reading.bytes();
  });
});

describe('the rest of a file under complete always', () => {
  it('is not fetched on the account of a client that owes more than half', async () => {
    start({ originRanges: 'auto', fill: { complete: 'always' } });
    const origin = createRangeOrigin(proxy.origin, { sizeBytes: 10_200 });
    origin.serve();
    for (const target of ['/1', '/2', '/3', '/4']) {
      await proxy.send({ target, peer: alice, fields: { range: 'bytes=0-0' } }).bytes();
      await settled();
    }
    const wanted = 'bytes=0-1023';
    const rest = 'bytes=1024- if "v1"';
    expect(origin.asked).toEqual([wanted, rest, wanted, rest, wanted, rest, wanted]);
    expect(proxy.fillEvents().filter(({ error }) => error !== undefined)).toEqual([]);
  });
});
