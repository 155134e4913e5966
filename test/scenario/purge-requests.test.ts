/** PURGE requests to the listeners: what they remove, what they answer, and which clients may send them. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAccess } from '../../src/guard/access/access.ts';
import { plainPresentation } from '../../src/guard/fields/presentation.ts';
import { createGate } from '../../src/guard/gate.ts';
import { ended, fetched, reused } from '../support/clients/conversation.ts';
import { boundlessAllowances } from '../support/proxies/open-gate.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';

const fresh = { 'cache-control': 'max-age=100, stale-if-error=100', etag: '"v1"', 'surrogate-key': 'red' };
const noBytes = new Uint8Array();
/** May purge. `192.0.2.7`, the default address of clients, may not. */
const operator = '198.51.100.1';
const refused = '203.0.113.1';

let proxy: WholeProxy;
beforeEach(() => {
  const gate = createGate({
    access: createAccess({ allow: undefined, deny: (address) => address === refused, credentials: undefined }),
    allowances: boundlessAllowances,
    presentation: plainPresentation,
    purge: {
      mayPurge: (address) => address === operator || address === refused,
      kinds: new Set(['url', 'prefix', 'tag']),
    },
  });
  proxy = createWholeProxy({ gate });
});
afterEach(() => ended(proxy));

async function purge(sent: Sent = {}): Promise<unknown> {
  const before = proxy.origin.requests;
  const client = proxy.send({ method: 'PURGE', peer: operator, ...sent });
  const body = Buffer.from(await client.bytes()).toString();
  expect(proxy.origin.requests).toBe(before);
  return [await client.status(), JSON.parse(body)];
}

describe('PURGE', () => {
  it('removes the entries of its URL, and answers how many they were, which may be 0', async () => {
    await fetched(proxy, { fields: fresh });
    await fetched(proxy, { fields: fresh }, { target: '/other' });
    expect(await purge({ target: '/x/../%66ile' })).toEqual([200, { purged: 1 }]);
    expect(await purge()).toEqual([200, { purged: 0 }]);
    await reused(proxy, { target: '/other' });
    await fetched(proxy, { fields: fresh });
  });

  it('removes all entries whose URL begins with its own, under Rangeway-Purge prefix', async () => {
    for (const target of ['/a/1', '/a/2', '/b']) await fetched(proxy, { fields: fresh }, { target });
    expect(await purge({ target: '/a/', fields: { 'rangeway-purge': 'prefix' } })).toEqual([200, { purged: 2 }]);
    await reused(proxy, { target: '/b' });
    await fetched(proxy, { fields: fresh }, { target: '/a/1' });
  });

  it.each(['surrogate-key', 'cache-tag'])('removes the entries with a tag in its %s', async (name) => {
    await fetched(proxy, { fields: fresh });
    expect(await purge({ target: '/', fields: { [name]: 'blue' } })).toEqual([200, { purged: 0 }]);
    await reused(proxy);
    expect(await purge({ target: '/', fields: { [name]: 'red' } })).toEqual([200, { purged: 1 }]);
    await fetched(proxy, { fields: fresh });
  });

  it('has the entry validated, or served stale where the origin fails, under Rangeway-Purge soft', async () => {
    await fetched(proxy, { fields: fresh });
    expect(await purge({ fields: { 'rangeway-purge': 'soft' } })).toEqual([200, { purged: 1 }]);
    const client = proxy.send();
    (await proxy.origin.next()).respond({ status: 503 }, noBytes);
    expect(await client.status()).toBe(200);
    await client.bytes();
    proxy.clock.advance(1);
    await fetched(proxy, { status: 304, fields: fresh }, {}, noBytes);
    await reused(proxy);
  });

  it('is reported as an admin event, and as one request of the log', async () => {
    await purge({ fields: { 'cache-tag': 'red' } });
    await purge({ target: '/a?b', fields: { 'rangeway-purge': 'prefix,soft' } });
    const reported = proxy.events.filter(({ kind }) => kind === 'admin');
    expect(reported).toEqual([
      { kind: 'admin', level: 'info', action: 'purge', peer: operator, message: 'purged 0: with a tag of "red"' },
      {
        kind: 'admin',
        level: 'info',
        action: 'purge',
        peer: operator,
        message: 'expired 0: all URLs that begin with http://files.example/a?b',
      },
    ]);
    expect(proxy.requestEvents().map(({ method, status }) => [method, status])).toEqual([
      ['PURGE', 200],
      ['PURGE', 200],
    ]);
  });

  it.each<[string, Sent]>([
    ['other clients', { peer: '192.0.2.7' }],
    ['clients that the route does not let in', { peer: refused }],
    [
      'clients that are named only by an untrusted X-Forwarded-For',
      { fields: { 'x-forwarded-for': operator }, peer: '192.0.2.7' },
    ],
  ])('is refused to %s', async (_name, sent) => {
    await fetched(proxy, { fields: fresh });
    expect(await purge(sent)).toEqual([403, { title: 'Forbidden', status: 403, detail: expect.any(String) }]);
    await reused(proxy);
  });

  it('is refused with an unknown value of Rangeway-Purge', async () => {
    await fetched(proxy, { fields: fresh });
    expect(await purge({ fields: { 'rangeway-purge': 'softly' } })).toMatchObject([400, { status: 400 }]);
    await reused(proxy);
  });

  it('goes to the origin like any other method where the route names no address', async () => {
    await proxy.close();
    proxy = createWholeProxy();
    await fetched(proxy, { fields: fresh });
    const client = proxy.send({ method: 'PURGE', peer: operator });
    const exchange = await proxy.origin.next();
    expect(exchange.request.method).toBe('PURGE');
    exchange.respond({ status: 405 }, noBytes);
    expect(await client.status()).toBe(405);
    await client.bytes();
    await reused(proxy);
  });
});
