/** Absent ranges at an origin with ranges: what is requested, how parts join, and when the entry is complete. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

/** Blocks have 1024 bytes: ten of them, the last with 784. */
const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto' });
  origin = createRangeOrigin(proxy.origin);
});
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

const ranged = (range: string): Sent => ({ fields: { range } });

/** Stores some blocks: fetches each range for a client of its own. */
async function present(...ranges: readonly string[]) {
  for (const range of ranges) {
    const ended = proxy.fillEvents().length + 1;
    const client = proxy.send(ranged(range));
    await origin.give();
    await client.bytes();
    await proxy.fillsEnded(ended);
  }
}

async function entry() {
  const [found] = await proxy.store.find(key);
  return found;
}

describe('the first request for a range', () => {
  it.each([
    ['bytes=0-0', 'bytes=0-1023', 0, 1],
    ['bytes=1500-1600', 'bytes=1024-2047', 1500, 1601],
    ['bytes=1023-1024', 'bytes=0-2047', 1023, 1025],
    ['bytes=1024-2047', 'bytes=1024-2047', 1024, 2048],
    ['bytes=2048-5000', 'bytes=2048-5119', 2048, 5001],
    ['bytes=9990-9999', 'bytes=9216-10239', 9990, size],
    ['bytes=9990-99999', 'bytes=9216-100351', 9990, size],
    ['bytes=5000-', 'bytes=4096-', 5000, size],
    ['bytes=1000-', 'whole', 1000, size],
    ['bytes=0-', 'whole', 0, size],
    ['bytes=-20000', 'bytes=-21024', 0, size],
    ['bytes=5-9007199254740991', 'bytes=0-', 5, size],
  ])('%s asks for %s', async (range, asked, start, end) => {
    const client = proxy.send(ranged(range));
    await origin.give();
    await expectPart(client, start, end);
    expect(origin.asked).toEqual([asked]);
    expect(await client.field('cache-status')).toBe(
      `rangeway; fwd=uri-miss; fwd-status=${asked === 'whole' ? 200 : 206}; stored`,
    );
  });

  it.each([
    ['bytes=-100', 'bytes=-1124', 9900, size],
    ['bytes=-784', 'bytes=-1808', 9216, size],
    ['bytes=-785', 'bytes=-1809', 9215, size],
  ])('%s asks for %s at an origin that is known to give parts', async (range, asked, start, end) => {
    proxy = createWholeProxy({ originRanges: 'always' });
    origin = createRangeOrigin(proxy.origin);
    const client = proxy.send(ranged(range));
    await origin.give();
    await expectPart(client, start, end);
    expect(origin.asked).toEqual([asked]);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=206; stored');
  });

  it('with several ranges asks for the first range, and then for each other absent one', async () => {
    const client = proxy.send(ranged('bytes=100-199,5000-5099,300-399,-10'));
    const reading = client.bytes();
    for (let requests = 0; requests < 3; requests += 1) await origin.give();
    const body = Buffer.from(await reading).toString('latin1');
    const parts = [...body.matchAll(/Content-Range: (.*)\r\n/g)].map(([, part]) => part);
    expect(parts).toEqual(['100-199', '5000-5099', '300-399', '9990-9999'].map((part) => `bytes ${part}/${size}`));
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=4096-5119 if "v1"', 'bytes=9216- if "v1"']);
  });

  it('with several ranges does not ask for the bytes between them where the first range is stored', async () => {
    await present('bytes=0-9');
    const client = proxy.send(ranged('bytes=100-199,5000-5099'));
    const reading = client.bytes();
    await origin.give();
    await reading;
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=4096-5119 if "v1"']);
  });

  it('behind the end gets the 416 of the origin, and nothing is stored', async () => {
    const client = proxy.send(ranged('bytes=20000-'));
    await origin.give();
    expect(origin.asked).toEqual(['bytes=19456-']);
    expect(await client.status()).toBe(416);
    expect(await client.field('content-range')).toBe(`bytes */${size}`);
    expect(await entry()).toBeUndefined();
  });

  it.each(['bytes=5-1', 'bytes=a'])('that is not valid (%s) asks for the whole', async (range) => {
    const client = proxy.send(ranged(range));
    await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['whole']);
  });

  it('can be continued under a strong Last-Modified as well', async () => {
    const modified = 'Wed, 01 Jan 2025 00:00:00 GMT';
    origin.file = { ...origin.file, fields: { 'cache-control': 'max-age=60', 'last-modified': modified } };
    await present('bytes=0-9', 'bytes=5000-5001');
    expect(origin.asked).toEqual(['bytes=0-1023', `bytes=4096-5119 if ${modified}`]);
  });
});

describe('parts of one strong validator', () => {
  it('join into one entry, which is complete when nothing is missing', async () => {
    await present('bytes=5000-5099', 'bytes=0-99', 'bytes=7000-');
    const part = await entry();
    expect(part).toMatchObject({ sizeBytes: size, isComplete: false });
    await present('bytes=1024-4095');
    expect((await entry())?.isComplete).toBe(false);
    await present('bytes=5120-6143');
    expect(await entry()).toMatchObject({ generation: part?.generation, isComplete: true });
    const { requests } = proxy.origin;
    await expectWhole(proxy.send());
    await expectPart(proxy.send(ranged('bytes=-1')), size - 1, size);
    expect(proxy.origin.requests).toBe(requests);
    expect(proxy.fillEvents().map(({ result }) => result)).toEqual(['kept', 'kept', 'kept', 'kept', 'stored']);
    expect(proxy.fillEvents().reduce((sum, { bytes }) => sum + bytes, 0)).toBe(size);
  });

  it('are a hit for the bytes that they hold', async () => {
    await present('bytes=1024-4000');
    const client = proxy.send(ranged('bytes=1100-4095'));
    await expectPart(client, 1100, 4096);
    expect(await client.field('cache-status')).toBe('rangeway; hit; ttl=60');
    expect(proxy.requestEvents().at(-1)).toMatchObject({ outcome: 'hit', reason: undefined, originBytes: 0 });
    expect(proxy.origin.requests).toBe(1);
  });

  it.each<[string, Sent, number]>([
    ['HEAD', { method: 'HEAD' }, 200],
    ['If-None-Match', { fields: { 'if-none-match': '"v1"' } }, 304],
    ['an If-Match that fails', { fields: { 'if-match': '"v0"' } }, 412],
    ['a range behind the end', ranged('bytes=10000-'), 416],
  ])('answer %s without the origin', async (_name, sent, status) => {
    await present('bytes=1024-2047');
    expect(await proxy.send(sent).status()).toBe(status);
    expect(proxy.origin.requests).toBe(1);
  });

  it('do not let only-if-cached reach the origin for absent bytes', async () => {
    await present('bytes=1024-2047');
    const fields = { 'cache-control': 'only-if-cached' };
    await expectPart(proxy.send({ fields: { ...fields, range: 'bytes=1024-1033' } }), 1024, 1034);
    expect(await proxy.send({ fields: { ...fields, range: 'bytes=0-9' } }).status()).toBe(504);
    expect(await proxy.send({ fields }).status()).toBe(504);
    expect(proxy.origin.requests).toBe(1);
  });

  it.each([
    ['bytes=0-4095', ['bytes=0-1023 if "v1"', 'bytes=3072-4095 if "v1"'], 0, 4096],
    ['bytes=1500-3500', ['bytes=3072-4095 if "v1"'], 1500, 3501],
    ['bytes=500-1500', ['bytes=0-1023 if "v1"'], 500, 1501],
    ['bytes=2000-', ['bytes=3072- if "v1"'], 2000, size],
    ['bytes=-100', ['bytes=9216- if "v1"'], 9900, size],
  ])('leave only the absent bytes of %s to be requested', async (range, asked, start, end) => {
    await present('bytes=1024-3071');
    const client = proxy.send(ranged(range));
    const reading = client.bytes();
    for (const _ of asked) await origin.give();
    await reading;
    await expectPart(client, start, end);
    expect(origin.asked.slice(1)).toEqual(asked);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=partial; stored');
  });
});

describe('Cache-Status of a partly stored entry', () => {
  it.each<[string, Record<string, string>, number, boolean]>([
    ['a stored range', { range: 'bytes=2000-2099' }, 206, true],
    ['an absent range', { range: 'bytes=9000-9099' }, 206, false],
    [
      'a stored range with an If-Range that does not hold',
      { range: 'bytes=2000-2099', 'if-range': '"v0"' },
      200,
      false,
    ],
    ['no body, because of a condition', { 'if-none-match': '"v1"' }, 304, true],
    ['no body, because no range is satisfiable', { range: 'bytes=99999-' }, 416, true],
  ])('says for %s whether it is a hit', async (_name, fields, status, isHit) => {
    await present('bytes=1024-3071');
    origin.serve();
    const client = proxy.send({ fields });
    expect(await client.status()).toBe(status);
    expect(await client.field('cache-status')).toMatch(isHit ? /; hit/ : /; fwd=partial/);
    await client.bytes();
    expect(origin.asked.length > 1).toBe(!isHit);
  });
});

describe('a GET without a range of a partly stored entry', () => {
  it('gets the stored bytes at once, while the missing bytes are requested', async () => {
    await present('bytes=0-2047', 'bytes=5120-7167');
    const client = proxy.send();
    expect(await client.status()).toBe(200);
    expect((await client.response).body).toMatchObject({ sizeBytes: size });
    await expectUntil(client, 2048);
    const gap = await origin.begin();
    await gap.sendTo(3000);
    await expectUntil(client, 3000);
    gap.finish();
    const reading = client.bytes();
    await origin.give();
    await reading;
    await expectWhole(client);
    expect(origin.asked.slice(2)).toEqual(['bytes=2048-5119 if "v1"', 'bytes=7168- if "v1"']);
    await proxy.fillsEnded(4);
    expect(proxy.fillEvents().reduce((sum, { bytes }) => sum + bytes, 0)).toBe(size);
    expect((await entry())?.isComplete).toBe(true);
    const originBytes = size - 4096;
    expect(proxy.requestEvents().at(-1)).toMatchObject({ outcome: 'miss', reason: 'partial', originBytes });
  });

  it('has a stale entry validated before any byte of it is sent', async () => {
    await present('bytes=0-2047');
    proxy.clock.advance(61_000);
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    expect(exchange.request.fields).toContainEqual(['if-none-match', '"v1"']);
    exchange.respond({ status: 304, fields: origin.file.fields, framing: 'none' }, new Uint8Array());
    await expectUntil(client, 2048);
    await origin.give();
    await expectWhole(client);
    expect(origin.asked.at(-1)).toBe('bytes=2048- if "v1"');
    expect(await client.field('cache-status')).toContain('fwd=stale; fwd-status=304');
  });
});

describe('requests at the same time', () => {
  it('for the same range share one transfer, before its head and after it', async () => {
    const early = [proxy.send(ranged('bytes=1100-1199')), proxy.send(ranged('bytes=1100-1199'))];
    const transfer = await origin.begin();
    await Promise.all([transfer.sendTo(1150), ...early.map((client) => client.readUntil(50))]);
    const late = proxy.send(ranged('bytes=1030-1199'));
    await turn();
    transfer.finish();
    for (const client of early) await expectPart(client, 1100, 1200);
    await expectPart(late, 1030, 1200);
    expect(origin.asked).toEqual(['bytes=1024-2047']);
    expect(await early[1]?.field('cache-status')).toBe('rangeway; fwd=uri-miss; fwd-status=206; stored; collapsed');
  });

  it('for different ranges get one transfer each, into one entry', async () => {
    const clients = [
      proxy.send(ranged('bytes=0-9')),
      proxy.send(ranged('bytes=8000-8009')),
      proxy.send(ranged('bytes=4000-4009')),
    ];
    const first = await origin.begin();
    const others = [await origin.begin(), await origin.begin()];
    for (const transfer of [...others, first]) transfer.finish();
    for (const [index, start] of [0, 8000, 4000].entries()) {
      await expectPart(clients[index] ?? expect.fail(), start, start + 10);
    }
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=7168-8191 if "v1"', 'bytes=3072-4095 if "v1"']);
    expect(await proxy.store.find(key)).toHaveLength(1);
  });

  it('for the rest of a partly stored entry share one transfer', async () => {
    await present('bytes=0-1023');
    const clients = [proxy.send(), proxy.send(ranged('bytes=500-')), proxy.send(ranged('bytes=2000-2099'))];
    await origin.give();
    const [plain, open, closed] = clients;
    await expectWhole(plain ?? expect.fail());
    await expectPart(open ?? expect.fail(), 500, size);
    await expectPart(closed ?? expect.fail(), 2000, 2100);
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=1024- if "v1"']);
  });
});
