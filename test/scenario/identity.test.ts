/** Responses that state no lifetime are reused only for requests with the same identity. */

import { afterEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { formatHttpDate } from '../../src/semantics/http-date.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { ended, fetched, reused, settled } from '../support/clients/conversation.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import type { FakeHead } from '../support/origins/fake-origin.ts';
import type { defaultCaching } from '../support/proxies/default-caching.ts';
import {
  type Client,
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';

const dateAt = (seconds: number) => formatHttpDate(Date.UTC(2026, 0, 1) + seconds * 1000);
/** An hour ago: fresh for six minutes by heuristics (RFC 9111 §4.2.2). */
const guessed = { 'last-modified': dateAt(-3600), etag: '"v1"' };
const stated = { ...guessed, 'cache-control': 'max-age=360' };
const noBytes = new Uint8Array();

const alice: Sent = { fields: { cookie: 'sessionid=alice' } };
const bob: Sent = { fields: { cookie: 'sessionid=bob' } };
const stranger: Sent = {};

let proxy: WholeProxy;
const start = (options: WholeProxyOptions = {}) => {
  proxy = createWholeProxy(options);
};
const cacheOf = (cache: Partial<typeof defaultCaching>): WholeProxyOptions => ({ route: { cache } });
afterEach(async () => {
  await ended(proxy);
});

const bodyOf = (name: string) => Buffer.from(`the page of ${name}, ${'x'.repeat(200)}`);

/** Sends a request that must reach the origin, which answers with the page of `name`. Returns the client. */
async function asks(sent: Sent, name: string, head: FakeHead = { fields: guessed }): Promise<Client> {
  const before = proxy.origin.requests;
  const { client } = await fetched(proxy, head, sent, bodyOf(name));
  expect(proxy.origin.requests).toBe(before + 1);
  return client;
}

/** Sends a request that must be answered from the store, with the page of `name`. */
async function gets(sent: Sent, name: string): Promise<void> {
  const before = proxy.origin.requests;
  expect(String(await proxy.send(sent).bytes())).toBe(String(bodyOf(name)));
  expect(proxy.origin.requests).toBe(before);
}

describe('a stored response without a stated lifetime', () => {
  it.each<[name: string, fields: FakeHead['fields']]>([
    ['a cookie', { cookie: 'sessionid=alice' }],
    ['one more cookie', { cookie: '_ga=1; theme=dark; sessionid=alice' }],
    ['an API key', { 'x-api-key': 'alice' }],
    ['a token', { 'private-token': 'alice' }],
    ['an unknown field', { 'x-who': 'alice' }],
  ])('is only for requests with the same identity, by %s', async (_name, fields = {}) => {
    start();
    await asks({ fields }, 'alice');
    await asks(stranger, 'nobody');
    const [name = ''] = Object.keys(fields);
    await asks({ fields: { ...fields, [name]: `${fields[name]}2` } }, 'mallory');
    await gets({ fields }, 'alice');
    await gets(stranger, 'nobody');
  });

  it('is shared by anonymous clients, whatever programs they use', async () => {
    start();
    await asks({ fields: { 'user-agent': 'curl/8', accept: '*/*' } }, 'nobody');
    await gets({ fields: { 'user-agent': 'VLC', 'icy-metadata': '1', range: 'bytes=0-' } }, 'nobody');
    await gets({ fields: { 'x-playback-session-id': '7', 'accept-language': 'de' } }, 'nobody');
    await gets({ fields: { cookie: '_ga=GA1.2.3; _fbp=fb.1' } }, 'nobody');
    await gets({ fields: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } }, 'nobody');
  });

  it('is for all clients where the lifetime is stated', async () => {
    start();
    await asks(alice, 'all', { fields: stated });
    await gets(bob, 'all');
    await gets(stranger, 'all');
  });

  it('is for all clients where the operator sets a lifetime', async () => {
    start(cacheOf({ defaultTtlSeconds: 60 }));
    await asks(alice, 'all');
    await gets(bob, 'all');
  });

  it('ignores fields that do not reach the origin', async () => {
    start();
    await asks(stranger, 'nobody');
    await gets({ fields: { 'x-api-key': 'a', connection: 'x-api-key' } }, 'nobody');
  });

  it('follows the identityFields of the route', async () => {
    const identityFields = {
      ignore: ['x-app'],
      ignoreCookies: ['theme'],
      include: ['user-agent'],
      includeCookies: ['_ga'],
    };
    start(cacheOf({ identityFields }));
    await asks({ fields: { 'user-agent': 'a', 'x-app': '1', cookie: 'theme=dark; _ga=1' } }, 'a');
    await gets({ fields: { 'user-agent': 'a', 'x-app': '2', cookie: '_ga=1; theme=light' } }, 'a');
    await asks({ fields: { 'user-agent': 'b', cookie: '_ga=1' } }, 'b');
    await asks({ fields: { 'user-agent': 'a', cookie: '_ga=2' } }, 'c');
  });

  it.each<[name: string, head: FakeHead]>([
    ['a redirect', { status: 301, fields: { ...guessed, location: '/alice' } }],
    ['a 404', { status: 404, fields: guessed }],
    ['a response that has to be validated', { fields: { etag: '"v1"', 'cache-control': 'no-cache' } }],
    ['a lifetime of 0', { fields: { etag: '"v1"', 'cache-control': 'max-age=0' } }],
    ['a malformed Expires', { fields: { etag: '"v1"', expires: '0' } }],
  ])('is not served to another client, nor validated by it: %s', async (_name, head) => {
    start();
    await asks(alice, 'alice', head);
    const client = proxy.send({ fields: { ...bob.fields, 'cache-control': 'max-stale' } });
    const exchange = await proxy.origin.next();
    expect(fieldValue(exchange.request.fields, 'if-none-match')).toBeUndefined();
    exchange.respond(head, bodyOf('bob'));
    expect(String(await client.bytes())).toBe(String(bodyOf('bob')));
  });

  it('is reused for ranges of equal requests only, where there is no lifetime at all', async () => {
    start();
    await asks(alice, 'alice', { fields: {} });
    const range = { range: 'bytes=12-16' };
    expect(String(await (await reused(proxy, { fields: { ...alice.fields, ...range } })).bytes())).toBe('alice');
    const { client } = await fetched(proxy, { fields: {} }, { fields: range }, bodyOf('nobody'));
    expect(String(await client.bytes())).toBe('nobod');
  });

  it('is served stale to equal requests only', async () => {
    start(cacheOf({ staleWhileRevalidateSeconds: 600, staleIfErrorSeconds: 6000 }));
    await asks(alice, 'alice');
    proxy.clock.advance(400_000);
    await asks(stranger, 'nobody');
    // Alice gets her stale response, and it is validated.
    const hers = proxy.send(alice);
    expect(String(await hers.bytes())).toBe(String(bodyOf('alice')));
    const validation = await proxy.origin.next();
    expect(fieldValue(validation.request.fields, 'cookie')).toBe('sessionid=alice');
    validation.respond({ status: 503 }, noBytes);
    await settled();
    proxy.clock.advance(1_000_000);
    const client = proxy.send(bob);
    (await proxy.origin.next()).respond({ status: 503 }, Buffer.from('down'));
    expect(await client.status()).toBe(503);
    const again = proxy.send(alice);
    (await proxy.origin.next()).respond({ status: 503 }, Buffer.from('down'));
    expect(String(await again.bytes())).toBe(String(bodyOf('alice')));
  });

  it('is pinned for equal requests only', async () => {
    start(cacheOf({ pinSeconds: 600 }));
    await asks(alice, 'alice');
    proxy.clock.advance(400_000);
    await asks(alice, 'alice later', { fields: { ...guessed, etag: '"v2"' } });
    const resumed = { range: 'bytes=12-16', 'if-range': '"v1"' };
    expect(await (await reused(proxy, { fields: { ...alice.fields, ...resumed } })).status()).toBe(206);
    const { client } = await fetched(
      proxy,
      { fields: { ...guessed, etag: '"v3"' } },
      { fields: resumed },
      bodyOf('nobody'),
    );
    expect(await client.status()).toBe(200);
  });

  it('is kept as a fragment for equal requests only', async () => {
    start({ originRanges: 'auto' });
    const part = { status: 206, fields: { ...guessed, etag: 'W/"v1"', 'content-range': 'bytes 195-199/200' } };
    const range = { range: 'bytes=-5' };
    await fetched(proxy, part, { fields: { ...alice.fields, ...range } }, Buffer.from('alice'));
    const { client } = await fetched(proxy, part, { fields: range }, Buffer.from('nobod'));
    expect(String(await client.bytes())).toBe('nobod');
    expect(String(await (await reused(proxy, { fields: { ...alice.fields, ...range } })).bytes())).toBe('alice');
  });

  it('is freshened by the HEAD of an equal request only', async () => {
    start();
    await asks(alice, 'alice');
    for (const sent of [bob, alice]) {
      proxy.clock.advance(1000);
      const head = proxy.send({ ...sent, method: 'HEAD', fields: { ...sent.fields, 'cache-control': 'no-cache' } });
      const fields = { ...stated, 'content-length': String(bodyOf('alice').length) };
      (await proxy.origin.next()).respond({ fields }, noBytes);
      await head.bytes();
      await settled();
      if (sent === bob) await asks(stranger, 'nobody');
    }
    // The HEAD has stated a lifetime, so the response is for all clients.
    await gets({ fields: { 'x-who': 'carol' } }, 'alice');
  });
});

describe('a 304', () => {
  it('that states a lifetime makes the stored response one for all clients', async () => {
    start();
    await asks(alice, 'alice');
    proxy.clock.advance(400_000);
    await asks(alice, 'alice', { status: 304, fields: { etag: '"v1"', 'cache-control': 'max-age=60' } });
    await gets(bob, 'alice');
  });

  it('that takes the lifetime back leaves the stored response to the client that got the 304', async () => {
    start();
    await asks(alice, 'all', { fields: stated });
    proxy.clock.advance(400_000);
    await asks(bob, 'all', { status: 304, fields: { etag: '"v1"', 'cache-control': 'no-transform' } });
    await gets(bob, 'all');
    await asks(alice, 'alice');
    await asks(stranger, 'nobody');
  });

  it('to one client does not freshen the response of another, although the tag is the same', async () => {
    start();
    await asks(alice, 'alice');
    await asks(bob, 'bob');
    proxy.clock.advance(400_000);
    await asks(bob, 'bob', { status: 304, fields: { etag: '"v1"', 'cache-control': 'max-age=60' } });
    const { client } = await fetched(
      proxy,
      { status: 304, fields: { etag: '"v1"' } },
      { fields: { ...alice.fields, 'cache-control': 'no-cache' } },
    );
    expect(String(await client.bytes())).toMatch(/^the page of (?:alice|bob)/);
  });
});

describe('requests that wait for the same response', () => {
  const clients: readonly Sent[] = ['a', 'b', 'c', 'd'].map((name) => ({ fields: { 'x-api-key': name } }));
  /** Answers the next origin request with the page of its API key. */
  async function answer(fields: FakeHead['fields'] = guessed): Promise<void> {
    const exchange = await proxy.origin.next();
    const name = fieldValue(exchange.request.fields, 'x-api-key') ?? 'nobody';
    exchange.respond({ fields: { ...fields, etag: `"${name}"` } }, bodyOf(name));
  }
  const expectOwn = async (waiting: readonly Client[]) => {
    const bodies = await Promise.all(waiting.map(async (client) => String(await client.bytes())));
    expect(bodies).toEqual(['a', 'b', 'c', 'd'].map((name) => String(bodyOf(name))));
  };

  it.each([
    ['guessed', guessed],
    ['none', {}],
  ])('wait for one head, and then all ask at once: lifetime %s', async (_name, fields) => {
    start();
    const waiting = clients.map((sent) => proxy.send(sent));
    await answer(fields);
    const rest = [await proxy.origin.next(), await proxy.origin.next(), await proxy.origin.next()];
    for (const exchange of rest) {
      const name = fieldValue(exchange.request.fields, 'x-api-key') ?? 'nobody';
      exchange.respond({ fields }, bodyOf(name));
    }
    await expectOwn(waiting);

    // The cache has learned it: no request waits for the response to another one.
    proxy.clock.advance(1000);
    const later = clients.map((sent) => proxy.send({ fields: { ...sent.fields, 'cache-control': 'no-cache' } }));
    const exchanges = [
      await proxy.origin.next(),
      await proxy.origin.next(),
      await proxy.origin.next(),
      await proxy.origin.next(),
    ];
    for (const exchange of exchanges.reverse()) {
      const name = fieldValue(exchange.request.fields, 'x-api-key') ?? 'nobody';
      exchange.respond({ fields }, bodyOf(name));
    }
    await expectOwn(later);
    expect(proxy.origin.requests).toBe(8);
  });

  it('wait for each other where they are equal', async () => {
    start();
    const first = proxy.send(alice);
    const waiting = [proxy.send(stranger), proxy.send(bob), proxy.send(stranger), proxy.send(bob)];
    (await proxy.origin.next()).respond({ fields: guessed }, bodyOf('alice'));
    for (let asked = 0; asked < 2; asked += 1) {
      const exchange = await proxy.origin.next();
      const isBob = fieldValue(exchange.request.fields, 'cookie') === 'sessionid=bob';
      exchange.respond({ fields: guessed }, bodyOf(isBob ? 'bob' : 'nobody'));
    }
    const bodies = await Promise.all([first, ...waiting].map(async (client) => String(await client.bytes())));
    expect(bodies).toEqual(['alice', 'nobody', 'bob', 'nobody', 'bob'].map((name) => String(bodyOf(name))));
    expect(proxy.origin.requests).toBe(3);
  });

  it('share it where it states a lifetime', async () => {
    start();
    const waiting = clients.map((sent) => proxy.send(sent));
    (await proxy.origin.next()).respond({ fields: stated }, bodyOf('all'));
    for (const client of waiting) expect(String(await client.bytes())).toBe(String(bodyOf('all')));
    expect(proxy.origin.requests).toBe(1);
  });

  it('do not read a response that is arriving for another client', async () => {
    start();
    const hers = proxy.send(alice);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: guessed });
    await exchange.send(Buffer.from('the page of alice'));
    expect(await hers.status()).toBe(200);
    await asks({ fields: { ...bob.fields, range: 'bytes=0-' } }, 'bob');
    const equal = proxy.send(alice);
    exchange.end();
    expect(String(await equal.bytes())).toBe('the page of alice');
    expect(String(await hers.bytes())).toBe('the page of alice');
  });

  it('are kept apart in several processes, too', async () => {
    start({ processes: 2 });
    const waiting = [...clients, ...clients].map((sent, at) => {
      const of = proxy.processes[at < 4 ? 0 : 1];
      return of?.send(sent) ?? proxy.send(sent);
    });
    for (let asked = 0; asked < 4; asked += 1) await answer();
    await expectOwn(waiting.slice(0, 4));
    await expectOwn(waiting.slice(4));
    expect(proxy.origin.requests).toBe(4);
    await gets(clients[0] ?? {}, 'a');
    await gets(clients[3] ?? {}, 'd');
  });
});

describe('a response that is stored already', () => {
  const storeOf = () => {
    const clock = createFakeClock();
    const ids = [1, 2, 3, 4, 5, 6, 7, 8].values();
    return createMemoryStore({
      maxSizeBytes: 1024 * 1024,
      blockSizeBytes: 1024,
      now: clock.now,
      randomId: () => `generation-${ids.next().value}`,
    });
  };

  it('without an identity and without a stated lifetime is for no request', async () => {
    const store = storeOf();
    start({ createStore: () => store });
    await asks(stranger, 'nobody');
    await asks({ fields: { 'x-who': 'a' } }, 'a');
    for (const entry of await store.find((await proxy.explain()).key)) {
      const { identity: _, ...earlier } = entry.metadata;
      await store.replaceMetadata(entry, earlier);
    }
    await asks(stranger, 'nobody later');
    await gets(stranger, 'nobody later');
    await asks({ fields: { 'x-who': 'a' } }, 'a later');
  });

  it('under a lifetime that the operator has removed is for no request', async () => {
    const store = storeOf();
    const shared = Object.assign(store, { close: async () => undefined });
    start({ createStore: () => shared, ...cacheOf({ defaultTtlSeconds: 360 }) });
    await asks(alice, 'all');
    await gets(stranger, 'all');
    await ended(proxy);
    start({ createStore: () => shared });
    await asks(stranger, 'nobody');
  });

  it('is not evicted by responses for many other identities', async () => {
    start({ maxSizeBytes: 64 * 1024 * 1024 });
    await asks(stranger, 'nobody');
    for (let at = 0; at < 120; at += 1) await asks({ fields: { 'x-who': String(at) } }, 'x');
    expect((await proxy.store.find((await proxy.explain()).key)).length).toBeLessThanOrEqual(101);
    await gets(stranger, 'nobody');
  });

  it('holds no value of the fields that make up its identity', async () => {
    start();
    await asks({ fields: { cookie: 'sessionid=verysecret; _ga=1', 'x-api-key': 'verysecret' } }, 'alice');
    const [entry] = await proxy.store.find((await proxy.explain()).key);
    expect(entry?.metadata.identity?.names).toEqual(['cookie:sessionid', 'x-api-key']);
    expect(JSON.stringify([entry?.variant, entry?.metadata])).not.toContain('verysecret');
  });
});

describe('the fields that kept a response apart', () => {
  it('are logged by name', async () => {
    start();
    await asks(alice, 'alice');
    await asks({ fields: { 'x-api-key': 'secret' } }, 'key');
    await gets(alice, 'alice');
    expect(proxy.requestEvents().map(({ reason, apartBy }) => [reason, apartBy])).toEqual([
      ['uri-miss', undefined],
      ['vary-miss', ['x-api-key', 'cookie:sessionid']],
      [undefined, undefined],
    ]);
  });

  it('are logged for a request that has waited in vain, too', async () => {
    start();
    const [hers, his] = [proxy.send(alice), proxy.send(bob)];
    for (const name of ['alice', 'bob']) (await proxy.origin.next()).respond({ fields: guessed }, bodyOf(name));
    await hers.bytes();
    await his.bytes();
    await settled();
    expect(proxy.requestEvents().map(({ apartBy }) => apartBy)).toContainEqual(['cookie:sessionid']);
  });

  it('are explained, for each entry and for the one that is used', async () => {
    start();
    await asks(alice, 'alice');
    const his = await proxy.explain(bob);
    expect(his.decision).toMatchObject({ kind: 'fill', reason: 'vary-miss' });
    expect(his.entries.map(({ differs }) => differs)).toEqual([['cookie:sessionid']]);
    const hers = await proxy.explain(alice);
    expect(hers.decision).toMatchObject({ kind: 'hit' });
    expect(hers.chosen?.boundTo).toEqual(['cookie:sessionid']);
  });
});
