/** Limits of concurrent exchanges with the origin (limits.fills, limits.fillsPerClient): which requests are refused. */

import { afterEach, describe, expect, it } from 'vitest';
import type { AllowanceRules } from '../../src/guard/limits/allowances.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { fetched, settled, storedBody } from '../support/clients/conversation.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import { createLimitedGate } from '../support/proxies/limited-gate.ts';
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

function start(rules: Partial<AllowanceRules>, options: WholeProxyOptions = {}): void {
  proxy = createWholeProxy({ ...options, gate: createLimitedGate(rules) });
}

/** Sends a request and begins its transfer. */
async function begun(sent: Sent) {
  const client = proxy.send(sent);
  const exchange = await proxy.origin.next();
  exchange.head({ fields: sized });
  await exchange.send(whole.subarray(0, 1));
  await client.readUntil(1);
  return { client, exchange };
}

function finish(exchange: FakeExchange, from = 1): void {
  void exchange.send(whole.subarray(from));
  exchange.end();
}

async function expectBusy(sent: Sent, status = 503): Promise<void> {
  const before = proxy.origin.requests;
  const client = proxy.send(sent);
  expect([await client.status(), await client.field('retry-after')]).toEqual([status, '1']);
  await client.bytes();
  expect(proxy.origin.requests).toBe(before);
}

describe('one transfer at a time', () => {
  it('keeps all other requests from the origin until it is over, but not from stored bytes or from its own', async () => {
    start({ fills: 1 });
    await fetched(proxy, { fields }, { target: '/stored' });
    const { client, exchange } = await begun({ target: '/1', peer: alice });
    for (const peer of [alice, bob]) await expectBusy({ target: '/2', peer });
    expect(await proxy.send({ target: '/stored' }).field('cache-status')).toContain('hit');
    const joined = proxy.send({ target: '/1', peer: bob });
    finish(exchange);
    for (const each of [client, joined]) expect(await each.bytes()).toEqual(Buffer.from(whole));
    await settled();
    await fetched(proxy, { fields }, { target: '/2' });
  });

  it('is over when its client leaves under onAbort stop', async () => {
    start({ fills: 1 }, { fill: { onAbort: 'stop' } });
    const { client } = await begun({ target: '/1' });
    await client.leave();
    await settled();
    await fetched(proxy, { fields }, { target: '/2' });
  });

  it('goes on without its client, and keeps its place, under onAbort finish', async () => {
    start({ fills: 1 });
    const { client, exchange } = await begun({ target: '/1' });
    await client.leave();
    await settled();
    await expectBusy({ target: '/2' });
    finish(exchange);
    await settled();
    await fetched(proxy, { fields }, { target: '/2' });
  });

  it('lets a stale response be served, with the reason in Cache-Status', async () => {
    start({ fills: 1 });
    await fetched(proxy, { fields: { 'cache-control': 'max-age=1, stale-if-error=60' } }, { target: '/stale' });
    proxy.clock.advance(5000);
    const { client, exchange } = await begun({ target: '/1' });
    const stale = proxy.send({ target: '/stale' });
    expect(await stale.field('cache-status')).toContain('detail=origin_busy');
    expect(await stale.bytes()).toEqual(Buffer.from(storedBody));
    finish(exchange);
    await client.bytes();
  });

  it('puts off a background revalidation to the next request', async () => {
    start({ fills: 1 });
    const head = { fields: { 'cache-control': 'max-age=1, stale-while-revalidate=60', etag: '"v1"' } };
    await fetched(proxy, head, { target: '/stale' });
    proxy.clock.advance(5000);
    const { client, exchange } = await begun({ target: '/1' });
    const stale = proxy.send({ target: '/stale' });
    expect(await stale.field('cache-status')).toContain('hit');
    await stale.bytes();
    await settled();
    expect(proxy.origin.requests).toBe(2);
    finish(exchange);
    await client.bytes();
    await settled();
    const again = proxy.send({ target: '/stale' });
    await again.bytes();
    (await proxy.origin.next()).head({ status: 304, fields: head.fields, framing: 'none' });
    await settled();
    expect(proxy.origin.untaken).toBe(0);
  });

  it('is resumed after a failure, even if another transfer has taken the place', async () => {
    start({ fills: 1 }, { fill: { resumeAttempts: 1 } });
    const { client, exchange } = await begun({ target: '/1', peer: alice });
    exchange.fail(new ProxyError('origin_reset'));
    await proxy.clock.whenPending(1);
    const other = await begun({ target: '/2', peer: bob });
    proxy.clock.advance(100);
    const again = await proxy.origin.next();
    again.respond({ fields }, whole);
    finish(other.exchange);
    for (const each of [client, other.client]) expect(await each.bytes()).toEqual(Buffer.from(whole));
  });

  it('refuses the requests that wait for a transfer that gets no place', async () => {
    start({ fills: 1 });
    const { client, exchange } = await begun({ target: '/1' });
    const statuses = [alice, bob, bob].map((peer) => proxy.send({ target: '/2', peer }).status());
    expect(await Promise.all(statuses)).toEqual([503, 503, 503]);
    finish(exchange);
    await client.bytes();
  });

  it.each([
    ['per route', { fills: 1 }, 503],
    ['per client', { fillsPerClient: 1 }, 429],
  ])('%s is refused to many requests at once as quickly as to one', async (_per, limits, status) => {
    // The clock throws if the requests ask one after the other, while all others wait again.
    start(limits);
    const { client, exchange } = await begun({ target: '/1' });
    const statuses = Array.from({ length: 300 }, () => proxy.send({ target: '/2' }).status());
    expect(new Set(await Promise.all(statuses))).toEqual(new Set([status]));
    finish(exchange);
    await client.bytes();
  });

  it('is refused to many requests at once for the rest of a partly stored entry', async () => {
    start({ fills: 1 }, { originRanges: 'auto' });
    const file = createRangeOrigin(proxy.origin, { sizeBytes: size });
    const part = proxy.send({ target: '/part', fields: { range: 'bytes=0-9' } });
    await file.give();
    await part.bytes();
    await settled();
    const { client, exchange } = await begun({ target: '/1' });
    const before = proxy.origin.requests;
    const rest: Sent = { target: '/part', fields: { range: 'bytes=5000-5009' } };
    // Of the requests of one turn only the first gets a status; the others are cut. Over a wire each has a turn of its own.
    const outcomeOf = async (each: Client) =>
      (await each.status()) === 503 ? 503 : await each.bytes().catch(() => 'cut');
    const outcomes = await Promise.all(Array.from({ length: 300 }, () => outcomeOf(proxy.send(rest))));
    expect(outcomes).toContain(503);
    expect(outcomes.filter((outcome) => outcome !== 503 && outcome !== 'cut')).toEqual([]);
    expect(proxy.origin.requests).toBe(before);
    finish(exchange);
    await client.bytes();
  });
});

describe('one transfer of a client at a time', () => {
  it('keeps that client from the origin, and no other client', async () => {
    start({ fillsPerClient: 1 });
    const first = await begun({ target: '/1', peer: alice });
    await expectBusy({ target: '/2', peer: alice }, 429);
    const second = await begun({ target: '/2', peer: bob });
    const joined = proxy.send({ target: '/2', peer: alice });
    for (const { exchange } of [first, second]) finish(exchange);
    for (const { client } of [first, second, { client: joined }]) {
      expect(await client.bytes()).toEqual(Buffer.from(whole));
    }
  });

  it('does not refuse a client that has waited for the request of a refused client', async () => {
    start({ fillsPerClient: 1 });
    const first = await begun({ target: '/1', peer: alice });
    const [refused, joined] = [alice, bob].map((peer) => proxy.send({ target: '/2', peer }));
    expect(await refused?.status()).toBe(429);
    (await proxy.origin.next()).respond({ fields }, whole);
    expect(await joined?.bytes()).toEqual(Buffer.from(whole));
    finish(first.exchange);
    await first.client.bytes();
  });
});
