/** Explanations of responses that were not stored: why, and how long ago. */

import { afterEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { StoreFault } from '../../src/store/store.ts';
import type { FakeHead } from '../support/origins/fake-origin.ts';
import {
  createWholeProxy,
  type RouteOptions,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { createSteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const body = patternBytes(0, 3000);
const fresh = { 'cache-control': 'max-age=100' };

let proxy: WholeProxy;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

function start(options: WholeProxyOptions = {}): void {
  proxy = createWholeProxy(options);
}

async function exchange(head: FakeHead, sent: Sent = {}): Promise<void> {
  const client = proxy.send(sent);
  (await proxy.origin.next()).respond(head, body);
  await client.bytes();
}

describe('a response that was not stored', () => {
  it.each<[reason: string, head: FakeHead, cache?: RouteOptions['cache'], sent?: Sent]>([
    ['no-store', { fields: { 'cache-control': 'no-store' } }],
    ['private', { fields: { 'cache-control': 'private' } }],
    ['set-cookie', { fields: { 'set-cookie': 'a=1', etag: '"v1"' } }],
    ['vary-star', { fields: { ...fresh, vary: '*' } }],
    ['authorization', { fields: fresh }, {}, { fields: { authorization: 'Basic YTpi' } }],
    ['no-freshness', { status: 302 }],
    ['status', { status: 429, fields: fresh }],
    ['provoked', { status: 400, fields: fresh }, {}, { fields: { 'x-a': 'ä' } }],
    ['few-uses', { fields: fresh }, { storeAfterUses: 2 }],
    ['bypass', { fields: fresh }, { enabled: false }],
    ['request', { fields: fresh }, {}, { fields: { 'cache-control': 'no-store' } }],
  ])('is explained by %s', async (reason, head, cache = {}, sent) => {
    start({ route: { cache } });
    await exchange(head, sent);
    const at = proxy.clock.now();
    proxy.clock.advance(2500);
    const { notStored } = await proxy.explain();
    expect(notStored).toEqual({ reason, status: head.status ?? 200, at, agoMs: 2500 });
  });

  it('is explained by close-delimited, where the route relays such responses', async () => {
    start({ route: { closeDelimited: 'relay' } });
    await exchange({ fields: { ...fresh, 'content-length': '3000' }, framing: 'close' });
    expect((await proxy.explain()).notStored).toMatchObject({ reason: 'close-delimited', status: 200 });
  });

  it('keeps its reason while the requests for its key do not wait for each other', async () => {
    start();
    await exchange({ fields: { 'cache-control': 'private' } });
    await exchange({ fields: { 'cache-control': 'private' } });
    expect(await proxy.explain()).toMatchObject({ decision: { kind: 'fill' }, notStored: { reason: 'private' } });
    expect(await proxy.explain({ fields: { range: 'bytes=0-9' } })).toMatchObject({
      decision: { kind: 'pass', reason: 'unshared', cacheStatus: 'rangeway; fwd=uri-miss; detail=unshared' },
      notStored: { reason: 'private' },
    });
  });

  it('is forgotten when a later response is stored', async () => {
    start({ route: { cache: { storeAfterUses: 2 } } });
    await exchange({ fields: fresh });
    expect((await proxy.explain()).notStored).toMatchObject({ reason: 'few-uses' });
    await exchange({ fields: fresh });
    await proxy.fillsEnded(1);
    expect(await proxy.explain()).toMatchObject({ decision: { kind: 'hit' } });
    expect(await proxy.explain()).not.toHaveProperty('notStored');
  });

  it('is explained for its own key only, and not for other methods', async () => {
    start();
    await exchange({ fields: { 'cache-control': 'private' } }, { target: '/a' });
    await exchange({ fields: fresh }, { target: '/b', method: 'POST' });
    expect(await proxy.explain({ target: '/b' })).not.toHaveProperty('notStored');
    expect((await proxy.explain({ target: '/a' })).notStored?.reason).toBe('private');
  });

  it('is explained by too-large', async () => {
    start({ maxSizeBytes: 8 * 1024 });
    await exchange({ fields: fresh });
    expect((await proxy.explain()).notStored).toMatchObject({ reason: 'too-large', status: 200 });
  });

  it('is explained by store-unavailable, when the store fails later and when it fails at once', async () => {
    const store = createSteeredStore();
    start({ createStore: () => store });
    const first = proxy.send();
    const begun = await proxy.origin.next();
    begun.head({ fields: fresh });
    await begun.send(body.subarray(0, 1024));
    expect(await proxy.explain()).not.toHaveProperty('notStored');
    store.fail('writeBlock', new StoreFault('no_room', 'full'));
    void begun.send(body.subarray(1024));
    begun.end();
    await first.bytes();
    await proxy.fillsEnded(1);
    expect((await proxy.explain()).notStored).toMatchObject({ reason: 'store-unavailable' });
    store.fail('openWriter', new StoreFault('no_room', 'full'));
    proxy.clock.advance(1000);
    await exchange({ fields: fresh });
    expect((await proxy.explain()).notStored).toMatchObject({ reason: 'store-unavailable', agoMs: 0 });
  });

  it('is explained by digest-mismatch', async () => {
    start();
    const stated = `sha-256=:${Buffer.alloc(32).toString('base64')}:`;
    for (const etag of [{}, { etag: '"v1"' }]) {
      const client = proxy.send();
      (await proxy.origin.next()).respond({ fields: { ...fresh, ...etag, 'repr-digest': stated } }, body);
      await expect(client.bytes()).rejects.toThrow();
      await proxy.fillsEnded('etag' in etag ? 2 : 1);
      expect(await proxy.explain()).toMatchObject({ notStored: { reason: 'digest-mismatch' }, entryCount: 0 });
      proxy.clock.advance(20_000);
    }
  });

  it('is explained by the error that broke it off', async () => {
    start();
    const client = proxy.send();
    const broken = await proxy.origin.next();
    broken.head({ fields: { ...fresh, 'content-length': '3000' } });
    await broken.send(body.subarray(0, 2000));
    broken.fail(new ProxyError('origin_reset'));
    await expect(client.bytes()).rejects.toThrow();
    await proxy.fillsEnded(1);
    expect((await proxy.explain()).notStored).toMatchObject({ reason: 'origin_reset', status: 200 });
  });

  it('is explained by stopped when its last client has left', async () => {
    start({ fill: { onAbort: 'stop' } });
    const client = proxy.send();
    const abandoned = await proxy.origin.next();
    abandoned.head({ fields: { ...fresh, 'content-length': '3000' } });
    await client.status();
    await client.leave();
    await proxy.fillsEnded(1);
    expect((await proxy.explain()).notStored).toMatchObject({ reason: 'stopped' });
  });

  it('is explained by outdated when it was invalidated while it arrived', async () => {
    start();
    const client = proxy.send();
    const begun = await proxy.origin.next();
    begun.head({ fields: { ...fresh, 'content-length': '3000' } });
    await client.status();
    await exchange({}, { method: 'POST' });
    void begun.send(body);
    begun.end();
    await client.bytes();
    await proxy.fillsEnded(1);
    expect(await proxy.explain()).toMatchObject({ notStored: { reason: 'outdated' }, entryCount: 0 });
  });
});
