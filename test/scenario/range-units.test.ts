/** A Range in another unit than bytes: only the application knows what it means, so the request is passed on as it is (RFC 9110 §14.1). */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldLines, fieldValue } from '../../src/http/fields.ts';
import { ended, fetched, reused } from '../support/clients/conversation.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const whole = patternBytes(0, 3000);
const page = patternBytes(0, 25, 7);
const fields = { 'cache-control': 'max-age=60', etag: '"v1"', 'accept-ranges': 'items' };

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto' });
});
afterEach(() => ended(proxy));

const asked: readonly (readonly [range: string, more: Record<string, string>])[] = [
  ['items=0-24', {}],
  ['0-9', { 'range-unit': 'items' }],
  ['id 5..; max=10', {}],
  ['lines=-5', { 'if-range': '"v1"' }],
  ['bytes-like=0-1', {}],
];

describe.each(asked)('a request with Range: %s', (range, more) => {
  const sent = { fields: { range, ...more } };

  it('is passed on as it is, cold and beside a stored whole, and its response is neither stored nor shared', async () => {
    for (const round of ['cold', 'stored', 'again']) {
      if (round === 'stored') await fetched(proxy, { fields }, {}, whole);
      const clients = [proxy.send(sent), proxy.send(sent)];
      for (const client of clients) {
        const exchange = await proxy.origin.next();
        expect(fieldLines(exchange.request.fields, 'range')).toEqual([range]);
        for (const [name, value] of Object.entries(more)) expect(fieldValue(exchange.request.fields, name)).toBe(value);
        exchange.respond({ status: 206, fields: { ...fields, 'content-range': 'items 0-24/100' } }, page);
        expect(await client.status()).toBe(206);
        expect(await client.field('content-range')).toBe('items 0-24/100');
        expect(await client.field('accept-ranges')).toBe('items');
        expect(await client.field('cache-status')).toContain('fwd=request; fwd-status=206; detail=range-unit');
        expect(await client.bytes()).toEqual(Buffer.from(page));
      }
    }
    // What is stored of the whole is still there, and its ranges of bytes too.
    expect(await (await reused(proxy)).bytes()).toEqual(Buffer.from(whole));
    const part = await reused(proxy, { fields: { range: 'bytes=0-9' } });
    expect(await part.field('content-range')).toBe('bytes 0-9/3000');
  });

  it('is passed on by HEAD, too, and its response is not taken for the head of the whole', async () => {
    await fetched(proxy, { fields }, {}, whole);
    const head = proxy.send({ ...sent, method: 'HEAD' });
    const exchange = await proxy.origin.next();
    expect(exchange.request.method).toBe('HEAD');
    exchange.head({ fields: { etag: '"v2"' } });
    exchange.end();
    expect(await head.status()).toBe(200);
    expect(await head.field('content-length')).toBeUndefined();
    await reused(proxy);
  });

  it('is answered by the stored whole where the client accepts nothing else', async () => {
    await fetched(proxy, { fields }, {}, whole);
    const client = await reused(proxy, { fields: { ...sent.fields, 'cache-control': 'only-if-cached' } });
    expect(await client.status()).toBe(200);
  });

  it('is explained', async () => {
    expect(await proxy.explain(sent)).toMatchObject({
      decision: { kind: 'pass', reason: 'range-unit' },
      originQuestion: { method: 'GET', fields: expect.arrayContaining([['range', range]]) },
      plan: { range: { isObeyed: false, reason: 'unknown-unit' } },
    });
  });
});

describe('a request with a Range of bytes that is malformed', () => {
  it.each(['bytes=5-1', 'bytes 0-9', 'Bytes', '', 'bytes=items=0-4'])('(%j) is one for the whole', async (range) => {
    await fetched(proxy, { fields }, { fields: { range } }, whole);
    const hit = await reused(proxy, { fields: { range } });
    expect(await hit.status()).toBe(200);
  });
});
