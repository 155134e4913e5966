/** Transfers from an origin without ranges that break off: the whole is fetched again and compared with the bytes sent. */

import { afterEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { settled } from '../support/clients/conversation.ts';
import { createRangeOrigin, type RangeOrigin, type Twist } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';
/** Around the boundaries of the blocks, which have 1024 bytes, and around the end of the body. */
const offsets = [0, 1, 1023, 1024, 1025, 2047, 2048, 5000, 9215, 9216, 9217, 9998, 9999];
const fresh = { 'cache-control': 'max-age=60' };

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  expect(proxy.clock.pending).toBe(0);
  await proxy.close();
});

function open(fields: Record<string, string>): void {
  proxy = createWholeProxy({ originRanges: 'never', fill: { resumeAttempts: 3 } });
  origin = createRangeOrigin(proxy.origin, { hasRanges: false, fields });
}

/** Lets the pause before the next attempt pass. */
async function pause(): Promise<void> {
  await proxy.clock.whenPending(1);
  proxy.clock.advance(100);
}

async function expectStored(): Promise<void> {
  await proxy.fillsEnded(1);
  const { requests } = proxy.origin;
  await expectWhole(proxy.send());
  await expectPart(proxy.send({ fields: { range: 'bytes=1000-1100' } }), 1000, 1101);
  expect(proxy.origin.requests).toBe(requests);
}

async function expectGone(): Promise<void> {
  await proxy.fillsEnded(1);
  expect(await proxy.store.find(key)).toEqual([]);
}

const expectCut = (client: ReturnType<WholeProxy['send']>) =>
  expect(client.bytes()).rejects.toMatchObject({ code: 'generation_changed' });

describe('a transfer from a legacy origin', () => {
  const forms = [
    ['without a validator', fresh],
    ['with a weak validator', { ...fresh, etag: 'W/"v1"' }],
    ['with a strong validator', { ...fresh, etag: '"v1"' }],
  ] as const;
  const rows = forms.flatMap(([form, fields]) => offsets.map((offset) => [form, offset, fields] as const));

  it.each(rows)('%s that is cut at %i is fetched again, and its client sees a pause', async (_form, offset, fields) => {
    open(fields);
    const client = proxy.send();
    const first = await origin.begin();
    expect(await client.status()).toBe(200);
    first.cutAt(offset);
    await expectUntil(client, offset);
    await pause();
    await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['whole', 'whole']);
    await expectStored();
  });

  const otherBytes: Twist = (honest) => ({ ...honest, seed: 2 });
  const ofSize =
    (end: number): Twist =>
    (honest) => ({ ...honest, span: { start: 0, end } });
  const retyped: Twist = (honest) => ({ ...honest, fields: { ...honest.fields, 'content-type': 'text/x-other' } });

  it.each<[string, Twist]>([
    ['other bytes', otherBytes],
    ['fewer bytes', ofSize(size - 1)],
    ['far fewer bytes', ofSize(100)],
    ['more bytes', ofSize(size + 1)],
    ['another type', retyped],
    ['another tag', (honest) => ({ ...honest, fields: { ...honest.fields, etag: 'W/"v2"' } })],
  ])('that brings %s the second time cuts off its client, and stores nothing', async (_name, twist) => {
    open({ ...fresh, etag: 'W/"v1"' });
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await expectUntil(client, 4000);
    await pause();
    await origin.give(twist);
    await expectCut(client);
    await expectGone();
  });

  it('cuts off its client at the first block that differs, before any byte of that block is sent', async () => {
    open(fresh);
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await expectUntil(client, 4000);
    await pause();
    const second = await origin.begin();
    const exchange = second.exchange;
    await second.sendTo(3072);
    void exchange.send(new Uint8Array(size - 3072));
    await expectCut(client);
    expect(exchange.isClosed).toBe(true);
  });

  it.each([
    ['without ranges', 'never', ['whole']],
    ['with ranges', 'auto', ['whole']],
  ] as const)('fails at once with no attempts, at an origin %s', async (_name, originRanges, asked) => {
    proxy = createWholeProxy({ originRanges, fill: { resumeAttempts: 0 } });
    origin = createRangeOrigin(proxy.origin, {
      hasRanges: originRanges === 'auto',
      fields: { ...fresh, etag: '"v1"' },
    });
    const client = proxy.send();
    const reading = expect(client.bytes()).rejects.toMatchObject({ code: 'origin_reset' });
    (await origin.begin()).cutAt(4000);
    await reading;
    expect(proxy.clock.pending).toBe(0);
    expect(origin.asked).toEqual(asked);
  });

  it('may break off again and again', async () => {
    open(fresh);
    const client = proxy.send();
    const reading = client.bytes();
    for (const offset of [100, 50, 1500, 2000, 1024, 9999, 9999]) {
      (await origin.begin()).cutAt(offset);
      await proxy.clock.whenPending(1);
      proxy.clock.advance(5000);
    }
    await origin.give();
    await reading;
    await expectWhole(client);
    await expectStored();
  });

  it.each([undefined, size])('of unknown length (then %s) is resumed, too', async (length) => {
    open(fresh);
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: fresh });
    const bytes = patternBytes(0, size);
    void exchange.send(bytes.subarray(0, 4000));
    exchange.fail(new ProxyError('origin_reset'));
    await expectUntil(client, 4000);
    await pause();
    const again = await proxy.origin.next();
    again.head({ fields: length === undefined ? fresh : { ...fresh, 'content-length': String(length) } });
    void again.send(bytes);
    again.end();
    await expectWhole(client);
    await expectStored();
  });

  it('of unknown length cuts off its client when the second transfer is shorter than the bytes sent', async () => {
    open(fresh);
    const client = proxy.send();
    const bytes = patternBytes(0, size);
    const first = await proxy.origin.next();
    first.head({ fields: fresh });
    void first.send(bytes.subarray(0, 4000));
    first.fail(new ProxyError('origin_reset'));
    await expectUntil(client, 4000);
    await pause();
    (await proxy.origin.next()).respond({ fields: fresh }, bytes.subarray(0, 3999));
    await expectCut(client);
    await expectGone();
  });

  it('serves readers before and after the offset where it breaks off', async () => {
    open(fresh);
    const clients = [proxy.send(), proxy.send({ fields: { range: 'bytes=500-3500' } })];
    const last = proxy.send({ fields: { range: 'bytes=-10' } });
    (await origin.begin()).cutAt(4000);
    await expectPart(clients[1] ?? expect.fail(), 500, 3501);
    await pause();
    await origin.give();
    await expectPart(last, size - 10, size);
    await expectWhole(clients[0] ?? expect.fail());
    await expectStored();
  });

  it('without attempts left cuts off its client, and the next client gets a transfer of its own', async () => {
    open(fresh);
    const client = proxy.send();
    (await origin.begin()).cutAt(4000);
    await expectUntil(client, 4000);
    for (const ms of [100, 200, 400]) {
      await proxy.clock.whenPending(1);
      proxy.clock.advance(ms);
      (await origin.begin()).cutAt(2000);
    }
    await expect(client.bytes()).rejects.toMatchObject({ code: 'origin_reset' });
    await expectGone();
    origin.file = { ...origin.file, seed: 2 };
    const next = proxy.send();
    await origin.give();
    await expectWhole(next, { seed: 2 });
  });
});

describe('a slow reader of a file that another client fetches again', () => {
  /** Lets a client read `seenBytes` of a transfer that fails, and fetches the whole for another client. Returns both clients. */
  async function readSlowly(method: string, seenBytes: number, then: Uint8Array) {
    proxy = createWholeProxy({ fill: { resumeAttempts: 0 } });
    const head = { fields: { ...fresh, 'content-location': '/file' } };
    const slow = proxy.send({ method });
    const first = await proxy.origin.next();
    first.head(head);
    void first.send(patternBytes(0, seenBytes));
    await slow.readUntil(seenBytes);
    first.fail(new ProxyError('origin_reset'));
    await settled();
    const other = proxy.send();
    (await proxy.origin.next()).respond(head, then);
    return { slow, other };
  }

  const rows = ['GET', 'POST'].flatMap((method) =>
    [1, 1023, 1024, 1500].map((seenBytes) => [method, seenBytes] as const),
  );

  it.each(rows)('by %s, after %i bytes, gets the rest of the same bytes', async (method, seenBytes) => {
    const { slow, other } = await readSlowly(method, seenBytes, patternBytes(0, size));
    await expectWhole(other);
    await expectWhole(slow);
  });

  it.each(rows)('by %s, after %i bytes, gets no byte of a body that differs in those', async (method, seenBytes) => {
    const changed = patternBytes(0, size);
    changed.set([(changed[seenBytes - 1] ?? 0) ^ 1], seenBytes - 1);
    const { slow, other } = await readSlowly(method, seenBytes, changed);
    if (seenBytes < 1024) {
      // No block of the old bytes was kept, so the other client gets the new bytes from the beginning.
      (await proxy.origin.next()).respond({ fields: fresh }, changed);
      expect(Buffer.compare(await other.bytes(), changed)).toBe(0);
    } else {
      await expectCut(other);
    }
    await expectCut(slow);
    expect(await slow.readUntil(0)).toEqual(Buffer.from(patternBytes(0, seenBytes)));
  });
});
