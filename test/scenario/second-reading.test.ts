/** Faults of an origin, a store or a client at the wrong moment: no client gets wrong bytes, waits for ever or pays for others. */

import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { formatReprDigest } from '../../src/semantics/digest.ts';
import { StoreFault } from '../../src/store/store.ts';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin, type Twist, withContentRange } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy, type WholeProxyOptions } from '../support/proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore } from '../support/stores/steered-store.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const whole = patternBytes(0, size);
const digest = formatReprDigest(createHash('sha256').update(whole).digest('hex'));

let proxy: WholeProxy;
let origin: RangeOrigin;
let store: SteeredStore;
beforeEach(() => open());
afterEach(() => proxy.close());

function open(options: WholeProxyOptions = {}): void {
  store = createSteeredStore();
  proxy = createWholeProxy({ originRanges: 'auto', windowBytes: 2048, createStore: () => store, ...options });
  origin = createRangeOrigin(proxy.origin);
}

async function reopen(options: WholeProxyOptions): Promise<void> {
  await proxy.close();
  open(options);
}

/** Waits until all consequences of what has happened are over. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 20; turns += 1) await turn();
}

const range = (value: string) => ({ fields: { range: `bytes=${value}` } });
const originEvents = () => proxy.events.filter(({ kind }) => kind === 'origin');

/** Stores the first block. */
async function storeFirstBlock(): Promise<void> {
  const client = proxy.send(range('0-9'));
  await origin.give();
  await expectPart(client, 0, 10);
  await proxy.fillsEnded(1);
}

describe('a 206 with bytes past its stated end', () => {
  it.each([
    ['in the chunk of its last byte', 1023],
    ['in a chunk of its own', 1024],
  ])('%s gives its stated bytes only, and the rest is requested', async (_name, cut) => {
    await storeFirstBlock();
    const client = proxy.send(range('4096-6143'));
    const exchange = await proxy.origin.next();
    exchange.head({ status: 206, fields: { etag: '"v1"', 'content-range': `bytes 4096-5119/${size}` } });
    const reading = client.bytes();
    void exchange.send(patternBytes(4096, 4096 + cut));
    void exchange.send(Buffer.concat([patternBytes(4096 + cut, 5120), patternBytes(0, 2000, 7)]));
    void exchange.send(patternBytes(0, 2000, 7));
    await origin.give();
    await reading;
    expect(origin.asked.at(-1)).toBe('bytes=5120-6143 if "v1"');
    await expectPart(client, 4096, 6144);
    await proxy.fillsEnded(2);
    await expectPart(proxy.send(range('5000-6000')), 5000, 6001);
  });
});

describe('the last block of a body with a stated digest', () => {
  it.each(['auto', 'never'] as const)('is not asked for again while it arrives (%s)', async (originRanges) => {
    await reopen({ originRanges });
    origin.file = { ...origin.file, fields: { ...origin.file.fields, 'repr-digest': digest } };
    const client = proxy.send();
    const transfer = await origin.begin();
    const reading = client.bytes();
    for (const offset of [9500, 9600, 9700]) {
      await transfer.sendTo(offset);
      await settle();
    }
    expect(proxy.origin.requests).toBe(1);
    transfer.finish();
    await reading;
    await expectWhole(client);
    expect(proxy.origin.requests).toBe(1);
  });

  it('is given to the requests that wait for it even if the store does not take it', async () => {
    await reopen({ windowBytes: 1024 });
    const stated = formatReprDigest(createHash('sha256').update(patternBytes(0, 2000)).digest('hex'));
    origin.file = { ...origin.file, sizeBytes: 2000, fields: { ...origin.file.fields, 'repr-digest': stated } };
    store.fail('publish', new StoreFault('io', 'a fault'));
    const client = proxy.send();
    const transfer = await origin.begin();
    const reading = client.bytes();
    await transfer.sendTo(1500);
    await settle();
    transfer.finish();
    await reading;
    await expectWhole(client, { sizeBytes: 2000 });
  });

  it('that does not match is not fetched in vain again at once: the next response is relayed', async () => {
    origin.file = { ...origin.file, fields: { ...origin.file.fields, 'repr-digest': digest }, seed: 5 };
    const first = proxy.send();
    await origin.give();
    await expect(first.bytes()).rejects.toMatchObject({ code: 'origin_digest_mismatch' });
    const second = proxy.send();
    await origin.give();
    await expectWhole(second, { seed: 5 });
    expect(await second.field('cache-status')).toContain('fwd');
  });
});

describe('a partly stored generation', () => {
  it('is skipped where it cannot be opened', async () => {
    await storeFirstBlock();
    store.fail('resume', new StoreFault('io', 'a fault'));
    const client = proxy.send(range('5000-5099'));
    await origin.give();
    await expectPart(client, 5000, 5100);
  });

  it('is skipped where a slow reader holds it and the store takes no blocks', async () => {
    const slow = proxy.send();
    const transfer = await origin.begin();
    void transfer.sendTo(2048);
    await slow.readUntil(2048);
    store.fail('writeBlock', new StoreFault('no_room', 'full'));
    void transfer.sendTo(8192);
    await settle();
    const client = proxy.send(range('7000-7099'));
    await origin.give();
    await expectPart(client, 7000, 7100);
    await slow.leave();
  });

  it('is completed without the credentials of its client where the origin does not allow them (RFC 9111 §3.5)', async () => {
    await storeFirstBlock();
    const client = proxy.send({ fields: { range: 'bytes=5000-5099', authorization: 'Basic x' } });
    const { exchange } = await origin.give();
    expect(fieldValue(exchange.request.fields, 'authorization')).toBeUndefined();
    await expectPart(client, 5000, 5100);
  });

  it('is completed with the credentials of its client where the origin allows them', async () => {
    origin.file = { ...origin.file, fields: { ...origin.file.fields, 'cache-control': 'public, max-age=60' } };
    await storeFirstBlock();
    const client = proxy.send({ fields: { range: 'bytes=5000-5099', authorization: 'Basic x' } });
    const { exchange } = await origin.give();
    expect(fieldValue(exchange.request.fields, 'authorization')).toBe('Basic x');
    await expectPart(client, 5000, 5100);
  });

  it.each([
    [400, 2],
    [401, 1],
    [403, 1],
    [406, 2],
    [412, 2],
    [429, 1],
    [500, 1],
  ])('survives a %i to a request for more of it, and for the whole', async (status, requests) => {
    await storeFirstBlock();
    const client = proxy.send(range('5000-5099'));
    for (let request = 0; request < requests; request += 1) {
      (await proxy.origin.next()).respond({ status }, new Uint8Array());
    }
    expect(await client.status()).toBe(502);
    await expectPart(proxy.send(range('0-99')), 0, 100);
  });
});

describe('an origin that sends a few bytes for each request', () => {
  it('is not asked as fast as it answers', async () => {
    await reopen({ fill: { resumeAttempts: 3 } });
    await storeFirstBlock();
    const client = proxy.send(range('5000-5099'));
    const oneByte: Twist = (honest) => ({
      ...withContentRange(honest, `${honest.span.start}-${honest.span.start}/${size}`),
      span: { start: honest.span.start, end: honest.span.start + 1 },
    });
    await origin.give(oneByte);
    await settle();
    expect(proxy.origin.requests).toBe(2);
    proxy.clock.advance(100);
    await origin.give();
    await expectPart(client, 5000, 5100);
  });
});

describe('a body of unknown length that breaks off while another transfer brings a block that was lost', () => {
  it('does not end where it broke off', async () => {
    await reopen({ originRanges: 'never', fill: { resumeAttempts: 1 } });
    const client = proxy.send();
    const first = await proxy.origin.next();
    first.head();
    void first.send(whole.subarray(0, 2560));
    await client.readUntil(1);
    await settle();
    store.loseBlock(1);
    const reading = client.bytes();
    const second = await proxy.origin.next();
    first.fail(new ProxyError('origin_reset'));
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    for (const exchange of [second, await proxy.origin.next()]) {
      exchange.head();
      void exchange.send(whole);
      exchange.end();
    }
    expect(await reading).toEqual(Buffer.from(whole));
  });
});

describe('a stop of the server', () => {
  it('does not wait for a client that does not read a body that is not stored', async () => {
    store.fail('writeBlock', new StoreFault('no_room', 'full'));
    const client = proxy.send();
    const transfer = await origin.begin();
    void transfer.sendTo(size);
    await client.readUntil(10);
    await settle();
    await proxy.close();
    expect(transfer.exchange.isClosed).toBe(true);
  });
});

/** Answers that an origin with ranges may give. */
const unsatisfied: Twist = (honest) => ({
  ...withContentRange(honest, `*/${size}`),
  status: 416,
  span: { start: 0, end: 0 },
});
const unsatisfiedWithoutLength: Twist = (honest) => {
  const { fields, ...reply } = unsatisfied(honest);
  return { ...reply, fields: {} };
};

describe('a 416 of the origin', () => {
  it('to the first of several ranges is not the answer to the others (RFC 9110 §15.5.17)', async () => {
    const client = proxy.send(range('99999-,0-9'));
    await origin.give(unsatisfied);
    await origin.give();
    await expectPart(client, 0, 10);
    expect(originEvents()).toEqual([]);
  });

  it('is not the answer to a range of another version (RFC 9110 §13.1.5)', async () => {
    const client = proxy.send({ fields: { range: 'bytes=99999-', 'if-range': '"v0"' } });
    await origin.give(unsatisfied);
    await origin.give();
    await expectWhole(client);
    expect(originEvents()).toEqual([]);
  });

  it('that states no length is no lie where the range is past the end', async () => {
    const client = proxy.send(range('99999-'));
    await origin.give(unsatisfiedWithoutLength);
    await origin.give();
    await origin.give(unsatisfiedWithoutLength);
    expect(await client.status()).toBe(416);
    expect(originEvents()).toEqual([]);
  });
});

describe('an empty file', () => {
  it.each([
    ['416', unsatisfied],
    ['200', (honest: Parameters<Twist>[0]) => ({ ...honest, status: 200 })],
  ] as const)('whose ranges are answered with %s shows nothing about other files', async (_name, twist: Twist) => {
    origin.file = { ...origin.file, sizeBytes: 0 };
    const client = proxy.send({ target: '/empty', ...range('-5') });
    await origin.give((honest) => withLengthOf(twist(honest), 0));
    if (twist === unsatisfied) await origin.give();
    expect(await client.status()).toBe(200);
    expect(originEvents()).toEqual([]);
    origin.file = { ...origin.file, sizeBytes: size };
    const next = proxy.send(range('5000-5099'));
    await origin.give();
    await expectPart(next, 5000, 5100);
    expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
  });
});

const withLengthOf = (reply: ReturnType<Twist>, sizeBytes: number): ReturnType<Twist> =>
  reply.status === 416 ? withContentRange(reply, `*/${sizeBytes}`) : reply;
