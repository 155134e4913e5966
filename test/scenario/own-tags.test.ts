/** Entity tags made by Rangeway, where the origin sends no strong validator, and storing only after some uses. */

import { afterEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type RouteOptions, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
const soonStale = { 'cache-control': 'max-age=60' };

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

function open(fields: Record<string, string>, cache: NonNullable<RouteOptions['cache']>): void {
  proxy = createWholeProxy({ route: { cache } });
  origin = createRangeOrigin(proxy.origin, { hasRanges: false, fields: { ...soonStale, ...fields } });
}

/** Fetches the file. Returns the entity tag that the next client gets. */
async function fetchedTag(): Promise<string> {
  const ended = proxy.fillEvents().length + 1;
  const client = proxy.send();
  await origin.give();
  await client.bytes();
  await proxy.fillsEnded(ended);
  return (await proxy.send().field('etag')) ?? '';
}

const results = () => proxy.fillEvents().map(({ result }) => result);

/** A Date less than a second after Last-Modified: a weak validator (RFC 9110 §8.8.2.2). */
const weakDate = {
  'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT',
  date: 'Thu, 01 Jan 2026 00:00:00 GMT',
};
const strongDate = { ...weakDate, 'last-modified': 'Wed, 31 Dec 2025 00:00:00 GMT' };

describe('an entity tag made by Rangeway', () => {
  it.each([
    ['whenNone', 'no validator', {}, true],
    ['whenNone', 'a weak tag', { etag: 'W/"v1"' }, false],
    ['whenNone', 'a weak date', weakDate, false],
    ['whenNone', 'a strong tag', { etag: '"v1"' }, false],
    ['whenWeak', 'no validator', {}, true],
    ['whenWeak', 'a weak tag', { etag: 'W/"v1"' }, true],
    ['whenWeak', 'a weak date', weakDate, true],
    ['whenWeak', 'a strong tag', { etag: '"v1"' }, false],
    ['whenWeak', 'a strong date', strongDate, false],
  ] as const)(
    'under %s, where the origin sends %s (%o), is given: %s',
    async (ownEntityTags, _name, fields, isOurs) => {
      open(fields, { ownEntityTags });
      const tag = await fetchedTag();
      expect(/^"rw-.+"$/.test(tag)).toBe(isOurs);
      const client = proxy.send({ fields: { range: 'bytes=10-19', 'if-range': tag } });
      expect(await client.status()).toBe(isOurs || tag === '"v1"' ? 206 : 200);
    },
  );

  it.each<[string, Record<string, string>]>([
    ['no validator', {}],
    ['a weak tag', { etag: 'W/"v1"' }],
  ])(
    'stays the same, as does the generation, when the same bytes are fetched again from an origin with %s',
    async (_name, fields) => {
      open(fields, { ownEntityTags: 'whenWeak' });
      const tag = await fetchedTag();
      proxy.clock.advance(61_000);
      expect(await fetchedTag()).toBe(tag);
      expect(results()).toEqual(['stored', 'same']);
      await expectPart(proxy.send({ fields: { range: 'bytes=10-19', 'if-range': tag } }), 10, 20);
    },
  );

  it('changes when other bytes are fetched, even under the same weak tag of the origin', async () => {
    open({ etag: 'W/"v1"' }, { ownEntityTags: 'whenWeak' });
    const tag = await fetchedTag();
    proxy.clock.advance(61_000);
    origin.file = { ...origin.file, seed: 2 };
    expect(await fetchedTag()).not.toBe(tag);
    const resumed = proxy.send({ fields: { range: 'bytes=10-19', 'if-range': tag } });
    await expectWhole(resumed, { seed: 2 });
  });

  it('is for clients only: the origin is asked with its own tag', async () => {
    open({ etag: 'W/"v1"' }, { ownEntityTags: 'whenWeak' });
    const tag = await fetchedTag();
    proxy.clock.advance(61_000);
    const client = proxy.send({ fields: { 'if-none-match': tag } });
    const exchange = await proxy.origin.next();
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBe('W/"v1"');
    exchange.respond({ status: 304, fields: origin.file.fields, framing: 'none' }, new Uint8Array());
    expect(await client.status()).toBe(304);
    expect(await client.field('etag')).toBe(tag);
    await expectPart(proxy.send({ fields: { range: 'bytes=-5', 'if-range': tag } }), size - 5, size);
  });

  it('is never sent to the origin to resume a transfer', async () => {
    proxy = createWholeProxy({ originRanges: 'auto', fill: { resumeAttempts: 1 } });
    origin = createRangeOrigin(proxy.origin, { fields: soonStale });
    const client = proxy.send();
    (await origin.begin()).cutAt(5000);
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['whole', 'whole']);
  });
});

describe('storing after some uses', () => {
  it.each([1, 2, 3])('stores the response to request number %i', async (storeAfterUses) => {
    open({ etag: '"v1"' }, { storeAfterUses });
    for (let uses = 1; uses < storeAfterUses; uses += 1) {
      const client = proxy.send();
      await origin.give();
      await expectWhole(client);
      expect(await client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=200; detail=few-uses');
    }
    const client = proxy.send();
    await origin.give();
    await expectWhole(client);
    expect(await client.field('cache-status')).toContain('; stored');
    await proxy.fillsEnded(1);
    await expectWhole(proxy.send());
    expect(proxy.origin.requests).toBe(storeAfterUses);
  });

  it('counts keys apart, and cuts ranges out of what it relays', async () => {
    open({ etag: '"v1"' }, { storeAfterUses: 2 });
    for (const target of ['/a', '/b']) {
      const client = proxy.send({ target, fields: { range: 'bytes=5000-5099' } });
      await origin.give();
      await expectPart(client, 5000, 5100);
      expect(await client.field('cache-status')).toContain('detail=few-uses');
    }
  });

  it('does not count HEAD', async () => {
    open({ etag: '"v1"' }, { storeAfterUses: 2 });
    for (const method of ['HEAD', 'HEAD', 'GET']) {
      const client = proxy.send({ method });
      const exchange = await proxy.origin.next();
      exchange.respond(
        { fields: origin.file.fields, ...(method === 'HEAD' ? { framing: 'none' } : {}) },
        new Uint8Array(),
      );
      expect(await client.status()).toBe(200);
    }
    expect(proxy.fillEvents()).toEqual([]);
  });
});
