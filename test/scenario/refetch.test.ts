/** Files without a validator that are fetched again: which entity tag they have before the last byte has arrived. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 5000;
const whole = patternBytes(0, size);

let proxy: WholeProxy;
let tag: string;
beforeEach(async () => {
  proxy = createWholeProxy();
  const first = proxy.send();
  (await proxy.origin.next()).respond({}, whole);
  await first.bytes();
  await proxy.fillsEnded(1);
  tag = (await first.field('etag')) ?? '';
  expect(tag).toMatch(/^"rw-/);
});
afterEach(() => proxy.close());

/** Sends a request without a range, which fetches the file again, and lets its first bytes arrive. */
async function refetch(body: Uint8Array) {
  const client = proxy.send();
  const exchange = await proxy.origin.next();
  exchange.head({ fields: { 'content-length': String(size) } });
  await exchange.send(body.subarray(0, 1000));
  return { client, exchange };
}

describe('a refetch under way', () => {
  it('has no entity tag, since its bytes may be the old ones or new ones', async () => {
    const { client, exchange } = await refetch(whole);
    expect(await client.status()).toBe(200);
    expect(await client.field('etag')).toBeUndefined();
    const conditional = proxy.send({ fields: { 'if-none-match': tag } });
    expect(await conditional.status()).toBe(200);
    void exchange.send(whole.subarray(1000));
    exchange.end();
    await client.bytes();
    await conditional.bytes();
    await proxy.fillsEnded(2);
    expect(await proxy.send({ fields: { range: 'bytes=0-9' } }).field('etag')).toBe(tag);
  });

  it('does not mix its bytes with those that a range gets under the old tag', async () => {
    const other = patternBytes(0, size, 2);
    const { client, exchange } = await refetch(other);
    const range = proxy.send({ fields: { range: 'bytes=100-199', 'if-range': tag } });
    expect(await range.status()).toBe(206);
    expect(await range.bytes()).toEqual(Buffer.from(patternBytes(100, 200)));
    void exchange.send(other.subarray(1000));
    exchange.end();
    expect(await client.bytes()).toEqual(Buffer.from(other));
    await proxy.fillsEnded(2);
    const late = proxy.send({ fields: { range: 'bytes=100-199', 'if-range': tag } });
    expect(await late.status()).toBe(200);
    expect(await late.bytes()).toEqual(Buffer.from(other));
  });

  it('that breaks off leaves the old generation with its tag', async () => {
    const { client, exchange } = await refetch(patternBytes(0, size, 2));
    expect(await client.status()).toBe(200);
    exchange.fail(new ProxyError('origin_reset'));
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_reset' });
    await proxy.fillsEnded(2);
    const range = proxy.send({ fields: { range: 'bytes=100-199', 'if-range': tag } });
    expect(await range.status()).toBe(206);
    expect(await range.bytes()).toEqual(Buffer.from(patternBytes(100, 200)));
  });
});

describe('an origin that breaks off right after the head', () => {
  it('gives its clients an error instead of a head without a body', async () => {
    const clients = [proxy.send({ target: '/other' }), proxy.send({ target: '/other', fields: { range: 'bytes=9-' } })];
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'content-length': String(size) } });
    exchange.fail(new ProxyError('origin_reset'));
    for (const client of clients) {
      expect(await client.status()).toBe(502);
      expect(await client.field('proxy-status')).toBe('rangeway; error=connection_terminated');
    }
  });
});
