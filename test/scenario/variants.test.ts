/** Several stored responses of one key: which of them is chosen, validated and replaced (RFC 9111 §4.1). */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { formatHttpDate } from '../../src/semantics/http-date.ts';
import { ended, fetched, reused, settled } from '../support/clients/conversation.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const fresh = { 'cache-control': 'max-age=100' };
const german = { 'accept-language': 'de' };
const english = { 'accept-language': 'en' };
const noBytes = new Uint8Array();

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy();
});
afterEach(async () => {
  await ended(proxy);
});

/** Returns the HTTP date `seconds` after the time at which the test clock starts. */
const dateAt = (seconds: number) => formatHttpDate(Date.UTC(2026, 0, 1) + seconds * 1000);
const bodyOf = (seed: number) => Buffer.from(patternBytes(0, 500, seed));

describe('of several stored responses that match', () => {
  it('the one with a Vary is chosen before a newer one that omits it', async () => {
    const vary = { ...fresh, vary: 'Accept-Language' };
    await fetched(proxy, { fields: vary }, { fields: german }, bodyOf(1));
    proxy.clock.advance(10_000);
    await fetched(proxy, { fields: fresh }, { fields: english }, bodyOf(2));
    expect(await (await reused(proxy, { fields: german })).bytes()).toEqual(bodyOf(1));
    expect(await (await reused(proxy, { fields: english })).bytes()).toEqual(bodyOf(2));
    expect(await (await reused(proxy)).bytes()).toEqual(bodyOf(2));
  });

  it('the one with the most recent Date is chosen, whichever was stored last', async () => {
    const fields = { ...english, 'x-a': '1' };
    await fetched(proxy, { fields: { ...fresh, vary: 'Accept-Language', date: dateAt(0) } }, { fields }, bodyOf(1));
    const other = { fields: { ...fields, 'accept-language': 'fr' } };
    await fetched(proxy, { fields: { ...fresh, vary: 'X-A', date: dateAt(-5) } }, other, bodyOf(2));
    expect(await (await reused(proxy, { fields })).bytes()).toEqual(bodyOf(1));
    expect(await (await reused(proxy, other)).bytes()).toEqual(bodyOf(2));
  });

  it('all with the strong tag of a 304 are freshened (§4.3.4)', async () => {
    const vary = { ...fresh, vary: 'Accept-Language' };
    const named = { ...fresh, etag: '"same"' };
    await fetched(proxy, { fields: { ...vary, etag: '"same"' } }, { fields: german }, bodyOf(1));
    await fetched(proxy, { fields: named }, { fields: english }, bodyOf(1));
    proxy.clock.advance(200_000);
    const validated = proxy.send({ fields: german });
    (await proxy.origin.next()).respond({ status: 304, fields: { ...named, 'x-new': '1' } }, noBytes);
    expect(await validated.bytes()).toEqual(bodyOf(1));
    await settled();
    const other = await reused(proxy, { fields: english });
    expect(await other.field('x-new')).toBe('1');
    expect(await other.field('cache-status')).toBe('rangeway; hit; ttl=100');
  });

  it.each([
    ['another strong tag', '"same"', '"other"'],
    ['a weak tag', 'W/"same"', 'W/"same"'],
  ])('one with %s is not freshened', async (_name, etag, otherTag) => {
    await fetched(proxy, { fields: { ...fresh, vary: 'Accept-Language', etag } }, { fields: german }, bodyOf(1));
    await fetched(proxy, { fields: { ...fresh, etag: otherTag } }, { fields: english }, bodyOf(2));
    proxy.clock.advance(200_000);
    const validated = proxy.send({ fields: german });
    (await proxy.origin.next()).respond({ status: 304, fields: { ...fresh, etag } }, noBytes);
    expect(await validated.bytes()).toEqual(bodyOf(1));
    const other = proxy.send({ fields: english });
    const exchange = await proxy.origin.next();
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBe(otherTag);
    exchange.respond({ status: 304, fields: { etag: otherTag } }, noBytes);
    expect(await other.bytes()).toEqual(bodyOf(2));
  });

  it('the chosen one is validated, even if another is fresh', async () => {
    const vary = { ...fresh, vary: 'Accept-Language', etag: '"de"' };
    await fetched(proxy, { fields: vary }, { fields: german }, bodyOf(1));
    proxy.clock.advance(90_000);
    await fetched(proxy, { fields: fresh }, { fields: english }, bodyOf(2));
    proxy.clock.advance(20_000);
    const client = proxy.send({ fields: german });
    const exchange = await proxy.origin.next();
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBe('"de"');
    exchange.respond({ status: 304, fields: vary }, noBytes);
    expect(await client.bytes()).toEqual(bodyOf(1));
  });
});

describe('variants that are arriving', () => {
  it('are shared only by requests for the same variant', async () => {
    const first = proxy.send({ fields: german });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...fresh, vary: 'Accept-Language', 'content-length': '500' } });
    await exchange.send(bodyOf(1).subarray(0, 100));
    const same = proxy.send({ fields: german });
    const other = proxy.send({ fields: english });
    const second = await proxy.origin.next();
    expect(fieldValue(second.request.fields, 'accept-language')).toBe('en');
    second.respond({ fields: { ...fresh, vary: 'Accept-Language' } }, bodyOf(2));
    void exchange.send(bodyOf(1).subarray(100));
    exchange.end();
    for (const client of [first, same]) expect(await client.bytes()).toEqual(bodyOf(1));
    expect(await other.bytes()).toEqual(bodyOf(2));
    expect(await same.field('age')).toBe('0');
  });

  it('and are being validated are shared only by requests for the same variant', async () => {
    const vary = { ...fresh, vary: 'Accept-Language', etag: '"de"' };
    await fetched(proxy, { fields: vary }, { fields: german }, bodyOf(1));
    proxy.clock.advance(101_000);
    const first = proxy.send({ fields: german });
    const other = proxy.send({ fields: english });
    for (const _ of [first, other]) {
      const exchange = await proxy.origin.next();
      const isValidation = fieldValue(exchange.request.fields, 'if-none-match') === '"de"';
      exchange.respond(
        isValidation ? { status: 304, fields: vary } : { fields: vary },
        isValidation ? noBytes : bodyOf(2),
      );
    }
    expect(await first.bytes()).toEqual(bodyOf(1));
    expect(await other.bytes()).toEqual(bodyOf(2));
  });

  it('release the waiting requests one by one where each asks for another variant', async () => {
    const languages = ['de', 'en', 'fr', 'it'];
    const clients = languages.map((language) => proxy.send({ fields: { 'accept-language': language } }));
    for (const _ of languages) {
      const exchange = await proxy.origin.next();
      const language = fieldValue(exchange.request.fields, 'accept-language') ?? '';
      exchange.respond({ fields: { ...fresh, vary: 'Accept-Language', 'x-for': language } }, bodyOf(1));
      await settled();
    }
    expect(await Promise.all(clients.map((client) => client.field('x-for')))).toEqual(languages);
    expect(proxy.origin.requests).toBe(4);
  });
});

describe('a response that begins to vary', () => {
  it('by a 304 is fetched anew, because it is not known what selected its bytes', async () => {
    await fetched(proxy, { fields: { ...fresh, etag: '"v1"' } }, { fields: german }, bodyOf(1));
    proxy.clock.advance(101_000);
    const client = proxy.send({ fields: english });
    const vary = { ...fresh, etag: '"v1"', vary: 'Accept-Language' };
    (await proxy.origin.next()).respond({ status: 304, fields: vary }, noBytes);
    const again = await proxy.origin.next();
    expect(fieldValue(again.request.fields, 'if-none-match')).toBeUndefined();
    again.respond({ fields: vary }, bodyOf(2));
    expect(await client.bytes()).toEqual(bodyOf(2));
    await settled();
    expect(await (await reused(proxy, { fields: english })).bytes()).toEqual(bodyOf(2));
  });
});

describe('a client that asks for more and more variants', () => {
  it('has the oldest ones removed, so that a look-up stays quick', async () => {
    const sentFor = (index: number) => ({ fields: { 'accept-language': `x-${index}` } });
    const newest = 209;
    for (let index = 0; index <= newest; index += 1) {
      await fetched(proxy, { fields: { ...fresh, vary: 'Accept-Language' } }, sentFor(index), bodyOf(index));
    }
    const stored = await proxy.store.find('http://origin.example/ http://files.example/file');
    expect(stored).toHaveLength(200);
    for (const index of [10, 100, newest]) {
      expect(await (await reused(proxy, sentFor(index))).bytes()).toEqual(bodyOf(index));
    }
    const { client } = await fetched(proxy, { fields: fresh }, sentFor(9), bodyOf(1));
    expect(await client.field('cache-status')).toContain('fwd=vary-miss');
  });
});

describe('a variant that clients use', () => {
  it('stays at the bound, and one that was not used for longer leaves', async () => {
    const sentFor = (index: number) => ({ fields: { 'accept-language': `x-${index}` } });
    for (let index = 0; index < 200; index += 1) {
      await fetched(proxy, { fields: { ...fresh, vary: 'Accept-Language' } }, sentFor(index), bodyOf(index));
    }
    proxy.clock.advance(10_000);
    expect(await (await reused(proxy, sentFor(0))).bytes()).toEqual(bodyOf(0));
    await fetched(proxy, { fields: { ...fresh, vary: 'Accept-Language' } }, sentFor(200), bodyOf(200));
    expect(await (await reused(proxy, sentFor(0))).bytes()).toEqual(bodyOf(0));
    const { client } = await fetched(proxy, { fields: fresh }, sentFor(1), bodyOf(1));
    expect(await client.field('cache-status')).toContain('fwd=vary-miss');
  });
});

describe('a response that is selected by a long value', () => {
  it.each([
    ['a field that Vary names', { ...fresh, vary: 'X-Long' }, { 'x-long': 'x'.repeat(1025) }],
    [
      'Origin, which it repeats',
      { ...fresh, 'access-control-allow-origin': 'x'.repeat(1025) },
      { origin: 'x'.repeat(1025) },
    ],
  ])('(%s) is not stored, and those with short values still are', async (_name, response, request) => {
    const { client } = await fetched(proxy, { fields: response }, { fields: request }, bodyOf(1));
    expect(await client.field('cache-status')).toContain('vary-value');
    await fetched(
      proxy,
      { fields: { ...fresh, vary: 'X-Long' } },
      { fields: { 'x-long': 'x'.repeat(1024) } },
      bodyOf(2),
    );
    expect(await (await reused(proxy, { fields: { 'x-long': 'x'.repeat(1024) } })).bytes()).toEqual(bodyOf(2));
  });
});

describe('requests that wait for a response that may not be shared', () => {
  it.each([
    ['private', { 'cache-control': 'private' }],
    ['no-store', { 'cache-control': 'no-store' }],
    ['Vary: *', { ...fresh, vary: '*' }],
  ])('(%s) are released at once, all together', async (_name, fields) => {
    const clients = [proxy.send(), proxy.send(), proxy.send()];
    (await proxy.origin.next()).respond({ fields: { ...fields, 'x-for': '0' } }, bodyOf(0));
    await settled();
    expect(proxy.origin.untaken).toBe(2);
    for (const name of ['1', '2']) {
      const exchange = await proxy.origin.next();
      exchange.respond({ fields: { ...fields, 'x-for': name } }, bodyOf(Number(name)));
    }
    const got = await Promise.all(clients.map(async (client) => [await client.field('x-for'), await client.bytes()]));
    expect(got).toEqual([0, 1, 2].map((name) => [String(name), bodyOf(name)]));
    for (const client of clients) expect(await client.field('cache-status')).not.toContain('collapsed');
  });

  it.each([
    ['private', { 'cache-control': 'private' }],
    ['no-store', { 'cache-control': 'no-store' }],
    ['a cookie', { 'set-cookie': 'a=1' }],
  ])('(%s) do not keep a later response for all clients from being stored', async (_name, fields) => {
    // Some origins send such a response to one client, and a shared one to all others.
    await fetched(proxy, { fields }, { fields: { cookie: 'session=1' } });
    const clients = [proxy.send(), proxy.send()];
    for (const _ of clients) (await proxy.origin.next()).respond({ fields: fresh }, bodyOf(1));
    for (const client of clients) expect(await client.bytes()).toEqual(bodyOf(1));
    await settled();
    expect(await (await reused(proxy)).field('cache-status')).toBe('rangeway; hit; ttl=100');
  });

  it('(private) have ranges and conditions passed on as they are, for a while', async () => {
    await fetched(proxy, { fields: { 'cache-control': 'private' } });
    const sent = { fields: { range: 'bytes=0-9', 'if-none-match': '"x"' } };
    const { exchange } = await fetched(proxy, { fields: { 'cache-control': 'private' } }, sent);
    expect(fieldValue(exchange.request.fields, 'range')).toBe('bytes=0-9');
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBe('"x"');
  });

  it('(stale when it arrives) are released, and each asks for itself', async () => {
    const clients = [proxy.send(), proxy.send(), proxy.send({ fields: { 'cache-control': 'max-stale=50' } })];
    const old = { ...fresh, age: '120' };
    (await proxy.origin.next()).respond({ fields: { ...old, 'x-for': '0' } }, bodyOf(0));
    await settled();
    expect(proxy.origin.untaken).toBe(1);
    (await proxy.origin.next()).respond({ fields: { ...old, 'x-for': '1' } }, bodyOf(1));
    expect(await Promise.all(clients.map((client) => client.field('x-for')))).toEqual(['0', '1', '0']);
    expect(await clients[2]?.field('age')).toBe('120');
    await Promise.all(clients.map((client) => client.bytes()));
  });

  it('are released before the body of that response has arrived', async () => {
    const clients = [proxy.send(), proxy.send()];
    const first = await proxy.origin.next();
    first.head({ fields: { 'cache-control': 'private', 'content-length': '500' } });
    (await proxy.origin.next()).respond({ fields: { 'cache-control': 'private' } }, bodyOf(2));
    expect(await clients[1]?.bytes()).toEqual(bodyOf(2));
    void first.send(bodyOf(1));
    first.end();
    expect(await clients[0]?.bytes()).toEqual(bodyOf(1));
  });
});
