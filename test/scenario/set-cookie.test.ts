/** Responses that set cookies (RFC 9111 §7.3): which client gets which cookie, under each setting of the route. */

import { afterEach, describe, expect, it } from 'vitest';
import { fieldLines } from '../../src/http/fields.ts';
import type { RouteCaching } from '../../src/routing/router.ts';
import { ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { type Client, createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';

const stored = { 'cache-control': 'max-age=100', etag: '"v1"' };
const noBytes = new Uint8Array();

let proxy: WholeProxy;
const start = (setCookie: RouteCaching['setCookie']) => {
  proxy = createWholeProxy({ route: { cache: { setCookie } } });
};
afterEach(async () => {
  await ended(proxy);
});

const cookiesOf = async (client: Client) => fieldLines((await client.response).fields, 'set-cookie');
const warnings = () => proxy.events.filter((event) => event.kind === 'store' && event.message.includes('Set-Cookie'));

describe('a response with a lifetime and a cookie', () => {
  it('is stored with the cookie under store, and the operator is warned', async () => {
    start('store');
    await fetched(proxy, { fields: { ...stored, 'set-cookie': 'a=1' } });
    expect(await cookiesOf(await reused(proxy))).toEqual(['a=1']);
    expect(warnings()).toMatchObject([{ level: 'warn', detail: 'http://origin.example/ http://files.example/file' }]);
  });

  it('is stored without the cookie under strip, and only its client gets the cookie', async () => {
    start('strip');
    const first = proxy.send();
    const waiting = proxy.send();
    (await proxy.origin.next()).respond({ fields: { ...stored, 'set-cookie': 'a=1' } }, storedBody);
    await Promise.all([first.bytes(), waiting.bytes()]);
    expect(await cookiesOf(first)).toEqual(['a=1']);
    expect(await cookiesOf(waiting)).toEqual([]);
    expect(await cookiesOf(await reused(proxy))).toEqual([]);
    expect(warnings()).toEqual([]);
  });

  it('is not stored under refuse, and each waiting client gets a cookie of its own', async () => {
    start('refuse');
    const clients = [proxy.send(), proxy.send()];
    for (const value of ['a=1', 'a=2']) {
      (await proxy.origin.next()).respond({ fields: { ...stored, 'set-cookie': value } }, storedBody);
      await settled();
    }
    expect(await Promise.all(clients.map(cookiesOf))).toEqual([['a=1'], ['a=2']]);
    await Promise.all(clients.map((client) => client.bytes()));
    expect(warnings()).toEqual([]);
  });
});

describe('a 304 with a cookie', () => {
  const validated = { status: 304, fields: { ...stored, 'set-cookie': 'a=2' } };

  it('has the cookie stored under store, and the operator is warned', async () => {
    start('store');
    await fetched(proxy, { fields: stored });
    expect(warnings()).toEqual([]);
    proxy.clock.advance(101_000);
    expect(await cookiesOf((await fetched(proxy, validated, {}, noBytes)).client)).toEqual(['a=2']);
    expect(await cookiesOf(await reused(proxy))).toEqual(['a=2']);
    expect(warnings()).toMatchObject([{ level: 'warn' }]);
  });

  it.each(['strip', 'refuse'] as const)('gives the cookie to its client alone under %s', async (setCookie) => {
    start(setCookie);
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(101_000);
    const first = proxy.send();
    const waiting = proxy.send({ fields: { range: 'bytes=0-9' } });
    (await proxy.origin.next()).respond(validated, noBytes);
    expect(await cookiesOf(first)).toEqual(['a=2']);
    expect(await cookiesOf(waiting)).toEqual([]);
    expect(await cookiesOf(await reused(proxy))).toEqual([]);
    expect(warnings()).toEqual([]);
  });
});

describe('a 304 to a request with Authorization (RFC 9111 §3.5)', () => {
  const personal = { ...stored, 'set-cookie': 'a=2', 'x-user': 'one' };
  const sent = { fields: { authorization: 'x' } };

  it('freshens the stored response for other clients, without its personal fields', async () => {
    start('store');
    await fetched(proxy, { fields: { ...stored, 'x-user': 'nobody' } });
    proxy.clock.advance(101_000);
    const { client } = await fetched(proxy, { status: 304, fields: personal }, sent, noBytes);
    expect(await client.bytes()).toEqual(Buffer.from(storedBody));
    expect(await cookiesOf(client)).toEqual(['a=2']);
    expect(fieldLines((await client.response).fields, 'x-user')).toEqual(['one']);
    const other = await reused(proxy);
    expect(await other.field('cache-status')).toBe('rangeway; hit; ttl=100');
    expect(await other.field('x-user')).toBe('nobody');
    expect(await cookiesOf(other)).toEqual([]);
    expect(warnings()).toEqual([]);
  });

  it('gives other clients its fields where it is public', async () => {
    start('store');
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(101_000);
    const fields = { ...personal, 'cache-control': 'public, max-age=100' };
    await fetched(proxy, { status: 304, fields }, sent, noBytes);
    expect(await (await reused(proxy)).field('x-user')).toBe('one');
  });

  it('that is private does not remove the stored response for other clients', async () => {
    start('store');
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(101_000);
    const client = proxy.send(sent);
    (await proxy.origin.next()).respond({ status: 304, fields: { 'cache-control': 'private' } }, noBytes);
    (await proxy.origin.next()).respond({ fields: { 'cache-control': 'private', 'x-user': 'one' } }, storedBody);
    expect(await client.field('x-user')).toBe('one');
    await client.bytes();
    await settled();
    const { exchange } = await fetched(proxy, { status: 304, fields: stored }, {}, noBytes);
    expect(exchange.request.fields).toContainEqual(['if-none-match', '"v1"']);
  });
});

describe('a stored response to POST with a cookie', () => {
  const posted = { fields: { ...stored, 'content-location': '/file', 'set-cookie': 'a=1' } };

  it.each([
    ['store', ['a=1']],
    ['strip', []],
  ] as const)('gives the cookie to its client, and to others as the route says: %s', async (setCookie, others) => {
    start(setCookie);
    const { client } = await fetched(proxy, posted, { method: 'POST' });
    expect(await cookiesOf(client)).toEqual(['a=1']);
    expect(await cookiesOf(await reused(proxy))).toEqual(others);
    expect(warnings()).toHaveLength(others.length);
  });
});

describe('a HEAD with a cookie', () => {
  it.each([
    ['store', ['a=1']],
    ['strip', []],
  ] as const)('gives the cookie to its client, and to others as the route says: %s', async (setCookie, others) => {
    start(setCookie);
    await fetched(proxy, { fields: stored });
    proxy.clock.advance(1000);
    const sent = { method: 'HEAD', fields: { 'cache-control': 'no-cache' } };
    const head = { fields: { ...stored, 'set-cookie': 'a=1', 'content-length': '3000' }, framing: 'none' } as const;
    const { client } = await fetched(proxy, head, sent, noBytes);
    expect(await cookiesOf(client)).toEqual(['a=1']);
    expect(await cookiesOf(await reused(proxy))).toEqual(others);
    expect(warnings()).toHaveLength(others.length);
  });
});
