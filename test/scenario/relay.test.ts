/** Responses that are passed on without being stored: ranges cut from their bodies, conditions, and clients that leave. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { selectedWire } from '../support/wire/wire.ts';

const size = 3000;
const body = patternBytes(0, size);
const own = { 'cache-control': 'private', etag: '"v1"' };

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy();
});
afterEach(() => proxy.close());

/** Sends a request. The first of a key asks the origin for the whole; later ones leave conditions and ranges to the origin. */
async function ask(
  fields: Record<string, string>,
  head: Record<string, string> = own,
  bytes = body,
  isChunked = false,
) {
  const client = proxy.send({ fields });
  const exchange = await proxy.origin.next();
  if (isChunked) {
    exchange.head({ fields: head });
    void exchange.send(bytes);
    exchange.end();
  } else {
    exchange.respond({ fields: head }, bytes);
  }
  return { client, exchange };
}

/** Ranges whose parts would be longer than the whole and four KiB. */
const manyRanges = `bytes=${Array.from({ length: 100 }, (_, at) => `${30 * at}-${30 * at}`).join(',')}`;

describe.each(['first', 'second'])('the %s relay of a key', (which) => {
  beforeEach(async () => {
    if (which === 'second') await (await ask({})).client.bytes();
  });

  it.each<[string, Record<string, string>, number, string | undefined]>([
    ['a range', { range: 'bytes=10-19' }, 206, 'bytes 10-19/3000'],
    ['a suffix', { range: 'bytes=-10' }, 206, 'bytes 2990-2999/3000'],
    ['If-Range with the tag', { range: 'bytes=10-19', 'if-range': '"v1"' }, 206, 'bytes 10-19/3000'],
    ['If-Range with another tag', { range: 'bytes=10-19', 'if-range': '"v2"' }, 200, undefined],
    ['several ranges that cost more than the whole', { range: manyRanges }, 200, undefined],
    ['a range behind the end', { range: 'bytes=3000-' }, 416, 'bytes */3000'],
    ['an unknown unit', { range: 'lines=1-2' }, 200, undefined],
  ])('answers %s', async (_name, fields, status, contentRange) => {
    const { client, exchange } = await ask(fields);
    expect(await client.status()).toBe(status);
    expect(await client.field('content-range')).toBe(contentRange);
    const bytes = Buffer.from(await client.bytes());
    const [, first, last] = /(\d+)-(\d+)/.exec(contentRange ?? '') ?? [0, 0, size - 1];
    if (status < 400) expect(bytes).toEqual(Buffer.from(patternBytes(Number(first), Number(last) + 1)));
    if (status !== 200) expect(exchange.isClosed).toBe(true);
  });

  it.each([
    ['bytes=0-9,2000-2009', ['0-9', '2000-2009']],
    ['bytes=2000-2009,5-6,-1', ['5-6', '2000-2009', '2999-2999']],
  ])('answers several ranges (%s) by their parts, in the order of the body', async (range, parts) => {
    const { client, exchange } = await ask({ range });
    expect(await client.status()).toBe(206);
    expect(await client.field('content-range')).toBeUndefined();
    const boundary = /^multipart\/byteranges; boundary=(.*)$/.exec((await client.field('content-type')) ?? '')?.[1];
    const bytes = Buffer.from(await client.bytes());
    const { body: sent } = await client.response;
    expect(sent.kind === 'none' ? undefined : sent.sizeBytes).toBe(bytes.length);
    const found = bytes.toString('latin1').split(`\r\n--${boundary}`);
    const wanted = parts.map((part) => {
      const [first = 0, last = 0] = part.split('-').map(Number);
      const text = Buffer.from(patternBytes(first, last + 1)).toString('latin1');
      return `\r\nContent-Range: bytes ${part}/${size}\r\n\r\n${text}`;
    });
    expect(found).toEqual(['', ...wanted, '--\r\n']);
    expect(exchange.isClosed).toBe(true);
  });

  it('of a body of unknown length is whole', async () => {
    const { client } = await ask({ range: 'bytes=10-19' }, own, body, true);
    expect(await client.status()).toBe(200);
    expect(await client.bytes()).toEqual(Buffer.from(body));
  });

  it('of an empty body is the whole, as at nginx, Go and Rack', async () => {
    const { client } = await ask({ range: 'bytes=0-' }, own, new Uint8Array());
    expect(await client.status()).toBe(200);
    expect(await client.field('content-range')).toBeUndefined();
  });

  it('ends its exchange when the client leaves in the middle of a range', async () => {
    const client = proxy.send({ fields: { range: 'bytes=10-2999' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...own, 'content-length': String(size) } });
    void exchange.send(body.subarray(0, 100));
    await client.readUntil(50);
    await client.leave();
    expect(exchange.isClosed || exchange.request.signal.aborted).toBe(true);
  });

  it('that ends before its range does is cut off', async () => {
    const client = proxy.send({ fields: { range: 'bytes=10-2999' } });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...own, 'content-length': String(size) } });
    void exchange.send(body.subarray(0, 100));
    exchange.end();
    expect(await client.status()).toBe(206);
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_body_short' });
  });
});

// How a listener handles this field is tested in wire/responses.test.ts.
if (selectedWire() === undefined) {
  it('a relay keeps the Upgrade of a 426 (RFC 9110 §15.5.22)', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.respond({ status: 426, fields: { upgrade: 'HTTP/3.0', connection: 'upgrade' } }, new Uint8Array());
    expect(await client.status()).toBe(426);
    expect(await client.field('upgrade')).toBe('HTTP/3.0');
  });
}

describe('conditions of a relay', () => {
  it('are evaluated by Rangeway where the origin was asked for the whole', async () => {
    const { client, exchange } = await ask({ 'if-none-match': '"v1"', range: 'bytes=0-9' });
    expect(exchange.request.fields.map(([name]) => name)).not.toContain('if-none-match');
    expect(await client.status()).toBe(304);
    expect(exchange.isClosed).toBe(true);
  });

  it('are left to the origin where they were sent to it', async () => {
    await (await ask({})).client.bytes();
    const { client, exchange } = await ask({ 'if-none-match': '"v1"' });
    expect(exchange.request.fields).toContainEqual(['if-none-match', '"v1"']);
    expect(await client.status()).toBe(200);
  });
});
