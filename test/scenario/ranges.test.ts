/** Ranges of a representation that the origin can only send whole. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 5000;
const whole = patternBytes(0, size);
const head = {
  fields: {
    'content-type': 'video/mp4',
    'cache-control': 'max-age=3600',
    etag: '"v1"',
    'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT',
    date: 'Thu, 01 Jan 2026 00:00:00 GMT',
    expires: 'Thu, 01 Jan 2026 01:00:00 GMT',
    'content-location': '/file.mp4',
    vary: 'Accept-Language',
  },
};

let proxy: WholeProxy;

beforeEach(async () => {
  proxy = createWholeProxy();
  const first = proxy.send();
  (await proxy.origin.next()).respond(head, whole);
  await first.bytes();
  await proxy.fillsEnded(1);
});

afterEach(async () => {
  expect(proxy.origin.requests).toBe(1);
  await proxy.close();
});

describe('a single range of a stored 200 (RFC 9110 §14.2)', () => {
  it.each([
    ['bytes=0-0', 0, 1],
    ['bytes=0-99', 0, 100],
    ['bytes=100-', 100, size],
    ['bytes=0-', 0, size],
    ['bytes=-1', size - 1, size],
    ['bytes=-100', size - 100, size],
    ['bytes=-999999', 0, size],
    ['bytes=4990-99999', 4990, size],
    ['bytes=1000-1100', 1000, 1101],
    ['bytes=1023-1024', 1023, 1025],
    ['BYTES=5-9', 5, 10],
    ['bytes= 5-9 , ', 5, 10],
    ['bytes=0-99999999999999999999', 0, size],
    ['bytes=10-19,20-29', 10, 30],
    ['bytes=99999-,7-8', 7, 9],
  ])('is served: %s', async (range, start, end) => {
    const client = proxy.send({ fields: { range } });
    expect(await client.status()).toBe(206);
    expect(await client.field('content-range')).toBe(`bytes ${start}-${end - 1}/${size}`);
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(start, end)));
    const { body } = await client.response;
    expect(body).toMatchObject({ sizeBytes: end - start });
  });

  it('gets every field that a 200 would carry (§15.3.7)', async () => {
    const client = proxy.send({ fields: { range: 'bytes=0-1' } });
    for (const [name, value] of Object.entries(head.fields))
      expect([name, await client.field(name)]).toEqual([name, value]);
    expect(await client.field('accept-ranges')).toBe('bytes');
    expect(await client.field('age')).toBe('0');
    expect(await client.field('content-length')).toBeUndefined();
  });

  it.each(['bytes=5-2', 'bytes=0-1,5-2', 'bytes=a-b', 'bytes=', 'bytes', 'bytes=--1'])(
    'is ignored if it is invalid, and the whole is sent: %s',
    async (range) => {
      const client = proxy.send({ fields: { range } });
      expect(await client.status()).toBe(200);
      expect(await client.bytes()).toEqual(Buffer.from(whole));
      expect(await client.field('content-range')).toBeUndefined();
    },
  );

  it.each(['bytes=5000-', 'bytes=5000-6000', 'bytes=-0', 'bytes=99999999999999999999-', 'bytes=6000-,7000-8000'])(
    'gets 416 and the length if it is past the end: %s (§15.5.17)',
    async (range) => {
      const client = proxy.send({ fields: { range } });
      expect(await client.status()).toBe(416);
      expect(await client.field('content-range')).toBe(`bytes */${size}`);
      expect(JSON.parse(String(await client.bytes()))).toMatchObject({ status: 416 });
    },
  );

  it('is ignored on HEAD (§14.2), which gets the length of the whole', async () => {
    const client = proxy.send({ method: 'HEAD', fields: { range: 'bytes=0-1' } });
    expect(await client.status()).toBe(200);
    expect((await client.response).body).toMatchObject({ sizeBytes: size });
    expect(await client.bytes()).toHaveLength(0);
  });
});

describe('several ranges', () => {
  it('come as multipart/byteranges with an exact length, in the order requested (§14.6)', async () => {
    const client = proxy.send({ fields: { range: 'bytes=4000-4009,0-4,-3' } });
    expect(await client.status()).toBe(206);
    expect(await client.field('content-range')).toBeUndefined();
    const type = await client.field('content-type');
    expect(type).toMatch(/^multipart\/byteranges; boundary=[\w]{32,}$/);
    const boundary = type?.split('boundary=')[1];
    const body = await client.bytes();
    const part = (start: number, end: number) =>
      `\r\n--${boundary}\r\nContent-Type: video/mp4\r\nContent-Range: bytes ${start}-${end - 1}/${size}\r\n\r\n` +
      Buffer.from(patternBytes(start, end)).toString('latin1');
    expect(body.toString()).not.toBe('');
    expect(Buffer.from(body).toString('latin1')).toBe(
      `${part(4000, 4010)}${part(0, 5)}${part(size - 3, size)}\r\n--${boundary}--\r\n`,
    );
    expect((await client.response).body).toMatchObject({ sizeBytes: body.length });
  });

  it('that overlap become one part, and one part is no multipart (§15.3.7.1)', async () => {
    const client = proxy.send({ fields: { range: 'bytes=0-10,5-20' } });
    expect(await client.field('content-range')).toBe(`bytes 0-20/${size}`);
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 21)));
  });

  it('beyond the limit are ignored', async () => {
    const ranges = (count: number) => `bytes=${Array.from({ length: count }, (_, i) => `${i * 3}-${i * 3}`).join(',')}`;
    expect(await proxy.send({ fields: { range: ranges(20) } }).status()).toBe(206);
    expect(await proxy.send({ fields: { range: ranges(101) } }).status()).toBe(200);
  });

  it('that would cost more than the whole are answered with the whole (§17.15)', async () => {
    const ranges = `bytes=${Array.from({ length: 100 }, (_, i) => `${i * 3}-${i * 3}`).join(',')}`;
    const client = proxy.send({ fields: { range: ranges } });
    expect(await client.status()).toBe(200);
  });
});

describe('preconditions, in the order of RFC 9110 §13.2.2', () => {
  const lastModified = head.fields['last-modified'];
  it.each([
    ['If-None-Match that matches', { 'if-none-match': '"v1"' }, 304],
    ['If-None-Match comes before Range', { 'if-none-match': '"v1"', range: 'bytes=0-1' }, 304],
    ['If-None-Match compares weakly', { 'if-none-match': 'W/"v1"' }, 304],
    ['If-None-Match *', { 'if-none-match': '*' }, 304],
    ['If-None-Match that does not match', { 'if-none-match': '"v2"', range: 'bytes=0-1' }, 206],
    ['If-Modified-Since', { 'if-modified-since': lastModified }, 304],
    ['If-None-Match wins over If-Modified-Since', { 'if-none-match': '"v2"', 'if-modified-since': lastModified }, 200],
    ['If-Match that does not match', { 'if-match': '"v2"', range: 'bytes=0-1' }, 412],
    ['If-Match that matches', { 'if-match': '"v1"', range: 'bytes=0-1' }, 206],
    ['If-Match compares strongly', { 'if-match': 'W/"v1"' }, 412],
    ['If-Range with the tag', { 'if-range': '"v1"', range: 'bytes=0-1' }, 206],
    ['If-Range with another tag', { 'if-range': '"v2"', range: 'bytes=0-1' }, 200],
    ['If-Range with a weak tag', { 'if-range': 'W/"v1"', range: 'bytes=0-1' }, 200],
    ['If-Range with the exact date', { 'if-range': lastModified, range: 'bytes=0-1' }, 206],
    ['If-Range with a later date', { 'if-range': 'Thu, 02 Jan 2025 00:00:00 GMT', range: 'bytes=0-1' }, 200],
    ['If-Range that fails beats an unsatisfiable Range', { 'if-range': '"v2"', range: 'bytes=9999-' }, 200],
    ['If-Range without Range', { 'if-range': '"v2"' }, 200],
  ])('%s', async (_name, fields, status) => {
    const client = proxy.send({ fields });
    expect(await client.status()).toBe(status);
    if (status === 200) expect(await client.bytes()).toEqual(Buffer.from(whole));
  });

  it('a 304 carries the fields of §15.4.5 and no body', async () => {
    const client = proxy.send({ fields: { 'if-none-match': '"v1"' } });
    const { fields, body } = await client.response;
    expect(body.kind).toBe('none');
    const names = fields.map(([name]) => name).sort();
    expect(names).toEqual(
      ['age', 'cache-control', 'cache-status', 'content-location', 'date', 'etag', 'expires', 'vary', 'via'].sort(),
    );
  });
});
