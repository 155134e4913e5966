/** Fragments, parts that cannot begin a generation: passed on as they are, kept, and used for ranges inside them (RFC 9111 §3.3). */

import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin, type Reply, withContentRange } from '../support/origins/range-origin.ts';
import {
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

/** Blocks have 1024 bytes: ten of them, the last with 784. */
const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';
const untagged = { 'cache-control': 'max-age=60' };

let proxy: WholeProxy;
let origin: RangeOrigin;

function open(fields: Record<string, string> = untagged, options: WholeProxyOptions = {}): void {
  proxy = createWholeProxy({ originRanges: 'auto', ...options });
  origin = createRangeOrigin(proxy.origin, { fields });
}

beforeEach(() => open());
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

const ranged = (range: string, fields: Record<string, string> = {}): Sent => ({ fields: { range, ...fields } });

async function fetched(range: string, twist?: (honest: Reply) => Reply, fields: Record<string, string> = {}) {
  const client = proxy.send(ranged(range, fields));
  await origin.give(twist);
  await client.bytes();
  return client;
}

async function expectHit(range: string, start: number, end: number): Promise<void> {
  const client = proxy.send(ranged(range));
  await expectPart(client, start, end);
  expect(await client.field('cache-status')).toMatch(/^rangeway; hit; ttl=\d+$/);
}

async function expectAsked(range: string, asked: string): Promise<void> {
  const client = proxy.send(ranged(range));
  await origin.give();
  await client.bytes();
  expect(origin.asked.at(-1)).toBe(asked);
}

describe('the end of a representation at an origin not known yet', () => {
  it('is requested and passed on as it is, and kept', async () => {
    const client = await fetched('bytes=-500');
    await expectPart(client, 9500, size);
    expect(origin.asked).toEqual(['bytes=-500']);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=206; stored; detail=part');
    proxy.clock.advance(5_000);
    const again = proxy.send(ranged('bytes=-500'));
    await expectPart(again, 9500, size);
    expect(await again.field('cache-status')).toBe('rangeway; hit; ttl=55');
    expect(await again.field('age')).toBe('5');
  });

  it('answers ranges inside it', async () => {
    await fetched('bytes=-500');
    await expectHit('bytes=9500-9999', 9500, size);
    await expectHit('bytes=9600-9700', 9600, 9701);
    await expectHit('bytes=9600-', 9600, size);
    await expectHit('bytes=-1', 9999, size);
    await expectHit('bytes=9990-20000', 9990, size);
  });

  it.each([
    ['bytes=9499-9999', 'whole'],
    ['bytes=-501', 'bytes=-501'],
    ['bytes=0-10', 'whole'],
    ['bytes=9600-9700,9800-9900', 'whole'],
  ])('does not answer %s', async (range, asked) => {
    await fetched('bytes=-500');
    await expectAsked(range, asked);
  });

  it('answers no condition and no other variant', async () => {
    origin.file = { ...origin.file, fields: { ...untagged, vary: 'foo' } };
    await fetched('bytes=-500', undefined, { foo: '1' });
    const conditional = proxy.send(ranged('bytes=-500', { foo: '1', 'if-range': '"v1"' }));
    await origin.give();
    await expectWhole(conditional);
    const other = proxy.send(ranged('bytes=-500', { foo: '2' }));
    await origin.give();
    await expectPart(other, 9500, size);
  });

  it('does not outlive its lifetime or an unsafe method', async () => {
    await fetched('bytes=-500');
    proxy.clock.advance(60_000);
    await expectAsked('bytes=-500', 'bytes=-500');
    const post = proxy.send({ method: 'POST' });
    (await proxy.origin.next()).respond({ status: 200, fields: {} }, Buffer.from('done'));
    await post.bytes();
    await expectAsked('bytes=-500', 'bytes=-500');
  });

  it('is replaced by the whole once that is stored', async () => {
    await fetched('bytes=-500');
    const whole = proxy.send();
    await origin.give();
    await expectWhole(whole);
    await proxy.fillsEnded(1);
    await expectHit('bytes=9000-9999', 9000, size);
    expect(await proxy.store.find(key)).toHaveLength(2);
  });

  it('is not kept where the response may not be stored', async () => {
    origin.file = { ...origin.file, fields: { 'cache-control': 'private, max-age=60' } };
    const client = await fetched('bytes=-500');
    expect(await client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=206; detail=part');
    expect(await proxy.store.find(key)).toEqual([]);
  });

  it('is not kept where it breaks off, or the client leaves', async () => {
    const client = proxy.send(ranged('bytes=-500'));
    (await origin.begin()).cutAt(9700);
    await expect(client.bytes()).rejects.toThrow();
    const leaving = proxy.send(ranged('bytes=-500'));
    const transfer = await origin.begin();
    void transfer.sendTo(9700);
    await leaving.readUntil(100);
    await leaving.leave();
    expect(await proxy.store.find(key)).toEqual([]);
  });

  it('is not kept where its bytes do not match the digest that the origin states', async () => {
    const digest = createHash('sha256').update(patternBytes(0, 1)).digest('base64');
    await fetched('bytes=-500', (honest) => ({
      ...honest,
      fields: { ...honest.fields, 'content-digest': `sha-256=:${digest}:` },
    }));
    expect(await proxy.store.find(key)).toEqual([]);
  });

  it('is passed on even if it is less than was asked for', async () => {
    const short = (honest: Reply) =>
      withContentRange({ ...honest, span: { start: 9500, end: 9900 } }, `9500-9899/${size}`);
    const client = await fetched('bytes=-500', short);
    expect(await client.field('content-range')).toBe(`bytes 9500-9899/${size}`);
    expect(await client.bytes()).toEqual(Buffer.from(patternBytes(9500, 9900)));
    await expectHit('bytes=9600-9699', 9600, 9700);
    // RFC 9110 §15.3.7: a 206 may hold less than was asked for, and says so.
    await expectHit('bytes=9600-', 9600, 9900);
    await expectAsked('bytes=9900-', 'whole');
  });

  it('leaves the requests that wait for it to one exchange, where it shows that parts can be combined', async () => {
    open({ ...untagged, etag: '"v1"' });
    const clients = ['bytes=-500', 'bytes=-400', 'bytes=-300', 'bytes=-200'].map((range) => proxy.send(ranged(range)));
    await turn();
    await origin.give();
    await origin.give();
    for (const [index, client] of clients.entries()) await expectPart(client, 9500 + index * 100, size);
    expect(origin.asked).toEqual(['bytes=-500', 'bytes=-1424']);
  });

  it('is a generation where it is the whole', async () => {
    open({ ...untagged, etag: '"v1"' });
    origin.file = { ...origin.file, sizeBytes: 300 };
    const client = await fetched('bytes=-500');
    await expectPart(client, 0, 300, { sizeBytes: 300 });
    await proxy.fillsEnded(1);
    const whole = proxy.send();
    await expectWhole(whole, { sizeBytes: 300 });
    expect(await whole.field('cache-status')).toContain('hit');
  });
});

describe('the end of a representation at an origin whose parts cannot be combined', () => {
  it('is always requested as it is, in an exchange of its own', async () => {
    await fetched('bytes=-500');
    const clients = ['bytes=-600', 'bytes=-700'].map((range) => proxy.send(ranged(range)));
    await turn();
    await origin.give();
    await turn();
    await origin.give();
    for (const [index, client] of clients.entries()) await expectPart(client, 9400 - index * 100, size);
    expect(origin.asked).toEqual(['bytes=-500', 'bytes=-600', 'bytes=-700']);
  });

  it('is not requested by itself where it is more than a block', async () => {
    await fetched('bytes=-500');
    await expectAsked('bytes=-1025', 'whole');
  });
});
