/** Content that changes at the origin, between transfers and in the middle of them: no client gets a mix of two versions. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import {
  type Client,
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => open({ originRanges: 'auto' }));
afterEach(() => proxy.close());

function open({ fill, ...options }: WholeProxyOptions): void {
  proxy = createWholeProxy({ ...options, fill: { resumeAttempts: 2, ...fill } });
  origin = createRangeOrigin(proxy.origin);
}

/** Puts other bytes at the origin, with another validator of the same kind. */
function change(seed = 2): void {
  const { etag, ...fields } = origin.file.fields;
  const tag = etag?.replace(/v\d+/, `v${seed}`);
  origin.file = { ...origin.file, seed, fields: tag === undefined ? fields : { ...fields, etag: tag } };
}

const ranged = (range: string, more: Record<string, string> = {}): Sent => ({ fields: { range, ...more } });

async function fetched(sent: Sent = {}): Promise<Client> {
  const ended = proxy.fillEvents().length + 1;
  const client = proxy.send(sent);
  await origin.give();
  await client.bytes();
  await proxy.fillsEnded(ended);
  return client;
}

const expectCut = (client: Client) => expect(client.bytes()).rejects.toMatchObject({ code: 'generation_changed' });

describe('content that changes between two transfers', () => {
  it('replaces a partly stored generation, and a request for another part gets the new bytes', async () => {
    await fetched(ranged('bytes=0-99'));
    change();
    const client = proxy.send(ranged('bytes=5000-5099'));
    origin.serve();
    await expectPart(client, 5000, 5100, { seed: 2 });
    await expectPart(proxy.send(ranged('bytes=0-99')), 0, 100, { seed: 2 });
    expect(origin.asked.slice(0, 2)).toEqual(['bytes=0-1023', 'bytes=4096-5119 if "v1"']);
  });

  it('does not make the origin count as one without ranges, although it sent the whole', async () => {
    await fetched(ranged('bytes=0-99'));
    change();
    origin.serve();
    await expectPart(proxy.send(ranged('bytes=5000-5099')), 5000, 5100, { seed: 2 });
    const next = proxy.send({ target: '/other', ...ranged('bytes=5000-5099') });
    await expectPart(next, 5000, 5100, { seed: 2 });
    expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
  });

  it('cuts off a client that has got the beginning, and the next client gets the new bytes', async () => {
    await fetched(ranged('bytes=0-4095'));
    change();
    const client = proxy.send();
    await expectUntil(client, 1024);
    const cut = expectCut(client);
    await origin.give();
    await cut;
    const next = proxy.send();
    await origin.give();
    await expectWhole(next, { seed: 2 });
  });

  it.each([
    ['a strong validator', '"v1"'],
    ['a weak validator', 'W/"v1"'],
    ['no validator', undefined],
  ])('is found by a validation with %s when the entry is stale', async (_name, etag) => {
    const fields = { 'cache-control': 'max-age=60', ...(etag === undefined ? {} : { etag }) };
    origin.file = { ...origin.file, fields };
    await fetched();
    change();
    await expectWhole(proxy.send());
    proxy.clock.advance(61_000);
    expect(await (await fetched()).field('cache-status')).toContain('fwd=stale; fwd-status=200');
    await expectWhole(proxy.send(), { seed: 2 });
    await expectPart(proxy.send(ranged('bytes=-9')), size - 9, size, { seed: 2 });
  });
});

describe('content that changes in the middle of a transfer', () => {
  it('leaves the bytes of the transfer one generation, and its readers finish', async () => {
    const client = proxy.send();
    const transfer = await origin.begin();
    change();
    transfer.finish();
    await expectWhole(client);
  });

  it.each([
    ['"v1"', true],
    ['"v1"', false],
    ['W/"v1"', false],
    [undefined, false],
  ])('cuts off the readers of a transfer that breaks off (validator %s, ranges %s)', async (etag, hasRanges) => {
    const fields = { 'cache-control': 'max-age=60', ...(etag === undefined ? {} : { etag }) };
    origin.file = { ...origin.file, fields, hasRanges };
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await expectUntil(client, 4000);
    change();
    await proxy.clock.whenPending(1);
    const cut = expectCut(client);
    proxy.clock.advance(100);
    await origin.give();
    await cut;
    const next = proxy.send();
    await origin.give();
    await expectWhole(next, { seed: 2 });
  });

  it('cuts off all readers that wait for old bytes when a seek finds new ones, and ends the transfers of the old', async () => {
    const plain = proxy.send();
    const first = await origin.begin();
    void first.sendTo(1024);
    await expectUntil(plain, 1024);
    change();
    const far = proxy.send(ranged('bytes=8000-8099'));
    await origin.give();
    await expectCut(plain);
    expect(first.exchange.isClosed).toBe(true);
    await origin.give();
    await expectPart(far, 8000, 8100, { seed: 2 });
  });

  it('does not concern a reader that has all its bytes', async () => {
    const early = proxy.send(ranged('bytes=0-99'));
    const plain = proxy.send();
    await turn();
    const first = await origin.begin();
    void first.sendTo(1024);
    await expectPart(early, 0, 100);
    await plain.leave();
  });
});

describe('readers of a replaced generation', () => {
  it('finish from the stored bytes', async () => {
    await fetched();
    const old = proxy.send(ranged('bytes=0-'));
    await old.readUntil(1);
    change();
    const refresh = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    await origin.give();
    await expectWhole(refresh, { seed: 2 });
    await expectPart(old, 0, size);
  });

  it('finish from their transfer, while a newer generation is stored', async () => {
    const old = proxy.send();
    const first = await origin.begin();
    void first.sendTo(3000);
    await expectUntil(old, 3000);
    change();
    const refresh = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    await origin.give();
    await expectWhole(refresh, { seed: 2 });
    first.finish();
    await expectWhole(old);
    await proxy.fillsEnded(2);
    await expectWhole(proxy.send(), { seed: 2 });
    expect(await proxy.store.find(key)).toHaveLength(1);
  });
});

describe('a generation that is pinned for clients that resume', () => {
  beforeEach(async () => {
    await proxy.close();
    open({ route: { cache: { pinSeconds: 300 } } });
    origin.file = { ...origin.file, hasRanges: false };
    await fetched();
    change();
    await fetched({ fields: { 'cache-control': 'no-cache' } });
  });

  it.each<[string, Record<string, string>]>([
    ['If-Range', { 'if-range': '"v1"' }],
    ['If-Match', { 'if-match': '"v1"' }],
    ['If-Match with several tags', { 'if-match': '"v0", "v1"' }],
  ])('is served for %s with its validator', async (_name, fields) => {
    const client = proxy.send(ranged('bytes=5000-5099', fields));
    await expectPart(client, 5000, 5100);
    expect(await client.field('etag')).toBe('"v1"');
    expect(await client.field('cache-status')).toContain('hit');
  });

  it.each<[string, Sent, number]>([
    ['no condition', ranged('bytes=5000-5099'), 206],
    ['If-Range with another validator', ranged('bytes=5000-5099', { 'if-range': '"v0"' }), 200],
    ['If-Range with the new validator', ranged('bytes=5000-5099', { 'if-range': '"v2"' }), 206],
    ['If-Match with another validator', ranged('bytes=5000-5099', { 'if-match': '"v0"' }), 412],
    ['If-None-Match with its validator', { fields: { 'if-none-match': '"v1"' } }, 200],
  ])('is not served for %s', async (_name, sent, status) => {
    const client = proxy.send(sent);
    expect(await client.status()).toBe(status);
    if (status !== 412) expect(await client.field('etag')).toBe('"v2"');
  });

  it('is not served to a request with no-cache', async () => {
    const client = proxy.send(ranged('bytes=5000-5099', { 'if-range': '"v1"', 'cache-control': 'no-cache' }));
    const exchange = await proxy.origin.next();
    exchange.respond({ status: 304, fields: origin.file.fields, framing: 'none' }, new Uint8Array());
    await expectWhole(client, { seed: 2 });
  });

  it.each(['no-cache', 'max-age=60, must-revalidate'])(
    'is not served where the response forbids it: %s',
    async (control) => {
      await proxy.close();
      open({ route: { cache: { pinSeconds: 300 } } });
      origin.file = { ...origin.file, fields: { ...origin.file.fields, 'cache-control': control } };
      await fetched();
      change();
      proxy.clock.advance(61_000);
      await fetched();
      const client = proxy.send(ranged('bytes=0-99', { 'if-range': '"v1"' }));
      if (control === 'no-cache') {
        const exchange = await proxy.origin.next();
        exchange.respond({ status: 304, fields: origin.file.fields, framing: 'none' }, new Uint8Array());
      }
      await expectWhole(client, { seed: 2 });
    },
  );

  it('is served for pinSeconds, and not longer', async () => {
    proxy.clock.advance(299_999);
    await expectPart(proxy.send(ranged('bytes=0-99', { 'if-range': '"v1"' })), 0, 100);
    proxy.clock.advance(1);
    const late = proxy.send(ranged('bytes=0-99', { 'if-range': '"v1"' }));
    await origin.give();
    await expectWhole(late, { seed: 2 });
  });

  it('is removed by an invalidation', async () => {
    const put = proxy.send({ method: 'PUT' });
    (await proxy.origin.next()).respond({ status: 204, framing: 'none' }, new Uint8Array());
    expect(await put.status()).toBe(204);
    const client = proxy.send(ranged('bytes=0-99', { 'if-range': '"v1"' }));
    await origin.give();
    await expectWhole(client, { seed: 2 });
  });
});
