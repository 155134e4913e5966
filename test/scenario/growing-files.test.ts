/** Files that grow, such as logs, and empty ones: what a range behind the end of a stored response gets. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRangeOrigin, type OriginFile, type RangeOrigin, without } from '../support/origins/range-origin.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto' });
  origin = createRangeOrigin(proxy.origin);
});
afterEach(() => proxy.close());

const ranged = (range: string): Sent => ({ fields: { range } });

async function store(fields: OriginFile['fields'], sizeBytes = size): Promise<void> {
  origin.file = { ...origin.file, fields, sizeBytes };
  const client = proxy.send();
  await origin.give();
  await expectWhole(client, { sizeBytes });
  await proxy.fillsEnded(1);
}

/** A tenth of the time since then is more than a day. */
const modified = 'Wed, 01 Jan 2025 00:00:00 GMT';

describe('a range behind the end of a stored response', () => {
  it.each<[string, OriginFile['fields']]>([
    ['without validators', {}],
    ['with a guessed lifetime', { 'last-modified': modified }],
    ['with a tag and a guessed lifetime', { 'last-modified': modified, etag: '"v1"' }],
  ])('%s is answered by the origin: the file may have grown', async (_name, fields) => {
    await store(fields);
    const early = proxy.send(ranged(`bytes=${size}-`));
    await origin.give();
    expect(await early.status()).toBe(416);
    expect(await early.field('content-range')).toBe(`bytes */${size}`);
    expect(await early.field('cache-status')).toBe('rangeway; fwd=partial; fwd-status=416; detail=behind-end');
    origin.file = { ...origin.file, sizeBytes: 10_100 };
    expect((await proxy.explain(ranged(`bytes=${size}-`))).decision).toMatchObject({
      kind: 'pass',
      reason: 'behind-end',
    });
    const client = proxy.send(ranged(`bytes=${size}-`));
    await origin.give();
    await expectPart(client, size, 10_100, { sizeBytes: 10_100 });
    expect(origin.asked.slice(1)).toEqual([`bytes=${size}-`, `bytes=${size}-`]);
    const stored = proxy.send(ranged('bytes=5000-5099'));
    await expectPart(stored, 5000, 5100);
    expect(proxy.origin.requests).toBe(3);
  });

  it.each<[string, OriginFile['fields'], Record<string, string>]>([
    ['with a stated lifetime', { 'cache-control': 'max-age=60' }, {}],
    ['for a client that wants nothing else', {}, { 'cache-control': 'only-if-cached' }],
  ])('%s is 416 from the store', async (_name, fields, more) => {
    await store(fields);
    const client = proxy.send({ fields: { range: `bytes=${size}-`, ...more } });
    expect(await client.status()).toBe(416);
    expect(await client.field('content-range')).toBe(`bytes */${size}`);
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('a range behind the end of what is not stored', () => {
  const code = Buffer.from('<Error><Code>InvalidRange</Code></Error>');

  it.each([
    ['that the origin finds by a part', 'bytes=10000-', 'bytes */10000', ['bytes=9216-', 'bytes=10000-']],
    [
      'that the origin finds by a part, without a length in its 416',
      'bytes=10000-',
      undefined,
      ['bytes=9216-', 'bytes=10000-'],
    ],
    [
      'that the origin refuses without a length',
      'bytes=20000-20009',
      undefined,
      ['bytes=19456-20479', 'whole', 'bytes=20000-20009'],
    ],
  ])('%s gets the content of the 416 of the origin, with the length', async (_name, range, contentRange, asked) => {
    const client = proxy.send(ranged(range));
    for (let request = 0; request < asked.length; request += 1) {
      const transfer = await origin.begin((honest) => {
        if (honest.status !== 416) return honest;
        const reply = { ...without(honest, 'content-range'), isChunked: true };
        const fields = { ...reply.fields, 'content-type': 'application/xml', 'cache-control': 'max-age=60' };
        return { ...reply, fields: contentRange === undefined ? fields : { ...fields, 'content-range': contentRange } };
      });
      if (request === asked.length - 1) {
        void transfer.exchange.send(code);
        transfer.exchange.end();
      } else transfer.finish();
    }
    expect(await client.status()).toBe(416);
    expect(await client.field('content-range')).toBe('bytes */10000');
    expect(await client.field('content-type')).toBe('application/xml');
    expect(await client.bytes()).toEqual(code);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=416; detail=behind-end');
    expect(origin.asked).toEqual(asked);
  });

  it('gets the 416 of the origin also where the response is not stored', async () => {
    origin.file = { ...origin.file, fields: { 'cache-control': 'no-store' } };
    const client = proxy.send(ranged('bytes=20000-20009'));
    for (const asked of ['bytes=19456-20479', 'whole', 'bytes=20000-20009']) {
      const transfer = await origin.begin((honest) =>
        honest.status === 416 ? { ...without(honest, 'content-range'), isChunked: true } : honest,
      );
      expect(origin.asked.at(-1)).toBe(asked);
      if (asked.endsWith('9') && asked.startsWith('bytes=2')) void transfer.exchange.send(code);
      transfer.finish();
    }
    expect(await client.status()).toBe(416);
    expect(await client.bytes()).toEqual(code);
  });

  it('is 416 of Rangeway where the origin has no ranges', async () => {
    origin.file = { ...origin.file, hasRanges: false };
    origin.serve();
    expect(await proxy.send(ranged('bytes=10000-')).status()).toBe(416);
    expect(origin.asked).toEqual(['bytes=9216-', 'whole']);
  });
});

describe('an empty file', () => {
  it.each(['bytes=0-', 'bytes=0-99', 'bytes=-100', 'bytes=5-9,20-'])('%s of it is the whole, stored', async (range) => {
    await store({ 'cache-control': 'max-age=60' }, 0);
    const client = proxy.send(ranged(range));
    await expectWhole(client, { sizeBytes: 0 });
    expect(await client.field('content-range')).toBeUndefined();
    expect(proxy.origin.requests).toBe(1);
  });

  it('whose range the origin answers with 416 is asked for once more without Range', async () => {
    origin.file = { ...origin.file, sizeBytes: 0, hasRanges: false };
    const client = proxy.send(ranged('bytes=0-'));
    origin.serve((honest) => honest);
    await expectWhole(client, { sizeBytes: 0 });
  });
});
