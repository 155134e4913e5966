/** Invalidated cache groups (RFC 9875) whose responses are arriving, partly stored, or about to be freshened. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSteeredProxy, ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import {
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import type { SteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };
const grouped = { ...fresh, 'cache-groups': '"g"' };
const noBytes = new Uint8Array();

let store: SteeredStore;
let proxy: WholeProxy;
const start = (options: WholeProxyOptions = {}) => {
  ({ store, proxy } = createSteeredProxy(options));
};
beforeEach(() => start());
afterEach(async () => {
  await ended(proxy, store);
});

/** Sends an unsafe request to another target, whose response invalidates a group. */
async function clear(group: string, sent: Sent = {}) {
  const fields = { 'cache-group-invalidation': `"${group}"` };
  await fetched(proxy, { status: 204, fields }, { method: 'PUT', target: '/elsewhere', ...sent }, noBytes);
}

describe('the invalidation of a group', () => {
  it('concerns partly stored responses', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: grouped });
    const client = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await client.bytes();
    await settled();
    await reused(proxy, { fields: { range: 'bytes=0-99' } });
    await clear('g');
    const again = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await again.bytes();
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=0-1023']);
  });

  it('keeps an arriving response out of the store, while its readers get all of it', async () => {
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...grouped, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    await clear('g');
    const late = proxy.send();
    (await proxy.origin.next()).respond({ fields: { ...grouped, etag: '"v2"' } }, patternBytes(0, 3000, 2));
    expect(await late.bytes()).toEqual(Buffer.from(patternBytes(0, 3000, 2)));
    void exchange.send(storedBody.subarray(1500));
    exchange.end();
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    expect(await (await reused(proxy)).field('etag')).toBe('"v2"');
  });

  it.each(['openWriter', 'writeBlock', 'commit'] as const)('keeps out a response that is at %s then', async (step) => {
    const held = store.hold(step);
    const reading = proxy.send();
    (await proxy.origin.next()).respond({ fields: grouped }, storedBody);
    await held.reached;
    const cleared = clear('g');
    await turn();
    held.release();
    await cleared;
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    await fetched(proxy, { fields: grouped });
  });

  it('keeps out a response that was requested before', async () => {
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    await clear('g');
    exchange.respond({ fields: grouped }, storedBody);
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    await fetched(proxy, { fields: grouped });
    await reused(proxy);
  });

  it('makes later requests ask again, instead of sharing a response that was requested before', async () => {
    const early = [proxy.send(), proxy.send()];
    const exchange = await proxy.origin.next();
    await clear('g');
    const late = proxy.send();
    await settled();
    exchange.respond({ fields: grouped }, storedBody);
    for (const client of early) expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    const again = await proxy.origin.next();
    again.respond({ fields: { ...grouped, etag: '"v2"' } }, patternBytes(0, 3000, 2));
    expect(await late.field('etag')).toBe('"v2"');
    expect(await late.bytes()).toEqual(Buffer.from(patternBytes(0, 3000, 2)));
  });

  it('does not concern a response that turns out to be of other groups', async () => {
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    await clear('g');
    exchange.respond({ fields: { ...fresh, 'cache-groups': '"h"' } }, storedBody);
    await reading.bytes();
    await settled();
    await reused(proxy);
  });

  it('concerns its own authority only', async () => {
    await fetched(proxy, { fields: grouped });
    await clear('g', { authority: 'other.example' });
    await clear('g', { authority: 'files.example:8080' });
    await reused(proxy);
    await clear('g', { authority: 'FILES.example:80' });
    await fetched(proxy, { fields: grouped });
  });

  it.each(['GET', 'HEAD', 'OPTIONS'])('has no effect in a response to %s', async (method) => {
    await fetched(proxy, { fields: grouped });
    const fields = { 'cache-group-invalidation': '"g"' };
    await fetched(proxy, { fields, framing: 'none' }, { method, target: '/elsewhere' }, noBytes);
    await reused(proxy);
  });
});

describe('the groups of a stored response', () => {
  it('are those of the last 304', async () => {
    await fetched(proxy, { fields: grouped });
    proxy.clock.advance(101_000);
    await fetched(proxy, { status: 304, fields: { 'cache-groups': '"h"' } }, {}, noBytes);
    await clear('g');
    await reused(proxy);
    await clear('h');
    await fetched(proxy, { fields: grouped });
  });

  it('stay the same when a 304 has no Cache-Groups', async () => {
    await fetched(proxy, { fields: grouped });
    proxy.clock.advance(101_000);
    await fetched(proxy, { status: 304, fields: fresh }, {}, noBytes);
    await clear('g');
    await fetched(proxy, { fields: grouped });
  });

  it('are those of the last response to HEAD', async () => {
    await fetched(proxy, { fields: grouped });
    const fields = { ...fresh, 'cache-groups': '"h"' };
    proxy.clock.advance(1000);
    await fetched(
      proxy,
      { fields, framing: 'none' },
      { method: 'HEAD', fields: { 'cache-control': 'no-cache' } },
      noBytes,
    );
    await clear('h');
    await fetched(proxy, { fields: grouped });
  });

  it('change with a 304 even while the response is being read', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: fresh });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await first.bytes();
    await settled();
    const reading = proxy.send({ fields: { range: 'bytes=2000-9999' } });
    const rest = await origin.begin();
    await clear('h');
    const reload = proxy.send({ fields: { range: 'bytes=0-99', 'cache-control': 'no-cache' } });
    (await proxy.origin.next()).respond({ status: 304, fields: { 'cache-groups': '"h"' } }, noBytes);
    await reload.bytes();
    rest.finish();
    expect(await reading.bytes()).toEqual(Buffer.from(patternBytes(2000, 10_000)));
    await settled();
    // The 304 is newer than the invalidation.
    await reused(proxy, { fields: { range: 'bytes=5000-5099' } });
    await clear('h');
    const again = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await again.bytes();
  });

  it('are invalid when their 304 was requested before the invalidation', async () => {
    await fetched(proxy, { fields: fresh });
    proxy.clock.advance(101_000);
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    await clear('g');
    exchange.respond({ status: 304, fields: grouped }, noBytes);
    await settled();
    if (proxy.origin.untaken > 0) (await proxy.origin.next()).respond({ fields: grouped }, storedBody);
    await client.bytes();
    await settled();
    await fetched(proxy, { fields: { ...grouped, etag: '"v2"' } });
  });

  it('count up to the 128th, and no further', async () => {
    const many = Array.from({ length: 200 }, (_, index) => `"g${index}"`).join(', ');
    await fetched(proxy, { fields: { ...fresh, 'cache-groups': many } });
    await clear('g128');
    await clear('g199');
    await clear('x'.repeat(300));
    await reused(proxy);
    await clear('g127');
    await fetched(proxy, { fields: fresh });
  });
});

describe('a route without a cache', () => {
  it('invalidates the groups of other routes all the same', async () => {
    await fetched(proxy, { fields: grouped });
    const bypassing = createWholeProxy({ createStore: () => store, route: { cache: { enabled: false } } });
    const fields = { 'cache-group-invalidation': '"g"' };
    await fetched(bypassing, { status: 204, fields }, { method: 'POST', target: '/elsewhere' }, noBytes);
    await bypassing.closeCache();
    await fetched(proxy, { fields: grouped });
  });
});
