/**
 * Origins whose answers say one thing by their status and another by their fields: a part with status 200, a 206 that nobody asked
 * for, a 206 that holds the whole, a part that was compressed on the fly.
 */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRangeOrigin, type RangeOrigin, type Twist, withContentRange } from '../support/origins/range-origin.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';
/** Milliseconds for which a resource without parts of use is not asked for parts. */
const forgetAfterMs = 600_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', fill: { resumeAttempts: 1 } });
  origin = createRangeOrigin(proxy.origin);
});
afterEach(() => proxy.close());

const ranged = (range: string): Sent => ({ fields: { range } });
const originEvents = () => proxy.events.filter(({ kind }) => kind === 'origin');

/** Sends the requested part as if it were the whole: with this status, and this total in Content-Range, if any. */
const partAs =
  (status: number, total: 'size' | '*' | 'none', more: { readonly isChunked?: boolean } = {}): Twist =>
  (honest) => {
    if (honest.status !== 206) return honest;
    const { start, end } = honest.span;
    const { 'content-range': _, ...fields } = honest.fields;
    const part = { ...honest, ...more, status, fields };
    return total === 'none' ? part : withContentRange(part, `${start}-${end - 1}/${total === '*' ? '*' : size}`);
  };

const partsAsWholes: [string, Twist][] = [
  ['a 200 with the Content-Range of a part', partAs(200, 'size')],
  ['a chunked 200 with the Content-Range of a part', partAs(200, 'size', { isChunked: true })],
  ['a 200 with a Content-Range without a total', partAs(200, '*')],
  ['a chunked 200 with a Content-Range without a total', partAs(200, '*', { isChunked: true })],
  ['a 203 with the Content-Range of a part', partAs(203, 'size')],
  ['a 200 of as many bytes as were asked for', partAs(200, 'none')],
  ['a 203 of as many bytes as were asked for', partAs(203, 'none')],
  [
    'a 200 of several parts',
    (honest) => ({
      ...partAs(200, 'none', { isChunked: true })(honest),
      fields: { ...honest.fields, 'content-type': 'multipart/byteranges; boundary=b' },
    }),
  ],
];

describe.each(partsAsWholes)('to a range of an absent file, %s', (_name, twist) => {
  it.each<[string, number, number]>([
    ['bytes=5000-5099', 5000, 5100],
    ['bytes=100-199', 100, 200],
    ['bytes=-100', size - 100, size],
  ])('is not used: %s is cut out of the whole, which is asked for without Range', async (range, start, end) => {
    const client = proxy.send(ranged(range));
    const later = proxy.send();
    await origin.give(twist);
    await origin.give();
    await expectPart(client, start, end);
    await expectWhole(later);
    await proxy.fillsEnded(1);
    expect(origin.asked.at(1)).toBe('whole');
    const stored = proxy.send();
    await expectWhole(stored);
    expect(await stored.field('content-range')).toBeUndefined();
    expect(proxy.origin.requests).toBe(2);
  });

  it('turns parts off for that URL, and for no other', async () => {
    const client = proxy.send(ranged('bytes=5000-5099'));
    await origin.give(twist);
    await origin.give();
    await client.bytes();
    await proxy.fillsEnded(1);
    expect(originEvents()).toEqual([]);
    proxy.clock.advance(61_000);
    const other = proxy.send({ ...ranged('bytes=5000-5099'), target: '/other' });
    await origin.give();
    await expectPart(other, 5000, 5100);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'whole', 'bytes=4096-5119']);
  });
});

describe('to a range that reaches to the end, a 200 of only these bytes, without Content-Range,', () => {
  const twist = partAs(200, 'none');

  it.each<[string, number, number]>([
    ['bytes=5000-', 5000, size],
    ['bytes=9990-', 9990, size],
    ['bytes=9990-20000', 9990, size],
    ['bytes=9999-9999', 9999, size],
  ])('is not used: %s is cut out of the whole', async (range, start, end) => {
    const client = proxy.send(ranged(range));
    await origin.give(twist);
    await origin.give();
    await expectPart(client, start, end);
    await proxy.fillsEnded(1);
    await expectWhole(proxy.send());
    expect(origin.asked.slice(1)).toEqual(['whole']);
  });

  it('is not used either where nothing is stored', async () => {
    origin.file = { ...origin.file, fields: { 'cache-control': 'no-store' } };
    origin.serve(twist);
    for (const start of [5000, 6000, 9000]) await expectPart(proxy.send(ranged(`bytes=${start}-`)), start, size);
  });

  it.each<[string, Record<string, string>]>([
    ['stored', { 'cache-control': 'max-age=60' }],
    ['not stored', { 'cache-control': 'no-store' }],
  ])('is doubted once, where the origin has sent the whole (%s)', async (_name, fields) => {
    origin.file = { ...origin.file, fields, hasRanges: false };
    origin.serve();
    await expectPart(proxy.send(ranged('bytes=5000-')), 5000, size);
    const first = origin.asked.filter((asked) => asked === 'whole').length;
    await expectPart(proxy.send({ ...ranged('bytes=6000-'), target: '/other' }), 6000, size);
    await expectPart(proxy.send({ ...ranged('bytes=6000-'), target: '/other' }), 6000, size);
    expect([first, origin.asked.filter((asked) => asked === 'whole').length]).toEqual([1, 1]);
  });

  it('is taken for the whole where the URL may answer only once, or says that it has no ranges', async () => {
    origin.file = {
      ...origin.file,
      fields: { 'cache-control': 'max-age=60', 'accept-ranges': 'none' },
      hasRanges: false,
    };
    origin.serve();
    await expectPart(proxy.send(ranged('bytes=5000-')), 5000, size);
    origin.file = { ...origin.file, fields: { 'cache-control': 'max-age=60' } };
    await expectPart(proxy.send({ ...ranged('bytes=5000-'), target: '/file?token=abc' }), 5000, size);
    expect(origin.asked).not.toContain('whole');
  });
});

describe('an answer with another status and the Content-Range of a part', () => {
  it('is not used: the range of the client is passed on as it is', async () => {
    const client = proxy.send(ranged('bytes=5000-5099'));
    await origin.give(partAs(201, 'size'));
    await origin.give(partAs(201, 'size'));
    expect(await client.status()).toBe(201);
    expect(await client.field('content-range')).toBe(`bytes 5000-5099/${size}`);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'bytes=5000-5099']);
  });
});

describe('a URL that has sent a part as the whole', () => {
  it('is asked for the whole for a while', async () => {
    const cold = async (...twists: (Twist | undefined)[]) => {
      const { length } = proxy.fillEvents();
      const client = proxy.send(ranged('bytes=5000-5099'));
      for (const twist of twists) await origin.give(twist);
      await expectPart(client, 5000, 5100);
      await proxy.fillsEnded(length + 1);
      for (const entry of await proxy.store.find(key)) await proxy.store.removeEntry(entry);
    };
    await cold(partAs(200, 'size'), undefined);
    await cold(undefined);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'whole', 'whole']);
    proxy.clock.advance(forgetAfterMs);
    await cold(undefined);
    expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
  });

  it('at a later part keeps the right bytes of the earlier ones, and goes on with the whole', async () => {
    const first = proxy.send(ranged('bytes=0-99'));
    await origin.give();
    await expectPart(first, 0, 100);
    await proxy.fillsEnded(1);
    const client = proxy.send(ranged('bytes=2100-2199'));
    await origin.give(partAs(200, 'size'));
    await origin.give();
    await expectPart(client, 2100, 2200);
    await proxy.fillsEnded(2);
    await expectWhole(proxy.send());
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=2048-3071 if "v1"', 'whole']);
    expect(originEvents()).toEqual([]);
  });

  it.each<[string, Twist]>([
    ['chunked', partAs(200, 'size', { isChunked: true })],
    ['with status 203', partAs(203, 'size')],
    ['without Content-Range', partAs(200, 'none')],
  ])('at a later part, %s: goes on with the whole', async (_name, twist) => {
    const first = proxy.send(ranged('bytes=0-99'));
    await origin.give();
    await first.bytes();
    await proxy.fillsEnded(1);
    const client = proxy.send(ranged('bytes=2100-2199'));
    await origin.give(twist);
    await origin.give();
    await expectPart(client, 2100, 2200);
    expect(origin.asked.at(-1)).toBe('whole');
  });

  it('with several ranges gives each of them', async () => {
    const client = proxy.send(ranged('bytes=100-199,5000-5099'));
    const reading = client.bytes();
    await origin.give(partAs(200, 'size'));
    await origin.give();
    const body = Buffer.from(await reading).toString('latin1');
    const parts = [...body.matchAll(/Content-Range: (.*)\r\n/g)].map(([, part]) => part);
    expect(parts).toEqual([`bytes 100-199/${size}`, `bytes 5000-5099/${size}`]);
  });

  it('is relayed as the part that it is where the Range of the client is passed on', async () => {
    const client = proxy.send({ fields: { range: 'bytes=5000-5099', 'cache-control': 'no-store' } });
    await origin.give(partAs(200, 'size'));
    await expectPart(client, 5000, 5100);
    expect(origin.asked).toEqual(['bytes=5000-5099']);
  });
});

describe('a part with the status of the whole that is not stored', () => {
  const asked = { range: 'bytes=5000-5099', authorization: 'Basic YTpi' };

  it('is found once; from then on the Range of the client is passed on, and costs no whole', async () => {
    for (const _ of [1, 2]) {
      const client = proxy.send({ fields: asked });
      if (proxy.origin.requests === 1) await origin.give(partAs(200, 'size'));
      const whole = await origin.begin();
      await origin.give(partAs(200, 'size'));
      await expectPart(client, 5000, 5100);
      expect(whole.exchange.isClosed).toBe(true);
      whole.finish();
    }
    expect(origin.asked).toEqual(['bytes=4096-5119', 'whole', 'bytes=5000-5099', 'whole', 'bytes=5000-5099']);
    const { origin: ability } = await proxy.explain({ fields: asked });
    expect(ability.refusal).toBe('it sent a part with status 200');
  });

  it('is not cut where a Range is passed on and it has no Content-Range: the whole is asked for', async () => {
    const client = proxy.send({ fields: { range: 'bytes=5000-5099', 'cache-control': 'no-store' } });
    await origin.give(partAs(200, 'none'));
    await origin.give();
    await expectPart(client, 5000, 5100);
    expect(origin.asked).toEqual(['bytes=5000-5099', 'whole']);
  });
});

describe('a 200 that is the whole', () => {
  it.each<[string, Twist]>([
    ['with the Content-Range of the whole', (honest) => withContentRange(honest, `0-${size - 1}/${size}`)],
    ['with the unsatisfied form of Content-Range', (honest) => withContentRange(honest, `*/${size}`)],
  ])('%s is used, stored and served without it', async (_name, twist) => {
    origin.file = { ...origin.file, hasRanges: false };
    const client = proxy.send(ranged('bytes=5000-5099'));
    await origin.give(twist);
    await expectPart(client, 5000, 5100);
    await proxy.fillsEnded(1);
    const stored = proxy.send();
    await expectWhole(stored);
    expect(await stored.field('content-range')).toBeUndefined();
    expect(proxy.origin.requests).toBe(1);
  });

  it('and is as long as what was asked for is asked for once more, and then stored', async () => {
    origin.file = { ...origin.file, sizeBytes: 1024, hasRanges: false };
    const client = proxy.send(ranged('bytes=100-199'));
    await origin.give();
    await origin.give();
    await expectPart(client, 100, 200, { sizeBytes: 1024 });
    expect(origin.asked).toEqual(['bytes=0-1023', 'whole']);
    expect(originEvents()).toEqual([]);
  });

  it('with a Content-Range in a unit of the application keeps it', async () => {
    const client = proxy.send();
    await origin.give((honest) => ({ ...honest, fields: { ...honest.fields, 'content-range': 'posts 0-24/319' } }));
    await expectWhole(client);
    await proxy.fillsEnded(1);
    expect(await proxy.send().field('content-range')).toBe('posts 0-24/319');
  });
});

/** Sends these bytes as a 206, whatever was asked for. */
const unasked =
  (start: number, end: number, range = `bytes ${start}-${end - 1}/${size}`): Twist =>
  (honest) => ({
    ...honest,
    status: 206,
    span: { start, end },
    fields: { ...honest.fields, 'content-range': range },
  });

describe('a 206 to a GET without Range', () => {
  it.each<[string, string]>([
    ['with a Content-Range in bytes', `bytes 0-2499/${size}`],
    ['with a Content-Range without a unit', '0-24/319'],
  ])('%s is passed on, not stored, and no verdict on other files', async (_name, range) => {
    for (const round of [1, 2]) {
      const client = proxy.send();
      await origin.give(unasked(0, 2500, range));
      expect(await client.status()).toBe(206);
      expect(await client.field('content-range')).toBe(range);
      expect(Buffer.from(await client.bytes())).toEqual(Buffer.from(patternBytes(0, 2500)));
      expect(proxy.origin.requests).toBe(round);
    }
    expect(originEvents()).toEqual([]);
    expect(await proxy.store.find(key)).toEqual([]);
    const other = proxy.send({ ...ranged('bytes=5000-5099'), target: '/other' });
    await origin.give();
    await expectPart(other, 5000, 5100);
    expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
  });

  it('is for one client: others that have waited ask for themselves', async () => {
    const clients = [proxy.send(), proxy.send(), proxy.send()];
    origin.serve(unasked(0, 2500));
    for (const client of clients) {
      expect(await client.status()).toBe(206);
      expect((await client.bytes()).length).toBe(2500);
    }
    expect(proxy.origin.requests).toBe(3);
  });

  it('replaces a stale response', async () => {
    const before = proxy.send();
    await origin.give();
    await expectWhole(before);
    await proxy.fillsEnded(1);
    proxy.clock.advance(61_000);
    const client = proxy.send();
    await origin.give(unasked(0, 2500));
    expect(await client.status()).toBe(206);
    expect((await client.bytes()).length).toBe(2500);
  });

  it.each(['length', 'chunked'])(
    'that holds the whole is stored as the 200 that it is (%s) only with a length',
    async (framing) => {
      const client = proxy.send();
      await origin.give((honest) => ({ ...unasked(0, size)(honest), isChunked: framing === 'chunked' }));
      expect(await client.status()).toBe(framing === 'chunked' ? 206 : 200);
      expect((await client.bytes()).length).toBe(size);
      if (framing === 'chunked') return;
      await proxy.fillsEnded(1);
      await expectPart(proxy.send(ranged('bytes=5000-5099')), 5000, 5100);
      expect(proxy.origin.requests).toBe(1);
    },
  );

  it('comes to a client with a Range as the answer to its own Range', async () => {
    origin.file = { ...origin.file, hasRanges: false };
    const client = proxy.send(ranged('bytes=5000-5099'));
    await origin.give((honest) => ({ ...honest, status: 416, span: { start: 0, end: 0 } }));
    await origin.give(unasked(0, 2500));
    await origin.give(unasked(5000, 5100));
    await expectPart(client, 5000, 5100);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'whole', 'bytes=5000-5099']);
  });
});

describe.each(['x-ms-range', 'request-range'])('a range in %s', (name) => {
  it('is passed on, also beside a stored response, and its part is not stored', async () => {
    const before = proxy.send();
    await origin.give();
    await expectWhole(before);
    await proxy.fillsEnded(1);
    const client = proxy.send({ fields: { [name]: 'bytes=0-2499' } });
    await origin.give(unasked(0, 2500));
    await expectPart(client, 0, 2500);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=request; fwd-status=206; detail=range-field');
    const { decision } = await proxy.explain({ fields: { [name]: 'bytes=0-2499' } });
    expect(decision).toMatchObject({ kind: 'pass', reason: 'range-field' });
    await expectWhole(proxy.send());
    expect(proxy.origin.requests).toBe(2);
  });
});

describe('a 206 that holds the whole, to a request for a part', () => {
  it('is used as the whole, and nothing else is asked for', async () => {
    const client = proxy.send(ranged('bytes=5000-5099'));
    await origin.give(unasked(0, size));
    await expectPart(client, 5000, 5100);
    await proxy.fillsEnded(1);
    await expectWhole(proxy.send());
    expect(proxy.origin.requests).toBe(1);
    expect(originEvents()).toEqual([]);
  });
});

describe('a 200 with the Content-Range of a part, to a GET without Range', () => {
  it('is passed on without it, and not stored', async () => {
    for (const round of [1, 2]) {
      const client = proxy.send();
      await origin.give((honest) => ({ ...unasked(0, 2500)(honest), status: 200 }));
      expect(await client.status()).toBe(200);
      expect(await client.field('content-range')).toBeUndefined();
      expect((await client.bytes()).length).toBe(2500);
      expect(proxy.origin.requests).toBe(round);
    }
  });
});

/** Compresses the part on the fly, and leaves its Content-Range as it was. The bytes stand for what comes of that. */
const compressed =
  (isChunked: boolean): Twist =>
  (honest) => ({
    ...honest,
    ...(honest.status === 206 ? { span: { start: 0, end: 300 }, seed: 7 } : {}),
    fields: { ...honest.fields, 'content-encoding': 'gzip' },
    isChunked,
  });

describe.each([
  ['chunked', true],
  ['with the length of what came of it', false],
])('a part that was compressed by itself, %s', (_name, isChunked) => {
  it.each<[string, number, number]>([
    ['bytes=5000-5099', 5000, 5100],
    ['bytes=0-99', 0, 100],
    ['bytes=-100', size - 100, size],
  ])('serves nobody: %s is cut out of the whole, for all who have waited', async (range, start, end) => {
    const clients = [proxy.send(ranged(range)), proxy.send(ranged(range))];
    await origin.give(compressed(isChunked));
    await origin.give((honest) => ({ ...honest, fields: { ...honest.fields, 'content-encoding': 'gzip' } }));
    for (const client of clients) await expectPart(client, start, end);
    expect(origin.asked.at(1)).toBe('whole');
    const other = proxy.send({ ...ranged('bytes=5000-5099'), target: '/other' });
    await origin.give();
    await expectPart(other, 5000, 5100);
    expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
  });

  it('does not go on with what is stored', async () => {
    const first = proxy.send(ranged('bytes=0-99'));
    await origin.give();
    await first.bytes();
    await proxy.fillsEnded(1);
    const client = proxy.send(ranged('bytes=2100-2199'));
    await origin.give(compressed(isChunked));
    await origin.give();
    await expectPart(client, 2100, 2200);
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=2048-3071 if "v1"', 'whole']);
  });
});

describe('a coded part with the length of its Content-Range', () => {
  const coded: Twist = (honest) => ({ ...honest, fields: { ...honest.fields, 'content-encoding': 'gzip' } });

  it('begins a stored response, and the length of the whole is known to a HEAD', async () => {
    const client = proxy.send(ranged('bytes=5000-5099'));
    await origin.give(coded);
    await expectPart(client, 5000, 5100);
    await proxy.fillsEnded(1);
    const head = await proxy.send({ method: 'HEAD' }).response;
    expect(head.body).toMatchObject({ sizeBytes: size });
    expect(origin.asked).toEqual(['bytes=4096-5119']);
  });
});

describe('digests of the whole', () => {
  const digests = {
    'content-digest': 'sha-512=:AAAA:',
    'content-md5': 'rL0Y20zC+Fzt72VPzMSk2A==',
    'x-amz-checksum-crc32c': 'yZRlqg==',
    'x-amz-checksum-type': 'FULL_OBJECT',
    'x-bz-content-sha1': 'da39a3ee5e6b4b0d3255bfef95601890afd80709',
    'x-goog-hash': 'crc32c=n03x6A==',
    'x-oss-hash-crc64ecma': '4105580109',
  };
  const named = async (client: ReturnType<WholeProxy['send']>) => {
    const { fields } = await client.response;
    return fields
      .map(([name]) => name)
      .filter((name) => name in digests)
      .sort();
  };

  it('stand in a 200, and in no 206 or several parts', async () => {
    origin.file = { ...origin.file, fields: { ...origin.file.fields, ...digests } };
    const whole = proxy.send();
    const joined = proxy.send(ranged('bytes=100-199'));
    await origin.give();
    await expectWhole(whole);
    expect(await named(whole)).toEqual(Object.keys(digests).sort());
    expect(await named(joined)).toEqual([]);
    await proxy.fillsEnded(1);
    for (const range of ['bytes=5000-5099', 'bytes=-1', 'bytes=0-9,5000-5009']) {
      const part = proxy.send(ranged(range));
      expect(await part.status()).toBe(206);
      expect(await named(part)).toEqual([]);
    }
    expect(await named(proxy.send())).toEqual(Object.keys(digests).sort());
  });

  it('are not taken from a part for the whole', async () => {
    const first = proxy.send(ranged('bytes=0-99'));
    await origin.give((honest) => ({ ...honest, fields: { ...honest.fields, 'x-amz-checksum-crc32c': 'ofthepart' } }));
    await first.bytes();
    await proxy.fillsEnded(1);
    const rest = proxy.send();
    const reading = rest.bytes();
    await origin.give((honest) => ({ ...honest, fields: { ...honest.fields, 'x-goog-hash': 'crc32c=ofthepart' } }));
    await reading;
    await proxy.fillsEnded(2);
    expect(await named(proxy.send())).toEqual([]);
    expect(proxy.origin.requests).toBe(2);
  });
});
