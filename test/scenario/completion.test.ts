/** Bytes fetched without a reader: transfers whose clients have left, and the rest of partly stored generations. */

import { afterEach, describe, expect, it } from 'vitest';
import type { FillPolicy } from '../../src/cache/inquiry.ts';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import {
  type Client,
  createWholeProxy,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
const key = 'http://origin.example/ http://files.example/file';
const complete = { smallerThanBytes: size + 1 };
const tooLarge = { smallerThanBytes: size };

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

function open(fill: Partial<FillPolicy>, options: WholeProxyOptions = { originRanges: 'auto' }): void {
  proxy = createWholeProxy({ ...options, fill });
  origin = createRangeOrigin(proxy.origin);
}

const results = () => proxy.fillEvents().map(({ result, bytes }) => `${result} ${bytes}`);

async function stored() {
  const [entry] = await proxy.store.find(key);
  if (entry === undefined) return undefined;
  return entry.isComplete ? 'whole' : 'part';
}

describe('the absent rest of a generation', () => {
  it.each<[string, FillPolicy['complete'], boolean]>([
    ['always', 'always', true],
    ['never', 'never', false],
    ['whenSmaller, just below the limit', complete, true],
    ['whenSmaller, just at the limit', tooLarge, false],
  ])('is fetched without a reader under `%s` (%o): %s', async (_name, policy, isCompleted) => {
    open({ complete: policy });
    const client = proxy.send({ fields: { range: 'bytes=2000-2099' } });
    await origin.give();
    await expectPart(client, 2000, 2100);
    if (isCompleted) for (const _ of ['before', 'behind']) await origin.give();
    await proxy.fillsEnded(isCompleted ? 3 : 1);
    await turn();
    const rest = isCompleted ? ['bytes=0-1023 if "v1"', 'bytes=3072- if "v1"'] : [];
    expect(origin.asked).toEqual(['bytes=1024-3071', ...rest]);
    expect(await stored()).toBe(isCompleted ? 'whole' : 'part');
  });

  it('is not fetched from an origin without ranges, which has sent the whole', async () => {
    open({ complete: 'always' });
    origin.file = { ...origin.file, hasRanges: false };
    const client = proxy.send({ fields: { range: 'bytes=2000-2099' } });
    await origin.give();
    await expectPart(client, 2000, 2100);
    await proxy.fillsEnded(1);
    expect(results()).toEqual([`stored ${size}`]);
  });

  it('is fetched after the bytes that a client waits for', async () => {
    open({ complete: 'always' });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    const head = await origin.begin();
    const second = proxy.send({ fields: { range: 'bytes=5000-5099' } });
    const wanted = await origin.begin();
    head.finish();
    await expectPart(first, 0, 100);
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    wanted.finish();
    await expectPart(second, 5000, 5100);
    for (const _ of ['between', 'behind']) await origin.give();
    await proxy.fillsEnded(4);
    expect(origin.asked.slice(2)).toEqual(['bytes=1024-4095 if "v1"', 'bytes=5120- if "v1"']);
    expect(await stored()).toBe('whole');
  });

  it('is given to a reader that comes meanwhile', async () => {
    open({ complete: 'always' });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await expectPart(first, 0, 100);
    const rest = await origin.begin();
    const plain = proxy.send();
    await turn();
    rest.finish();
    await expectWhole(plain);
    expect(origin.asked).toHaveLength(2);
  });

  it('is not fetched again where the origin fails', async () => {
    open({ complete: 'always' });
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await expectPart(first, 0, 100);
    (await origin.begin()).cutAt(5000);
    await proxy.fillsEnded(2);
    await turn();
    expect(origin.asked).toHaveLength(2);
    expect(await stored()).toBe('part');
    await expectPart(proxy.send({ fields: { range: 'bytes=3000-4095' } }), 3000, 4096);
  });
});

/** Sends a request without a range, whose client leaves after `offset` bytes. Returns the transfer. */
async function leaveAt(offset: number) {
  const client = proxy.send();
  const transfer = await origin.begin();
  void transfer.sendTo(offset);
  await expectUntil(client, offset);
  await client.leave();
  await turn();
  return transfer;
}

describe('a transfer from a legacy origin whose last reader has left', () => {
  const unlimited = { finishMaxLeftBytes: Number.POSITIVE_INFINITY, finishMaxSizeBytes: Number.POSITIVE_INFINITY };

  it.each<[string, Partial<FillPolicy>, boolean]>([
    ['finish', { onAbort: 'finish' }, true],
    ['stop', { onAbort: 'stop' }, false],
    ['finish, with as many bytes left as allowed', { onAbort: 'finish', finishMaxLeftBytes: 7000 }, true],
    ['finish, with more bytes left than allowed', { onAbort: 'finish', finishMaxLeftBytes: 6999 }, false],
    ['finish, as large as allowed', { onAbort: 'finish', finishMaxSizeBytes: size }, true],
    ['finish, larger than allowed', { onAbort: 'finish', finishMaxSizeBytes: size - 1 }, false],
    ['stop, however small', { onAbort: 'stop', finishMaxLeftBytes: size }, false],
  ])('under `%s` (%o) goes on: %s', async (_name, policy, goesOn) => {
    open({ ...unlimited, ...policy }, { originRanges: 'never' });
    const transfer = await leaveAt(3000);
    expect(transfer.exchange.isClosed).toBe(!goesOn);
    transfer.finish();
    await proxy.fillsEnded(1);
    expect(results()).toEqual([goesOn ? `stored ${size}` : 'stopped 3000']);
    expect(await stored()).toBe(goesOn ? 'whole' : 'part');
  });

  it('goes on where the length is not known', async () => {
    open({ finishMaxLeftBytes: 0, finishMaxSizeBytes: 0 }, { originRanges: 'never' });
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: origin.file.fields });
    void exchange.send(new Uint8Array(3000));
    await client.readUntil(3000);
    await client.leave();
    exchange.end();
    await proxy.fillsEnded(1);
    expect(results()).toEqual(['stored 3000']);
  });

  it('is resumed when it breaks off and is to be finished', async () => {
    open({ resumeAttempts: 1 }, { originRanges: 'never' });
    const transfer = await leaveAt(3000);
    transfer.cutAt(4000);
    // The pause before it is resumed, and the next look at a transfer that nobody reads.
    await proxy.clock.whenPending(2);
    proxy.clock.advance(100);
    await origin.give();
    await proxy.fillsEnded(1);
    expect(await stored()).toBe('whole');
  });
});

describe('a transfer from an origin with ranges whose last reader has left', () => {
  const advertised = (): void => {
    origin.file = { ...origin.file, fields: { ...origin.file.fields, 'accept-ranges': 'bytes' } };
  };

  it('ends with its block, because the rest can be fetched later', async () => {
    open({});
    advertised();
    const transfer = await leaveAt(3000);
    expect(transfer.exchange.isClosed).toBe(false);
    void transfer.sendTo(4000);
    await proxy.fillsEnded(1);
    expect(transfer.exchange.isClosed).toBe(true);
    expect(await stored()).toBe('part');
    await expectPart(proxy.send({ fields: { range: 'bytes=0-3071' } }), 0, 3072);
    const rest = proxy.send({ fields: { range: 'bytes=3072-' } });
    await origin.give();
    await expectPart(rest, 3072, size);
    expect(origin.asked).toEqual(['whole', 'bytes=3072- if "v1"']);
  });

  it('ends at once at a block boundary', async () => {
    open({});
    advertised();
    const transfer = await leaveAt(3072);
    expect(transfer.exchange.isClosed).toBe(true);
    await proxy.fillsEnded(1);
    expect(results()).toEqual(['stopped 3072']);
    expect(await stored()).toBe('part');
  });

  it('ends at once under `stop`, and the complete blocks stay', async () => {
    open({ onAbort: 'stop' });
    advertised();
    const transfer = await leaveAt(3000);
    expect(transfer.exchange.isClosed).toBe(true);
    await proxy.fillsEnded(1);
    await expectPart(proxy.send({ fields: { range: 'bytes=0-2047' } }), 0, 2048);
    expect(proxy.origin.requests).toBe(1);
  });

  it.each<[string, Partial<FillPolicy>, boolean]>([
    ['whenSmaller, just below the limit', { complete }, true],
    ['whenSmaller, just at the limit', { complete: tooLarge }, false],
    ['always', { complete: 'always' }, true],
    ['always, with too many bytes left', { complete: 'always', finishMaxLeftBytes: 10 }, false],
  ])('goes on where it would be completed anyway (%s, %o): %s', async (_name, policy, goesOn) => {
    open(policy);
    advertised();
    const transfer = await leaveAt(3072);
    expect(transfer.exchange.isClosed).toBe(!goesOn);
    if (goesOn) transfer.finish();
    await proxy.fillsEnded(1);
    expect(await stored()).toBe(goesOn ? 'whole' : 'part');
  });

  it('goes on where it is not known whether the origin has ranges', async () => {
    open({});
    const transfer = await leaveAt(3000);
    transfer.finish();
    await proxy.fillsEnded(1);
    expect(await stored()).toBe('whole');
  });

  it('goes on as long as one reader is left', async () => {
    open({});
    advertised();
    const stays: Client = proxy.send({ fields: { range: 'bytes=0-' } });
    const leaves = proxy.send();
    const transfer = await origin.begin();
    void transfer.sendTo(3000);
    await Promise.all([stays.readUntil(3000), leaves.readUntil(3000)]);
    await leaves.leave();
    await turn();
    transfer.finish();
    await expectPart(stays, 0, size);
  });

  it('gives its block to a reader that comes before the block is complete, and another transfer brings the rest', async () => {
    open({});
    advertised();
    const transfer = await leaveAt(3000);
    const next = proxy.send({ fields: { range: 'bytes=2900-5000' } });
    const reading = next.bytes();
    await turn();
    void transfer.sendTo(4000);
    await origin.give();
    await reading;
    await expectPart(next, 2900, 5001);
    expect(origin.asked).toEqual(['whole', 'bytes=3072-5119 if "v1"']);
  });
});
