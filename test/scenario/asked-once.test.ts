/** URLs that answer once, or for a short time: one request of a client becomes one request to the origin. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRangeOrigin, type RangeOrigin, type Twist, without } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
const forgetAfterMs = 600_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', fill: { openRanges: 'grow', resumeAttempts: 7 } });
  origin = createRangeOrigin(proxy.origin);
});
afterEach(() => proxy.close());

const ask = (target: string, range?: string) => proxy.send({ target, fields: range === undefined ? {} : { range } });

/** Shows that the origin gives parts that can be joined, so that open ranges of ordinary URLs are fetched in spans. */
async function joinParts(): Promise<void> {
  for (const [start, range] of [
    [0, 'bytes=0-9'],
    [9000, 'bytes=9000-9009'],
  ] as const) {
    const client = ask('/known', range);
    await origin.give();
    await expectPart(client, start, start + 10);
  }
  await proxy.fillsEnded(2);
}

const askedSince = (from: number) => origin.asked.slice(from);

/** An answer that refuses everything. */
const refused =
  (status: number): Twist =>
  (honest) => ({ ...without(without(honest, 'etag'), 'content-range'), status, span: { start: 0, end: 0 } });

describe('an open range', () => {
  it('of an unknown origin is one request', async () => {
    const client = ask('/file', 'bytes=0-');
    await origin.give();
    await expectPart(client, 0, size);
    expect(origin.asked).toEqual(['bytes=0-']);
  });

  it('that an origin without ranges answers with the whole is one request, also for a seek ahead of it', async () => {
    origin.file = { ...origin.file, hasRanges: false };
    const client = ask('/file', 'bytes=0-');
    const transfer = await origin.begin();
    expect(await client.status()).toBe(206);
    const seek = ask('/file', 'bytes=9500-');
    const reading = seek.bytes();
    transfer.finish();
    await reading;
    await expectPart(seek, 9500, size);
    await expectPart(client, 0, size);
    expect(origin.asked).toEqual(['bytes=0-']);
  });

  it('in the middle of a file of an unknown origin is one request', async () => {
    const client = ask('/file', 'bytes=5000-');
    await origin.give();
    await expectPart(client, 5000, size);
    expect(origin.asked).toEqual(['bytes=4096-']);
  });

  it('is fetched in spans where parts of the origin have been joined', async () => {
    await joinParts();
    origin.serve();
    await expectPart(ask('/file', 'bytes=0-'), 0, size);
    expect(askedSince(2)[0]).toBe('bytes=0-1023');
    expect(askedSince(2).length).toBeGreaterThan(5);
  });

  it.each([
    '/dl?token=1',
    '/file?x=1&Expires=1700000000&Signature=abc',
    '/blob?sv=2024&sig=abc',
    '/f?9f86d081884c7d659a2feaa0',
  ])(
    'of %s, which looks as if it were answered once, is one request, whatever is known of the origin',
    async (target) => {
      await joinParts();
      const client = ask(target, 'bytes=0-');
      await origin.give();
      await expectPart(client, 0, size);
      expect(askedSince(2)).toEqual(['bytes=0-']);
    },
  );
});

describe('a URL that looks as if it were answered once', () => {
  const send = (fields: Record<string, string>) => proxy.send({ target: '/dl?token=1', fields });

  it('gets If-Range with the range, so that the whole of another version comes with the same answer', async () => {
    const fields = { range: 'bytes=5000-5099', 'if-range': '"v0"' };
    expect((await proxy.explain({ target: '/dl?token=1', fields })).originQuestion?.fields).toEqual([
      ['range', 'bytes=4096-5119'],
      ['if-range', '"v0"'],
    ]);
    const client = send(fields);
    await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['bytes=4096-5119 if "v0"']);
    expect((await proxy.explain({ target: '/other', fields })).origin.mayAskMore).toBe(true);
  });

  it('gets If-Range with the range, and the part of the version that the client has', async () => {
    const client = send({ range: 'bytes=5000-', 'if-range': '"v1"' });
    await origin.give();
    await expectPart(client, 5000, size);
    expect(origin.asked).toEqual(['bytes=4096- if "v1"']);
  });

  it('is asked for the whole where the client wants several ranges', async () => {
    const client = send({ range: 'bytes=0-9,5000-5009' });
    await origin.give();
    expect(await client.status()).toBe(206);
    await client.bytes();
    expect(origin.asked).toEqual(['whole']);
  });

  it('is not asked about a range behind the end again', async () => {
    const client = send({ range: 'bytes=10000-' });
    await origin.give();
    expect(await client.status()).toBe(416);
    expect(origin.asked).toEqual(['bytes=9216-']);
  });
});

describe('the explanation of an open range', () => {
  it('says that one request brings all of it', async () => {
    const fields = { range: 'bytes=0-' };
    expect((await proxy.explain({ target: '/dl?token=1', fields })).origin.manner).toBe('once');
    expect((await proxy.explain({ target: '/file', fields })).origin.manner).toBeUndefined();
    expect(
      (await proxy.explain({ target: '/dl?token=1', fields: { range: 'bytes=0-9' } })).origin.manner,
    ).toBeUndefined();
  });
});

describe('one request for an open range', () => {
  it('is not read far ahead of its client, and is ended when the client leaves', async () => {
    const client = ask('/file', 'bytes=0-');
    const transfer = await origin.begin();
    expect(await client.status()).toBe(206);
    await transfer.sendTo(512);
    await transfer.sendTo(1000);
    let isTaken = false;
    // A block and the beginning of the next one are taken before the client has read anything.
    const rest = (async () => {
      await transfer.sendTo(1100);
      await transfer.sendTo(1200);
      await transfer.sendTo(2048);
      isTaken = true;
    })();
    await client.readUntil(900);
    expect(isTaken).toBe(false);
    await client.leave();
    await proxy.fillsEnded(1);
    expect(transfer.exchange.isClosed).toBe(true);
    expect(isTaken).toBe(false);
    void rest;
  });

  it('goes on for a client that wants all of it', async () => {
    const player = ask('/file', 'bytes=0-');
    const transfer = await origin.begin();
    void transfer.sendTo(1024);
    await player.readUntil(10);
    const whole = ask('/file');
    transfer.finish();
    await expectWhole(whole);
    expect(origin.asked).toEqual(['bytes=0-']);
    await player.leave();
  });

  it('is asked for the rest where it breaks off', async () => {
    const client = ask('/dl?token=1', 'bytes=0-');
    const reading = client.bytes();
    (await origin.begin()).cutAt(3000);
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    await origin.give();
    await reading;
    await expectPart(client, 0, size);
    expect(origin.asked).toEqual(['bytes=0-', 'bytes=3000- if "v1"']);
  });
});

describe('a further part', () => {
  it.each([401, 403, 404, 410])(
    'that is refused with %i is not asked for again, and the next range is one request',
    async (status) => {
      await joinParts();
      const client = ask('/file', 'bytes=0-');
      const reading = expect(client.bytes()).rejects.toMatchObject({ source: 'origin' });
      await origin.give();
      await origin.give(refused(status));
      await reading;
      expect(proxy.clock.pending).toBe(0);
      expect(askedSince(2)).toEqual(['bytes=0-1023', 'bytes=1024-2047 if "v1"']);

      // Not at other paths, before it has happened at a second one.
      const other = ask('/other', 'bytes=0-');
      const cut = expect(other.bytes()).rejects.toMatchObject({ source: 'origin' });
      await origin.give();
      await origin.give(refused(status));
      await cut;
      expect(askedSince(4)).toEqual(['bytes=0-1023', 'bytes=1024-2047 if "v1"']);
      const third = ask('/third', 'bytes=0-');
      await origin.give();
      await expectPart(third, 0, size);
      expect(askedSince(6)).toEqual(['bytes=0-']);

      proxy.clock.advance(forgetAfterMs);
      const fourth = ask('/fourth', 'bytes=0-9');
      await origin.give();
      await expectPart(fourth, 0, 10);
      const fifth = ask('/fifth', 'bytes=0-');
      await fifth.leave();
      expect((await proxy.explain({ target: '/sixth', fields: { range: 'bytes=0-' } })).originQuestion?.fields).toEqual(
        [['range', 'bytes=0-1023']],
      );
    },
  );

  it.each([500, 503])('that fails with %i is asked for again', async (status) => {
    await joinParts();
    const client = ask('/file', 'bytes=0-');
    const reading = client.bytes();
    await origin.give();
    await origin.give(refused(status));
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    origin.serve();
    await reading;
    await expectPart(client, 0, size);
  });
});

describe('a part that is not stored', () => {
  const unstorable: Twist = (honest) => ({ ...honest, fields: { ...honest.fields, 'cache-control': 'no-store' } });
  const weak: Twist = (honest) => without(honest, 'etag');

  it.each<[string, number, number, string]>([
    ['bytes=0-', 0, size, 'bytes=0-'],
    ['bytes=5000-', 5000, size, 'bytes=4096-'],
    ['bytes=5000-5099', 5000, 5100, 'bytes=4096-5119'],
    ['bytes=-100', 9900, size, 'bytes=-100'],
    ['bytes=-3000', 7000, size, 'bytes=-4024'],
  ])('serves %s all the same: it is one request', async (range, start, end, asked) => {
    const client = ask('/dl', range);
    await origin.give(unstorable);
    await expectPart(client, start, end);
    expect(origin.asked).toEqual([asked]);
  });

  it.each<[string, number, number]>([
    ['bytes=0-', 0, size],
    ['bytes=5000-5099', 5000, 5100],
  ])('because it cannot be combined serves %s of a URL that may answer only once', async (range, start, end) => {
    const client = ask('/dl?token=1', range);
    await origin.give(weak);
    await expectPart(client, start, end);
    expect(origin.asked).toHaveLength(1);
  });

  it('does not serve a range with a condition', async () => {
    const client = proxy.send({ target: '/dl', fields: { range: 'bytes=5000-5099', 'if-range': '"v1"' } });
    await origin.give(unstorable);
    await origin.give();
    await expectPart(client, 5000, 5100);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'bytes=5000-5099 if "v1"']);
  });
});

describe('a part without a validator, of a response that is never stored,', () => {
  it.each<[string, string, number, number]>([
    ['bytes=5000-5099', 'bytes=4096-5119', 5000, 5100],
    ['bytes=5000-', 'bytes=4096-', 5000, size],
  ])('is cut to %s, and the whole is not asked for', async (range, asked, start, end) => {
    origin.file = { ...origin.file, fields: { 'cache-control': 'no-store' } };
    const client = ask('/file', range);
    await origin.give();
    await expectPart(client, start, end);
    expect(origin.asked).toEqual([asked]);
  });
});
