/** Digests (RFC 9530): those that Rangeway states, and those of the origin, which are verified before the last byte is sent. */

import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { createRangeOrigin, type RangeOrigin, type Reply } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy, type WholeProxyOptions } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

function open(fields: Record<string, string> = {}, options: WholeProxyOptions = {}): void {
  proxy = createWholeProxy({ originRanges: 'auto', ...options });
  origin = createRangeOrigin(proxy.origin);
  origin.file = { ...origin.file, fields: { ...origin.file.fields, ...fields } };
}

function digestOf(start: number, end: number, algorithm: 'sha-256' | 'sha-512' = 'sha-256'): string {
  const hash = createHash(algorithm.replace('-', '')).update(patternBytes(start, end));
  return `${algorithm}=:${hash.digest('base64')}:`;
}

const wholeDigest = digestOf(0, size);
const otherDigest = digestOf(0, size - 1);
const mismatch = { code: 'origin_digest_mismatch' };
const ranged = (range: string) => ({ fields: { range } });

async function fetched(range: string): Promise<void> {
  const ended = proxy.fillEvents().length + 1;
  const client = proxy.send(ranged(range));
  await origin.give();
  await client.bytes();
  await proxy.fillsEnded(ended);
}

describe('a route with digests', () => {
  it('states the digest of the whole in every response from the store, and passes Want-Repr-Digest on to the origin', async () => {
    open({}, { route: { cache: { digest: true } } });
    const first = proxy.send({ fields: { 'want-repr-digest': 'sha-256=1' } });
    const transfer = await origin.give();
    expect(transfer.exchange.request.fields).toContainEqual(['want-repr-digest', 'sha-256=1']);
    await first.bytes();
    await proxy.fillsEnded(1);
    for (const fields of [{}, { range: 'bytes=-100' }, { 'want-repr-digest': 'sha-512=1' }]) {
      const client = proxy.send({ fields });
      expect(await client.field('cache-status')).toContain('hit');
      expect(await client.field('repr-digest')).toBe(wholeDigest);
    }
  });

  it('states the digest once the parts make up the whole, and not before', async () => {
    open({}, { route: { cache: { digest: true } } });
    await fetched('bytes=5000-');
    expect(await proxy.send(ranged('bytes=6000-6001')).field('repr-digest')).toBeUndefined();
    await fetched('bytes=0-4500');
    const client = proxy.send(ranged('bytes=6000-6001'));
    expect(await client.field('repr-digest')).toBe(wholeDigest);
    expect(await client.field('cache-status')).toContain('hit');
  });

  it('is not the default', async () => {
    open();
    const first = proxy.send();
    await origin.give();
    await first.bytes();
    await proxy.fillsEnded(1);
    const client = proxy.send();
    expect(await client.field('cache-status')).toContain('hit');
    expect(await client.field('repr-digest')).toBeUndefined();
  });
});

describe('a digest of the whole that the origin states', () => {
  it.each([
    ['repr-digest', wholeDigest],
    ['repr-digest', digestOf(0, size, 'sha-512')],
    ['repr-digest', `md5=:AAAA:, ${wholeDigest}`],
    ['content-digest', wholeDigest],
  ])('lets the body be stored if it matches (%s: %s)', async (name, value) => {
    open({ [name]: value });
    const client = proxy.send();
    await origin.give();
    await expectWhole(client);
    await proxy.fillsEnded(1);
    await expectWhole(proxy.send());
    expect(proxy.origin.requests).toBe(1);
    expect(await proxy.send().field(name)).toBe(value);
  });

  it.each([
    ['repr-digest', otherDigest],
    ['repr-digest', digestOf(0, 1, 'sha-512')],
    ['content-digest', otherDigest],
  ])(
    'keeps the last block from being sent, and the body from being stored, if it does not match (%s: %s)',
    async (name, value) => {
      open({ [name]: value }, { originRanges: 'never' });
      const clients = [proxy.send(), proxy.send(ranged('bytes=9000-')), proxy.send(ranged('bytes=0-99'))];
      await origin.give();
      const [plain = expect.fail(), tail = expect.fail(), head = expect.fail()] = clients;
      await expectPart(head, 0, 100);
      await expectUntil(plain, 9216);
      await expect(plain.bytes()).rejects.toMatchObject(mismatch);
      expect(await plain.readUntil(0)).toHaveLength(9216);
      await expect(tail.bytes()).rejects.toMatchObject(mismatch);
      expect(await tail.readUntil(0)).toHaveLength(216);
      await proxy.fillsEnded(1);
      expect(proxy.fillEvents()[0]).toMatchObject({ result: 'failed', error: mismatch.code });
      expect(await proxy.store.find(key)).toEqual([]);
    },
  );

  it('has later requests relayed unshared for a while if it does not match', async () => {
    open({ 'repr-digest': otherDigest });
    const client = proxy.send();
    await origin.give();
    await expect(client.bytes()).rejects.toMatchObject(mismatch);
    await proxy.fillsEnded(1);
    for (const _ of ['one', 'another']) {
      const next = proxy.send();
      await origin.give();
      await expectWhole(next);
      expect(await next.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=200; detail=unshared');
    }
    proxy.clock.advance(10_000);
    const { 'repr-digest': _, ...fields } = origin.file.fields;
    origin.file = { ...origin.file, fields };
    const healed = proxy.send();
    await origin.give();
    await expectWhole(healed);
    expect(await healed.field('cache-status')).toContain('stored');
  });

  it('is verified for a body of one block before any byte is sent', async () => {
    open({ 'repr-digest': otherDigest });
    origin.file = { ...origin.file, sizeBytes: 500 };
    const client = proxy.send();
    await origin.give();
    await expect(client.bytes()).rejects.toMatchObject(mismatch);
    expect(await client.readUntil(0)).toHaveLength(0);
  });

  it('is verified for a body whose length is not known', async () => {
    open();
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'max-age=60', 'repr-digest': otherDigest } });
    void exchange.send(patternBytes(0, size));
    exchange.end();
    await expect(client.bytes()).rejects.toMatchObject(mismatch);
    await proxy.fillsEnded(1);
    expect(await proxy.store.find(key)).toEqual([]);
  });

  it.each(['md5=:AAAA:', 'sha-256=:AAAA:', 'sha-256', '(('])(
    'is ignored if it cannot be verified (%s)',
    async (value) => {
      open({ 'repr-digest': value });
      const client = proxy.send();
      await origin.give();
      await expectWhole(client);
      await proxy.fillsEnded(1);
      expect(proxy.fillEvents()[0]?.result).toBe('stored');
    },
  );
});

describe('a digest of the whole that comes with parts', () => {
  it('is verified when the last part has arrived, in whatever order the parts come', async () => {
    open({ 'repr-digest': wholeDigest });
    for (const range of ['bytes=5000-', 'bytes=0-99', 'bytes=1024-4095']) await fetched(range);
    expect(proxy.fillEvents().map(({ result }) => result)).toEqual(['kept', 'kept', 'stored']);
    await expectWhole(proxy.send());
    expect(proxy.origin.requests).toBe(3);
  });

  it('keeps the last block to arrive from being sent, wherever it lies, and removes the entry, if it does not match', async () => {
    open({ 'repr-digest': otherDigest });
    for (const range of ['bytes=5000-', 'bytes=0-99']) await fetched(range);
    const client = proxy.send(ranged('bytes=1000-5000'));
    const cut = expect(client.bytes()).rejects.toMatchObject(mismatch);
    await origin.give();
    await cut;
    expect(await client.readUntil(0)).toHaveLength(3072 - 1000);
    await proxy.fillsEnded(3);
    expect(await proxy.store.find(key)).toEqual([]);
  });

  it('shows that the content has changed if it differs from that of the first part', async () => {
    open({ 'repr-digest': wholeDigest });
    await fetched('bytes=0-99');
    origin.file = { ...origin.file, fields: { ...origin.file.fields, 'repr-digest': otherDigest }, hasRanges: true };
    const client = proxy.send();
    await expectUntil(client, 1024);
    const cut = expect(client.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
    await origin.give();
    await cut;
  });
});

describe('a digest of the content of a part', () => {
  /** States the digest of these bytes in a 206. */
  const stating = (start: number, end: number) => (honest: Reply) => ({
    ...honest,
    fields: { ...honest.fields, 'content-digest': digestOf(start, end) },
  });

  it('lets the part be stored if it matches, and is not sent to the client', async () => {
    open();
    const client = proxy.send(ranged('bytes=5000-5099'));
    await origin.give(stating(4096, 5120));
    await expectPart(client, 5000, 5100);
    expect(await client.field('content-digest')).toBeUndefined();
    await proxy.fillsEnded(1);
    expect(proxy.fillEvents()[0]?.result).toBe('kept');
  });

  it.each(['bytes=5000-5099', 'bytes=5000-', 'bytes=-2000', 'bytes=1024-6000'])(
    'fails the request and keeps the part from being stored if it does not match (%s)',
    async (range) => {
      open();
      const client = proxy.send(ranged(range));
      await origin.give(stating(1, 2));
      expect(await client.status()).toBe(502);
      await proxy.fillsEnded(1);
      expect(proxy.fillEvents()[0]).toMatchObject({ result: 'failed', error: mismatch.code });
      expect(await proxy.store.find(key)).toEqual([]);
    },
  );

  it('removes the earlier parts, too, if it does not match a later part', async () => {
    open();
    await fetched('bytes=0-99');
    const client = proxy.send(ranged('bytes=4096-8191'));
    const transfer = await origin.begin(stating(1, 2));
    await transfer.sendTo(6000);
    expect(await client.readUntil(6000 - 4096)).toEqual(Buffer.from(patternBytes(4096, 6000)));
    transfer.finish();
    await expect(client.bytes()).rejects.toMatchObject(mismatch);
    await proxy.fillsEnded(2);
    expect(await proxy.store.find(key)).toEqual([]);
  });

  it('is not verified for a part that breaks off', async () => {
    open({}, { fill: { resumeAttempts: 1 } });
    const client = proxy.send(ranged('bytes=4096-8191'));
    (await origin.begin(stating(4096, 8192))).cutAt(6000);
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    await origin.give(stating(6000, 8192));
    await expectPart(client, 4096, 8192);
  });
});
