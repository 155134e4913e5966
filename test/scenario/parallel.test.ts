/** `fill.parallel`: a large file is brought by several transfers at a time, each byte once and in order of need. */

import { afterEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { ConnectionQueue } from '../../src/origin/connection-queue.ts';
import { type Origin, observedResponse } from '../../src/origin/origin.ts';
import { turn } from '../support/clocks/turn.ts';
import { createFakeOrigin, type FakeOrigin } from '../support/origins/fake-origin.ts';
import {
  asWhole,
  createRangeOrigin,
  type OriginFile,
  type RangeOrigin,
  retagged,
  type Transfer,
} from '../support/origins/range-origin.ts';
import {
  type Client,
  createWholeProxy,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

/** A hundred blocks of 1024 bytes; parts of eight of them. */
const size = 102_400;
const whole = { sizeBytes: size };
const parallel = { requests: 3, minBytes: 50_000, partBytes: 8192 };
const fields = { 'cache-control': 'max-age=60', etag: '"v1"', 'accept-ranges': 'bytes' };

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

interface Begun {
  readonly plain: Client;
  readonly first: Transfer;
}

/** Starts a client without a range, and its transfer of the whole, of which the first block has arrived. */
async function begin(options: WholeProxyOptions = {}, sent: OriginFile['fields'] = fields): Promise<Begun> {
  const { fill, ...others } = options;
  proxy = createWholeProxy({ originRanges: 'auto', ...others, fill: { parallel, ...fill } });
  origin = createRangeOrigin(proxy.origin, { sizeBytes: size, fields: sent });
  const plain = proxy.send();
  const first = await origin.begin();
  void first.sendTo(1024);
  await expectUntil(plain, 1024);
  return { plain, first };
}

/** As `begin`, with a limited number of connections to the origin, and of connections of one client. */
async function beginLimited(connections: number, perClient: number): Promise<Begun & { readonly fake: FakeOrigin }> {
  const fake = createFakeOrigin();
  const queue = new ConnectionQueue({ connections, perClient: () => perClient });
  const limited: Origin = {
    async fetch(request) {
      const place = queue.join(request.charged);
      const refusal = await new Promise<ProxyError | undefined>((resolve) => place.begin(resolve));
      if (refusal !== undefined) throw refusal;
      const response = await fake.fetch(request);
      return observedResponse(response, { onEnd: () => place.leave() });
    },
    close: () => fake.close(),
  };
  proxy = createWholeProxy({ origin: limited, originRanges: 'always', fill: { parallel } });
  origin = createRangeOrigin(fake, { sizeBytes: size, fields });
  const plain = proxy.send();
  const first = await origin.begin();
  void first.sendTo(1024);
  await expectUntil(plain, 1024);
  return { plain, first, fake };
}

/** Takes the requests for two parts. */
async function beginTwo(): Promise<readonly [Transfer, Transfer]> {
  const second = await origin.begin();
  return [second, await origin.begin()];
}

/** Bytes that the origin has sent, where all transfers were read to their end. */
const received = () => proxy.fillEvents().reduce((sum, { bytes }) => sum + bytes, 0);

async function expectStored(): Promise<void> {
  const requests = proxy.origin.requests;
  await expectWhole(proxy.send(), whole);
  expect(proxy.origin.requests).toBe(requests);
}

describe('a large file without fill.parallel', () => {
  it('is brought by one transfer', async () => {
    const { plain, first } = await begin({ fill: { parallel: undefined } });
    await turn();
    first.finish();
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole']);
  });
});

describe('a large file with fill.parallel', () => {
  it('is brought in parts ahead of the first transfer: one at first, more once the origin has sent one', async () => {
    const { plain, first } = await begin();
    const answer = await origin.take();
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    const second = answer();
    const third = await origin.begin();
    expect(origin.asked).toEqual(['whole', 'bytes=9216-17407 if "v1"', 'bytes=17408-25599 if "v1"']);
    // The first transfer goes on to the first part, and no further.
    void second.sendTo(10_000);
    await turn();
    void first.sendTo(9216);
    await expect.poll(() => first.exchange.isClosed).toBe(true);
    // Its place is taken by the next part.
    const fourth = await origin.begin();
    expect(origin.asked.at(-1)).toBe('bytes=25600-33791 if "v1"');
    second.finish();
    third.finish();
    fourth.finish();
    origin.serve();
    await expectWhole(plain, whole);
    await proxy.fillsEnded(proxy.origin.requests);
    expect(received()).toBe(size);
    expect(proxy.fillEvents().filter(({ isPart }) => isPart)).toHaveLength(proxy.origin.requests - 1);
    await expectStored();
  });

  it('gives the reader the bytes of the first transfer while parts wait', async () => {
    const { plain, first } = await begin();
    const [second, third] = await beginTwo();
    void first.sendTo(9000);
    await expectUntil(plain, 9000);
    second.finish();
    third.finish();
    first.cutAt(9216, new ProxyError('origin_reset'));
    origin.serve();
    await expectWhole(plain, whole);
  });

  it('is fetched as ever where it is short, or the client reads little of it', async () => {
    const { plain, first } = await begin({ fill: { parallel: { ...parallel, minBytes: size + 1 } } });
    await turn();
    first.finish();
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole']);
    const other = proxy.send({ target: '/other', fields: { range: 'bytes=0-9' } });
    const part = await origin.give();
    await expectPart(other, 0, 10, whole);
    expect(part.exchange.request.target).toBe('/other');
  });

  it.each([
    ['without a strong validator', { ...fields, etag: 'W/"v1"' }],
    ['that is not known to have ranges', { 'cache-control': 'max-age=60', etag: '"v1"' }],
  ])('is fetched as ever from an origin %s', async (_, unfit) => {
    const { plain, first } = await begin({}, unfit);
    await turn();
    first.finish();
    await expectWhole(plain, whole);
    expect(origin.asked).toEqual(['whole']);
  });

  it('continues each part that breaks off, where it broke off', async () => {
    const { plain, first } = await begin({ fill: { resumeAttempts: 3 } });
    const [second, third] = await beginTwo();
    second.cutAt(12_000);
    third.cutAt(20_000);
    await turn();
    proxy.clock.advance(100);
    const again = await beginTwo();
    expect(origin.asked.slice(3)).toEqual(['bytes=12000-17407 if "v1"', 'bytes=20000-25599 if "v1"']);
    for (const transfer of again) transfer.finish();
    void first.sendTo(9216);
    origin.serve();
    await expectWhole(plain, whole);
    await proxy.fillsEnded(proxy.origin.requests - 2);
    expect(received()).toBe(size);
    await expectStored();
  });

  it('goes on with fewer transfers where the origin refuses further ones', async () => {
    const { plain, first } = await begin({ fill: { resumeAttempts: 3 } });
    const second = await origin.begin();
    (await proxy.origin.next()).respond({ status: 503 }, Buffer.from('busy'));
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    second.finish();
    origin.serve();
    await turn();
    first.finish();
    await expectWhole(plain, whole);
    expect(proxy.fillEvents().filter(({ result }) => result === 'failed')).toHaveLength(1);
    await expectStored();
  });

  it('is brought by the first transfer alone where the origin refuses every part', async () => {
    const { plain, first } = await begin({ fill: { resumeAttempts: 3 } });
    (await proxy.origin.next()).respond({ status: 429 }, Buffer.from('slow down'));
    await turn();
    first.finish();
    await expectWhole(plain, whole);
    await proxy.fillsEnded(2);
    expect(proxy.origin.requests).toBe(2);
    expect(first.exchange.isClosed).toBe(true);
    await expectStored();
  });

  it.each([
    ['the whole in place of a part', (reply: Parameters<typeof asWhole>[0]) => asWhole(reply, size)],
    ['a part of another version', (reply: Parameters<typeof asWhole>[0]) => retagged(reply, '"v2"')],
    [
      'the whole of another version',
      (reply: Parameters<typeof asWhole>[0]) => ({ ...retagged(asWhole(reply, size), '"v2"'), seed: 1 }),
    ],
  ])('is brought by the first transfer alone where the origin sends %s', async (_, twist) => {
    const { plain, first } = await begin({ fill: { resumeAttempts: 3 } });
    await origin.begin(twist);
    await turn();
    first.finish();
    await expectWhole(plain, whole);
    expect(proxy.origin.requests).toBe(2);
    await expectStored();
  });

  it('ends visibly where the version changes and the rest is only to be had of the new one', async () => {
    const { plain, first } = await begin({ fill: { resumeAttempts: 3 } });
    const [second, third] = await beginTwo();
    second.finish();
    void first.sendTo(9216);
    origin.file = { ...origin.file, seed: 1, fields: { ...fields, etag: '"v2"' } };
    third.cutAt(18_432);
    origin.serve();
    const reading = expect(plain.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
    for (let tries = 0; tries < 8; tries += 1) {
      await turn();
      proxy.clock.advance(5000);
    }
    await reading;
  });

  it('is compared with the whole where the origin turns out to send wrong parts', async () => {
    const { plain, first } = await begin({ fill: { resumeAttempts: 3 } });
    const second = await origin.begin();
    await origin.begin((reply) => ({ ...reply, span: { start: 0, end: 10 } }));
    await turn();
    first.finish();
    second.finish();
    await expectWhole(plain, whole);
    await expectStored();
  });

  it('stops asking where the first transfer is faster than a part can begin', async () => {
    const { plain, first } = await begin();
    const answer = await origin.take();
    first.finish();
    await expectWhole(plain, whole);
    answer();
    await proxy.fillsEnded(2);
    expect(received()).toBe(size);
    expect(origin.asked).toHaveLength(2);
  });

  it('ends all its transfers when its last client leaves', async () => {
    const { plain, first } = await begin();
    const transfers = [first, ...(await beginTwo())];
    await plain.leave();
    await turn();
    expect(transfers.map(({ exchange }) => exchange.isClosed)).toEqual([true, true, true]);
    await turn();
    expect(proxy.origin.requests).toBe(3);
  });

  it('serves several readers, each of which gets the next part in turn', async () => {
    const { plain, first } = await begin({ fill: { parallel: { ...parallel, requests: 4 } } });
    const [second, third] = [await origin.begin(), await origin.begin()];
    const fourth = await origin.begin();
    const far = proxy.send({ fields: { range: 'bytes=61440-102399' } });
    const own = await origin.begin();
    expect(origin.asked.slice(4)).toEqual(['bytes=61440-69631 if "v1"']);
    void own.sendTo(61_500);
    expect(await far.status()).toBe(206);
    second.finish();
    // Five transfers ran, so the place of one stays empty.
    third.finish();
    const next = await origin.begin();
    expect(origin.asked.at(-1)).toBe('bytes=69632-77823 if "v1"');
    for (const transfer of [fourth, own, next]) transfer.finish();
    origin.serve();
    void first.sendTo(9216);
    await Promise.all([expectWhole(plain, whole), expectPart(far, 61_440, size, whole)]);
    await expect.poll(() => received()).toBe(size);
    await expectStored();
  });

  it('gives a reader that seeks into a slow part a transfer of its own, and takes no byte twice', async () => {
    const { plain, first } = await begin({ fill: { seekAheadBytes: 50_000, seekAheadMs: 500 } });
    const [second, third] = await beginTwo();
    void second.sendTo(10_240);
    void third.sendTo(18_432);
    await turn();
    // A block in forty seconds, for each of them.
    proxy.clock.advance(40_000);
    const seeks = [14_400, 17_300, 20_500].map((start) =>
      proxy.send({ fields: { range: `bytes=${start}-${start + 9}` } }),
    );
    const own = [await origin.begin(), await origin.begin(), await origin.begin()];
    expect(origin.asked.slice(3)).toEqual([
      'bytes=14336-15359 if "v1"',
      'bytes=16384-17407 if "v1"',
      'bytes=20480-21503 if "v1"',
    ]);
    for (const transfer of own) transfer.finish();
    const [a, b, c] = seeks;
    await expectPart(a ?? expect.fail(), 14_400, 14_410, whole);
    await expectPart(b ?? expect.fail(), 17_300, 17_310, whole);
    await expectPart(c ?? expect.fail(), 20_500, 20_510, whole);
    // The parts end where these blocks begin, and further parts bring the rest, in the order of the reader.
    void second.sendTo(14_336);
    const behindSecond = await origin.begin();
    void third.sendTo(20_480);
    const rest = [behindSecond, await origin.begin()];
    expect([second.exchange.isClosed, third.exchange.isClosed]).toEqual([true, true]);
    expect(origin.asked.slice(6)).toEqual(['bytes=15360-16383 if "v1"', 'bytes=21504-29695 if "v1"']);
    for (const transfer of rest) transfer.finish();
    origin.serve();
    void first.sendTo(9216);
    await expectWhole(plain, whole);
    await expect.poll(() => received()).toBe(size);
    await expectStored();
  });

  it('lets a reader that seeks into a fast part wait for it, and not for longer than it should take', async () => {
    const { plain, first } = await begin({ fill: { seekAheadBytes: 2048, seekAheadMs: 500 } });
    const [second, third] = await beginTwo();
    void second.sendTo(11_264);
    void third.sendTo(18_432);
    await turn();
    proxy.clock.advance(100);
    const far = proxy.send({ fields: { range: 'bytes=17300-17309' } });
    const reading = far.bytes();
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    // Not a byte more came.
    proxy.clock.advance(500);
    await origin.give();
    await reading;
    await expectPart(far, 17_300, 17_310, whole);
    expect(origin.asked.at(-1)).toBe('bytes=16384-17407 if "v1"');
    second.finish();
    third.finish();
    origin.serve();
    void first.sendTo(9216);
    await expectWhole(plain, whole);
    await expectStored();
  });

  it('gives the connection of a part to a reader that needs it, after the block that is arriving', async () => {
    const { plain, first, fake } = await beginLimited(8, 4);
    const part = await origin.begin();
    void part.sendTo(9300);
    await turn();
    const seek = (start: number) => proxy.send({ fields: { range: `bytes=${start}-${start + 9}` } });
    const far = [seek(50_000), seek(60_000), seek(70_000)];
    const own = [await origin.begin(), await origin.begin()];
    await turn();
    expect(fake.untaken).toBe(0);
    void part.sendTo(10_240);
    own.push(await origin.begin());
    expect(part.exchange.isClosed).toBe(true);
    expect(origin.asked.slice(2)).toEqual([
      'bytes=49152-50175 if "v1"',
      'bytes=59392-60415 if "v1"',
      'bytes=69632-70655 if "v1"',
    ]);
    for (const transfer of own) transfer.finish();
    for (const [at, client] of far.entries())
      await expectPart(client, 50_000 + 10_000 * at, 50_010 + 10_000 * at, whole);
    void first.sendTo(9216);
    origin.serve();
    for (let tries = 0; tries < 3; tries += 1) {
      await turn();
      proxy.clock.advance(1000);
    }
    await expectWhole(plain, whole);
    await expectWhole(proxy.send(), whole);
  });

  it.each([
    [1, 1, 0],
    [8, 2, 0],
    [8, 4, 1],
    [16, 8, 2],
  ])('with %i connections, %i of one client, takes %i parts at a time', async (connections, perClient, parts) => {
    const { plain, fake } = await beginLimited(connections, perClient);
    for (let part = 0; part < parts; part += 1) await origin.begin();
    await turn();
    expect(fake.untaken).toBe(0);
    expect(origin.asked).toHaveLength(1 + parts);
    await plain.leave();
  });
});
