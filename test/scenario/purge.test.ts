/** Purges of responses that are stored, arriving, or about to be found: no later request gets a byte of them. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type InvalidationMessage, noFleet } from '../../src/cache/fleet.ts';
import type { PurgeChoice } from '../../src/cache/invalidate/purge.ts';
import { namesOfResource, prefixesOf } from '../../src/routing/cache-key.ts';
import { storedTag } from '../../src/semantics/invalidation.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { createSteeredProxy, ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy, type WholeProxyOptions } from '../support/proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore, type Step } from '../support/stores/steered-store.ts';
import { storeSample } from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const tagged = { 'cache-control': 'max-age=100', etag: '"v1"', 'surrogate-key': 'red blue', 'cache-tag': 'a b,c' };
const newer = { ...tagged, etag: '"v2"' };
const newerBody = patternBytes(0, 3000, 2);
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

type By = 'key' | 'prefix' | 'tag';
const ways: readonly By[] = ['key', 'prefix', 'tag'];

function orderBy(by: By): PurgeChoice {
  const place = { authority: 'files.example', target: '/file' };
  return {
    keys: by === 'key' ? namesOfResource(place, [proxy.route]).keys : [],
    prefixes: by === 'prefix' ? prefixesOf({ ...place, target: '/f' }, [proxy.route]) : [],
    tags: by === 'tag' ? [storedTag('red')] : [],
  };
}

function purge(by: By, mode: 'hard' | 'soft' = 'hard'): Promise<number> {
  return proxy.cache.purge({ ...orderBy(by), mode });
}

/** Sends a HEAD that reaches the origin, which answers with these fields, a lifetime and the stored length. */
async function headed(fields: Record<string, string>): Promise<void> {
  const client = proxy.send({ method: 'HEAD', fields: { 'cache-control': 'no-cache' } });
  const head = { 'cache-control': 'max-age=100', 'content-length': '3000', ...fields };
  (await proxy.origin.next()).head({ framing: 'none', fields: head });
  await client.response;
  await settled();
}

/** Expects that the origin answers the next request, with newer bytes, which are stored. */
async function expectNewer(): Promise<void> {
  const client = proxy.send();
  (await proxy.origin.next()).respond({ fields: newer }, newerBody);
  expect(Buffer.from(await client.bytes()).equals(newerBody)).toBe(true);
  await settled();
  expect(await (await reused(proxy)).field('etag')).toBe('"v2"');
}

describe.each(ways)('a hard purge by %s', (by) => {
  it('removes the stored entries, and returns how many they were', async () => {
    await fetched(proxy, { fields: tagged });
    expect(await purge(by)).toBe(1);
    expect(await purge(by)).toBe(0);
    await expectNewer();
  });

  it('removes all variants', async () => {
    const varied = { ...tagged, vary: 'accept-language' };
    await fetched(proxy, { fields: varied }, { fields: { 'accept-language': 'de' } });
    await fetched(proxy, { fields: varied }, { fields: { 'accept-language': 'fr' } });
    expect(await purge(by)).toBeGreaterThan(0);
    await fetched(proxy, { fields: varied }, { fields: { 'accept-language': 'de' } });
    await fetched(proxy, { fields: varied }, { fields: { 'accept-language': 'fr' } });
  });

  it('removes pinned generations', async () => {
    await proxy.close();
    start({ route: { cache: { pinSeconds: 100 } } });
    await fetched(proxy, { fields: tagged });
    proxy.clock.advance(101_000);
    await fetched(proxy, { fields: newer }, {}, newerBody);
    const resume = { fields: { range: 'bytes=2000-', 'if-range': '"v1"' } };
    expect(await (await reused(proxy, resume)).status()).toBe(206);
    await purge(by);
    await fetched(proxy, { fields: newer }, resume, newerBody);
  });

  it('removes partly stored entries', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: tagged });
    const ask = async () => {
      const client = proxy.send({ fields: { range: 'bytes=0-99' } });
      await origin.give();
      await client.bytes();
      await settled();
    };
    await ask();
    expect(await purge(by)).toBe(1);
    await ask();
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=0-1023']);
  });

  it('keeps an arriving response from being joined, while its readers get all of it', async () => {
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...tagged, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    await purge(by);
    await expectNewer();
    void exchange.send(storedBody.subarray(1500));
    exchange.end();
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    expect(await (await reused(proxy)).field('etag')).toBe('"v2"');
  });

  it.each<Step>(['openWriter', 'writeBlock', 'publish', 'commit'])('waits for a fill at %s', async (step) => {
    const held = store.hold(step);
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.respond({ fields: tagged }, storedBody);
    await held.reached;
    const purging = purge(by);
    await settled();
    held.release();
    await purging;
    // The purged response is not found even for a moment.
    const client = proxy.send();
    (await proxy.origin.next()).respond({ fields: newer }, newerBody);
    expect(Buffer.from(await client.bytes()).equals(newerBody)).toBe(true);
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    expect(await (await reused(proxy)).field('etag')).toBe('"v2"');
  });

  it('is not undone by a validation that was requested before', async () => {
    await fetched(proxy, { fields: tagged });
    proxy.clock.advance(101_000);
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    await purge(by);
    exchange.respond({ status: 304, fields: tagged }, noBytes);
    const again = await proxy.origin.next();
    again.respond({ fields: tagged }, storedBody);
    await client.bytes();
    await settled();
    await expectNewer();
  });

  it('makes later requests ask again, instead of sharing a response that was requested before', async () => {
    const early = proxy.send();
    const exchange = await proxy.origin.next();
    await purge(by);
    const late = proxy.send();
    await settled();
    exchange.respond({ fields: tagged }, storedBody);
    expect(await early.bytes()).toEqual(Buffer.from(storedBody));
    (await proxy.origin.next()).respond({ fields: newer }, newerBody);
    expect(await late.field('etag')).toBe('"v2"');
    await late.bytes();
  });

  it('keeps later requests from an entry that is being completed while it is removed', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: tagged });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await first.bytes();
    await settled();
    const held = store.hold(by === 'key' ? 'removeKey' : by === 'prefix' ? 'removePrefixed' : 'removeTagged');
    const purging = purge(by);
    await held.reached;
    const between = proxy.send({ fields: { range: 'bytes=2000-2999' } });
    const rest = await origin.begin();
    held.release();
    await purging;
    const after = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await after.bytes();
    rest.finish();
    await between.bytes().catch(() => undefined);
    expect(origin.asked.filter((range) => range === 'bytes=0-1023')).toHaveLength(2);
  });
});

describe.each(ways)('a soft purge by %s', (by) => {
  beforeEach(() => proxy.clock.advance(1000));

  it('has a stored entry validated before it is used again', async () => {
    await fetched(proxy, { fields: tagged });
    expect(await purge(by, 'soft')).toBe(1);
    proxy.clock.advance(1);
    const { exchange } = await fetched(proxy, { status: 304, fields: { etag: '"v1"' } }, {}, noBytes);
    expect(exchange.request.fields).toContainEqual(['if-none-match', '"v1"']);
    await reused(proxy);
  });

  it('makes the origin send the new response where it has one', async () => {
    await fetched(proxy, { fields: tagged });
    await purge(by, 'soft');
    await expectNewer();
  });

  it.each([
    ['stale-if-error=50', 200],
    ['must-revalidate', 502],
  ])('leaves it to %s whether the entry is served when the origin fails', async (directive, status) => {
    await fetched(proxy, { fields: { ...tagged, 'cache-control': `max-age=100, ${directive}` } });
    await purge(by, 'soft');
    const client = proxy.send();
    (await proxy.origin.next()).respond({ status: 502 }, noBytes);
    expect(await client.status()).toBe(status);
    await client.bytes();
    await settled();
  });

  it('lets the entry be served stale no longer than if its lifetime had ended then', async () => {
    await fetched(proxy, { fields: { ...tagged, 'cache-control': 'max-age=100, stale-if-error=50' } });
    await purge(by, 'soft');
    proxy.clock.advance(50_001);
    const client = proxy.send();
    (await proxy.origin.next()).respond({ status: 502 }, noBytes);
    expect(await client.status()).toBe(502);
    await client.bytes();
  });

  it('lets transfers go on, and has their responses validated', async () => {
    const reading = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...tagged, 'content-length': '3000' } });
    await exchange.send(storedBody.subarray(0, 1500));
    await purge(by, 'soft');
    proxy.clock.advance(1);
    const late = proxy.send();
    (await proxy.origin.next()).respond({ status: 304, fields: { etag: '"v1"' } }, noBytes);
    void exchange.send(storedBody.subarray(1500));
    exchange.end();
    expect(await late.bytes()).toEqual(Buffer.from(storedBody));
    expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
    await settled();
    expect(proxy.origin.requests).toBe(2);
  });

  it.each<Step>(['openWriter', 'writeBlock', 'publish', 'commit'])('applies to a fill at %s', async (step) => {
    const held = store.hold(step);
    const reading = proxy.send();
    (await proxy.origin.next()).respond({ fields: tagged }, storedBody);
    await held.reached;
    const purging = purge(by, 'soft');
    await settled();
    held.release();
    await purging;
    await reading.bytes();
    await settled();
    await fetched(proxy, { fields: newer }, {}, newerBody);
  });

  it('is not undone by a validation that was requested before', async () => {
    await fetched(proxy, { fields: tagged });
    proxy.clock.advance(101_000);
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    await purge(by, 'soft');
    proxy.clock.advance(1);
    exchange.respond({ status: 304, fields: tagged }, noBytes);
    await settled();
    if (proxy.origin.untaken > 0) (await proxy.origin.next()).respond({ fields: tagged }, storedBody);
    await client.bytes();
    await settled();
    await fetched(proxy, { fields: newer }, {}, newerBody);
  });

  it.each([
    ['ends with a HEAD that has the same entity tag', { etag: '"v1"' }, true],
    ['outlives a HEAD without an entity tag', {}, false],
  ])('%s', async (_name, head, isOver) => {
    await fetched(proxy, { fields: tagged });
    await purge(by, 'soft');
    proxy.clock.advance(1);
    await headed(head);
    if (isOver) await reused(proxy);
    else await fetched(proxy, { fields: newer }, {}, newerBody);
  });

  it('waits for an update by an earlier HEAD', async () => {
    await fetched(proxy, { fields: tagged });
    proxy.clock.advance(1);
    const held = store.hold('replaceMetadata');
    const heading = headed({ etag: '"v1"' });
    await held.reached;
    let isHeeded = false;
    const news = { kind: 'invalidated', ...orderBy(by), expiredAt: proxy.clock.now() } as const;
    const heeding = proxy.cache.applyInvalidation(news).then(() => {
      isHeeded = true;
    });
    await settled();
    expect(isHeeded).toBe(false);
    held.release();
    await heeding;
    await heading;
  });

  it('waits for an update by an earlier part', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: tagged });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await first.bytes();
    await settled();
    const held = store.hold('replaceMetadata');
    const second = proxy.send({ fields: { range: 'bytes=2000-2999' } });
    const giving = origin.give();
    await held.reached;
    let isHeeded = false;
    const heeding = proxy.cache.applyInvalidation({ kind: 'invalidated', ...orderBy(by) }).then(() => {
      isHeeded = true;
    });
    await settled();
    expect(isHeeded).toBe(false);
    held.release();
    await Promise.all([heeding, giving, second.bytes()]);
  });

  it('removes pinned generations, which are never validated', async () => {
    await proxy.close();
    start({ route: { cache: { pinSeconds: 100 } } });
    await fetched(proxy, { fields: tagged });
    proxy.clock.advance(101_000);
    await fetched(proxy, { fields: newer }, {}, newerBody);
    await purge(by, 'soft');
    proxy.clock.advance(1);
    const resume = { fields: { range: 'bytes=2000-', 'if-range': '"v1"' } };
    await fetched(proxy, { fields: newer }, resume, newerBody);
  });
});

describe('an invalidation in several processes', () => {
  const order = { keys: ['k'], prefixes: ['p'], tags: ['tag:red'] };

  it.each(['hard', 'soft'] as const)(
    'is announced for a %s purge before the store is changed, and after',
    async (mode) => {
      await proxy.close();
      const announced: unknown[] = [];
      const tell = async (news: InvalidationMessage) => {
        await turn();
        const [entry] = (await store.list({ kind: 'tag', tag: 'tag:red' }, 1)).entries;
        announced.push([
          news,
          entry === undefined ? 'gone' : entry.metadata.expiredAt === undefined ? 'as it was' : 'expired',
        ]);
      };
      start({ processes: 1, fleet: { ...noFleet, announce: tell } });
      await fetched(proxy, { fields: tagged });
      await proxy.cache.purge({ ...order, mode });
      const expiredAt = mode === 'soft' ? proxy.clock.now() : undefined;
      const news = { kind: 'invalidated', ...order, expiredAt };
      expect(announced).toEqual([
        [news, 'as it was'],
        [news, mode === 'hard' ? 'gone' : 'expired'],
      ]);
    },
  );

  it('expires what is stored after it by a process that others did not wait for', async () => {
    const held = store.hold('commit');
    const reading = proxy.send();
    (await proxy.origin.next()).respond({ fields: tagged }, storedBody);
    await held.reached;
    const expiredAt = proxy.clock.now();
    const keys = [...orderBy('key').keys];
    const heeding = proxy.cache.applyInvalidation({ kind: 'invalidated', ...order, keys, expiredAt });
    proxy.clock.advance(1);
    held.release();
    await Promise.all([heeding, reading.bytes()]);
    await settled();
    const { entries } = await store.list({ kind: 'prefix', prefix: '' }, 2);
    expect(entries.map(({ metadata }) => metadata.expiredAt)).toEqual([expiredAt]);
  });

  it('expires what a 304 renews after it in a process that others did not wait for', async () => {
    await fetched(proxy, { fields: tagged });
    proxy.clock.advance(200_000);
    const reading = proxy.send();
    const held = store.hold('replaceMetadata');
    (await proxy.origin.next()).head({ status: 304, framing: 'none', fields: tagged });
    await held.reached;
    const expiredAt = proxy.clock.now();
    const keys = [...orderBy('key').keys];
    const heeding = proxy.cache.applyInvalidation({ kind: 'invalidated', ...order, keys, expiredAt });
    proxy.clock.advance(1);
    held.release();
    await Promise.all([heeding, reading.bytes()]);
    await settled();
    const { entries } = await store.list({ kind: 'prefix', prefix: '' }, 2);
    expect(entries.map(({ metadata }) => metadata.expiredAt)).toEqual([expiredAt]);
  });

  it.each(['hard', 'soft'])(
    'keeps nothing that is published after a %s one where the store cannot be read',
    async (mode) => {
      const held = store.hold('publish');
      const reading = proxy.send();
      const exchange = await proxy.origin.next();
      exchange.head({ fields: { ...tagged, 'content-length': '3000' } });
      void exchange.send(storedBody.subarray(0, 1500));
      await held.reached;
      const keys = [...orderBy('key').keys];
      const expiredAt = mode === 'soft' ? proxy.clock.now() : undefined;
      const heeding = proxy.cache.applyInvalidation({ kind: 'invalidated', ...order, keys, expiredAt });
      const unreadable = vi.spyOn(store, 'find').mockResolvedValue([]);
      held.release();
      await heeding;
      unreadable.mockRestore();
      expect((await store.list({ kind: 'prefix', prefix: '' }, 2)).entries).toEqual([]);
      void exchange.send(storedBody.subarray(1500));
      exchange.end();
      expect(await reading.bytes()).toEqual(Buffer.from(storedBody));
      await settled();
      await fetched(proxy, { fields: newer }, {}, newerBody);
    },
  );

  describe('expires in a process that others did not wait for', () => {
    const part = (range: string) => proxy.send({ fields: { range } });
    let origin: RangeOrigin;
    beforeEach(async () => {
      await proxy.close();
      start({ originRanges: 'auto' });
      origin = createRangeOrigin(proxy.origin, { fields: tagged });
      const first = part('bytes=0-99');
      await origin.give();
      await first.bytes();
      await settled();
    });

    it.each<readonly [string, Step, () => Promise<unknown>]>([
      ['what a part renews after it', 'replaceMetadata', () => given('bytes=2048-2999')],
      ['an entry that is completed after it', 'commit', () => given('bytes=1024-')],
      ['what a HEAD renews after it', 'replaceMetadata', () => headed({ etag: '"v1"' })],
    ])('%s', async (_name, step, change) => {
      proxy.clock.advance(1);
      const held = store.hold(step);
      const changing = change();
      await held.reached;
      const expiredAt = proxy.clock.now();
      const keys = [...orderBy('key').keys];
      const heeding = proxy.cache.applyInvalidation({ kind: 'invalidated', ...order, keys, expiredAt });
      held.release();
      await Promise.all([heeding, changing]);
      await settled();
      const { entries } = await store.list({ kind: 'prefix', prefix: '' }, 2);
      expect(entries.map(({ metadata }) => metadata.expiredAt)).toEqual([expiredAt]);
    });

    async function given(range: string): Promise<void> {
      const client = part(range);
      await origin.give();
      await client.bytes();
    }
  });

  it.each([
    ['nothing', [] as string[]],
    ['another variant', ['one']],
  ])(
    'expires what another process has stored of which memory does not know yet, which has %s',
    async (_name, known) => {
      await proxy.close();
      const below = createSteeredStore();
      const tiered = createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), below, () => 0);
      proxy = createWholeProxy({ createStore: () => tiered });
      const [key = ''] = orderBy('key').keys;
      for (const variant of known) await storeSample(below, { key, variant, sizeBytes: 1 });
      expect(await tiered.find(key)).toHaveLength(known.length);
      await storeSample(below, { key, variant: 'two', sizeBytes: 1 });
      await purge('key', 'soft');
      const all = await below.find(key);
      expect(all.map(({ metadata }) => metadata.expiredAt)).toEqual([...known, 'two'].map(() => proxy.clock.now()));
    },
  );

  it('is applied once no response that began before can be stored any more', async () => {
    const held = store.hold('commit');
    const reading = proxy.send();
    (await proxy.origin.next()).respond({ fields: tagged }, storedBody);
    await held.reached;
    let isHeeded = false;
    const heeding = proxy.cache.applyInvalidation({ kind: 'invalidated', ...order }).then(() => {
      isHeeded = true;
    });
    await settled();
    expect(isHeeded).toBe(false);
    held.release();
    await heeding;
    await reading.bytes();
    expect((await store.list({ kind: 'prefix', prefix: '' }, 1)).entries).toEqual([]);
    await expectNewer();
  });
});

describe('tags', () => {
  it.each(['red', 'blue', 'a b', 'c'])('%j belongs to the response', async (tag) => {
    await fetched(proxy, { fields: tagged });
    const none = { keys: [], prefixes: [] };
    for (const other of ['Red', 're', 'a', 'b', '"red"', '']) {
      await proxy.cache.purge({ ...none, tags: [storedTag(other)], mode: 'hard' });
    }
    await reused(proxy);
    expect(await proxy.cache.purge({ ...none, tags: [storedTag(tag)], mode: 'hard' })).toBe(1);
    await expectNewer();
  });

  it('are passed on to the client', async () => {
    await fetched(proxy, { fields: tagged });
    const client = await reused(proxy);
    expect(await client.field('surrogate-key')).toBe('red blue');
    expect(await client.field('cache-tag')).toBe('a b,c');
  });

  it('are those of the last 304', async () => {
    await fetched(proxy, { fields: tagged });
    proxy.clock.advance(101_000);
    await fetched(proxy, { status: 304, fields: { 'surrogate-key': 'green' } }, {}, noBytes);
    await purge('tag');
    await reused(proxy);
    await proxy.cache.purge({ keys: [], prefixes: [], tags: [storedTag('green')], mode: 'hard' });
    await expectNewer();
  });

  it('cannot be invalidated by an origin, nor confused with groups', async () => {
    await fetched(proxy, { fields: { ...tagged, 'surrogate-key': '["http://files.example","g"]' } });
    const fields = { 'cache-group-invalidation': '"g", "red", "tag:red", "c"' };
    await fetched(proxy, { status: 204, fields }, { method: 'PUT', target: '/elsewhere' }, noBytes);
    await reused(proxy);
  });
});

describe('a prefix', () => {
  it('is compared as text: with a slash at its end it covers only the targets below', async () => {
    for (const target of ['/a', '/ab', '/a/b', '/b']) await fetched(proxy, { fields: tagged }, { target });
    const below = prefixesOf({ authority: 'files.example', target: '/a/' }, [proxy.route]);
    expect(await proxy.cache.purge({ keys: [], prefixes: below, tags: [], mode: 'hard' })).toBe(1);
    for (const target of ['/a', '/ab', '/b']) await reused(proxy, { target });
    const begun = prefixesOf({ authority: 'files.example', target: '/a' }, [proxy.route]);
    expect(await proxy.cache.purge({ keys: [], prefixes: begun, tags: [], mode: 'hard' })).toBe(2);
    await reused(proxy, { target: '/b' });
  });
});
