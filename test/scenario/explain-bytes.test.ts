/** Explanations of ranges: which response a range gets, and which bytes are here, in flight, and to be fetched. */

import { afterEach, describe, expect, it } from 'vitest';
import type { Explanation } from '../../src/delivery/explanation.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import {
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

/** Blocks have 1024 bytes: ten of them, the last with 784. */
const size = 10_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

function start(options: WholeProxyOptions = {}, file: Parameters<typeof createRangeOrigin>[1] = {}): void {
  proxy = createWholeProxy({ originRanges: 'auto', ...options });
  origin = createRangeOrigin(proxy.origin, file);
}

const ranged = (range: string, fields: Record<string, string> = {}): Sent => ({ fields: { range, ...fields } });

/** Stores some blocks: fetches each range for a client of its own. */
async function present(...sent: readonly Sent[]): Promise<void> {
  for (const each of sent) {
    const ended = proxy.fillEvents().length + 1;
    const client = proxy.send(each);
    await origin.give();
    await client.bytes();
    await proxy.fillsEnded(ended);
  }
}

/** Returns the numbers of bytes here, in flight and to be fetched, for each span. */
function sums({ plan }: Explanation): readonly (readonly number[])[] {
  return plan.spans.map(({ hereBytes, inFlightBytes, originBytes }) => [hereBytes, inFlightBytes, originBytes]);
}

/** Formats the pieces of the first span, with inclusive ends, as in a Range field. */
function runs({ plan }: Explanation): readonly string[] {
  return plan.spans[0]?.pieces.map(({ from, start: first, end }) => `${from} ${first}-${end - 1}`) ?? [];
}

describe('a range of an absent response', () => {
  it('is explained with the range that the origin would be asked for', async () => {
    start();
    const explained = await proxy.explain(ranged('bytes=1500-1600'));
    expect(explained).toMatchObject({
      decision: { kind: 'fill' },
      originQuestion: { fields: [['range', 'bytes=1024-2047']] },
      origin: { isKnown: false, mayAsk: true },
      plan: { range: { value: 'bytes=1500-1600' }, spans: [], asked: [] },
    });
    expect(explained.plan.range).not.toHaveProperty('isObeyed');
    expect(explained.plan).not.toHaveProperty('status');
  });

  it('is explained with a request for the whole where the origin gives no ranges', async () => {
    start({ originRanges: 'never' });
    expect((await proxy.explain(ranged('bytes=1500-1600'))).originQuestion?.fields).toEqual([]);
  });
});

describe('a range of a partly stored response', () => {
  it('is explained with the bytes that are here, and those to be fetched', async () => {
    start();
    await present(ranged('bytes=2048-3000'), ranged('bytes=6000-6001'));
    const explained = await proxy.explain(ranged('bytes=1500-6200,-5'));
    expect(explained).toMatchObject({
      decision: { kind: 'complete', forwardReason: 'partial', cacheStatus: 'rangeway; fwd=partial; stored' },
      chosen: {
        isComplete: false,
        sizeBytes: size,
        present: {
          bytes: 2048,
          runs: 2,
          spans: [
            { start: 2048, end: 3072 },
            { start: 5120, end: 6144 },
          ],
        },
      },
      origin: { isKnown: true },
      plan: { status: 206, isMultipart: true, range: { isObeyed: true } },
    });
    expect(runs(explained)).toEqual([
      'origin 1500-2047',
      'here 2048-3071',
      'origin 3072-5119',
      'here 5120-6143',
      'origin 6144-6200',
    ]);
    expect(sums(explained)).toEqual([
      [2048, 0, 548 + 2048 + 57],
      [0, 0, 5],
    ]);
    expect(explained.plan.asked).toEqual(['bytes=1024-2047', 'bytes=3072-5119', 'bytes=6144-7167', 'bytes=9216-']);
  });

  it('is a hit where all its bytes are here', async () => {
    start();
    await present(ranged('bytes=2048-3000'));
    const explained = await proxy.explain(ranged('bytes=2100-2199'));
    expect(explained).toMatchObject({
      decision: { kind: 'hit', cacheStatus: 'rangeway; hit; ttl=60' },
      plan: { asked: [] },
    });
    expect(sums(explained)).toEqual([[100, 0, 0]]);
  });

  it('is a hit for HEAD, which reads no bytes', async () => {
    start();
    await present(ranged('bytes=2048-3000'));
    const explained = await proxy.explain({ method: 'HEAD', fields: { range: 'bytes=0-9' } });
    expect(explained).toMatchObject({
      decision: { kind: 'hit' },
      plan: { status: 200, range: { isObeyed: false, reason: 'method' }, spans: [] },
    });
  });

  it('is refused with only-if-cached, unless all its bytes are here', async () => {
    start();
    await present(ranged('bytes=2048-3000'));
    const onlyIfCached = { 'cache-control': 'only-if-cached' };
    expect(await proxy.explain(ranged('bytes=0-9', onlyIfCached))).toMatchObject({
      decision: { kind: 'refuse' },
      plan: { status: 504, spans: [] },
    });
    expect((await proxy.explain(ranged('bytes=2100-2199', onlyIfCached))).decision.kind).toBe('hit');
  });

  it('is explained with the validation of a stale response', async () => {
    start();
    await present(ranged('bytes=2048-3000'));
    proxy.clock.advance(120_000);
    const explained = await proxy.explain(ranged('bytes=2048-4000'));
    expect(explained).toMatchObject({
      decision: { kind: 'revalidate' },
      originQuestion: { fields: [['if-none-match', '"v1"']] },
    });
    expect(sums(explained)).toEqual([[1024, 0, 929]]);
  });

  it('is explained with the bytes that a running transfer brings, and those too far ahead of it', async () => {
    start();
    await present(ranged('bytes=0-9'));
    const reader = proxy.send(ranged('bytes=1024-9000'));
    const transfer = await origin.begin();
    await transfer.sendTo(3000);
    expect(await reader.status()).toBe(206);
    await reader.readUntil(1900);
    const explained = await proxy.explain(ranged('bytes=500-4000'));
    expect(explained).toMatchObject({
      decision: { kind: 'complete' },
      flights: [{ hasLanded: true, generation: 'generation-1', readers: 1, transfers: [{ at: 3000, end: 9216 }] }],
      plan: { asked: [] },
    });
    expect(runs(explained)).toEqual(['here 500-2047', 'in-flight 2048-4000']);
    const ahead = await proxy.explain(ranged('bytes=8000-8009'));
    expect(runs(ahead)).toEqual(['origin 8000-8009']);
    expect(ahead.plan.asked).toEqual(['bytes=7168-8191']);
    transfer.finish();
    await reader.bytes();
    await proxy.fillsEnded(2);
  });

  it('is explained with a request for the whole where the origin has no ranges', async () => {
    start();
    await present(ranged('bytes=2048-3000'));
    const { store } = proxy;
    await proxy.closeCache();
    start({ originRanges: 'never', createStore: () => store });
    const explained = await proxy.explain(ranged('bytes=1500-4000'));
    expect(runs(explained)).toEqual(['origin 1500-2047', 'here 2048-3071', 'origin 3072-4000']);
    expect(explained.plan.asked).toEqual(['whole']);
  });

  it('is not taken from an entry without a strong validator, which is explained as not usable', async () => {
    start();
    const entry = { key: 'http://origin.example/ http://files.example/file', variant: '' };
    const metadata = {
      status: 200,
      fields: [],
      nominated: [],
      identity: { digest: '', names: [] },
      requestAt: proxy.clock.now(),
      responseAt: proxy.clock.now(),
    };
    const writer = await proxy.store.openWriter({ ...entry, metadata, sizeBytes: size });
    await writer.writeBlock(1, patternBytes(1024, 2048));
    await writer.publish(metadata);
    await writer[Symbol.asyncDispose]();
    expect(await proxy.explain(ranged('bytes=1024-1030'))).toMatchObject({
      decision: { kind: 'fill', reason: 'vary-miss' },
      entries: [{ isComplete: false, isUsable: false, differs: [], isChosen: false }],
    });
  });
});

describe('a response that another request fetches', () => {
  it('is in flight where its length is known', async () => {
    start({ originRanges: 'never' }, { fields: { 'cache-control': 'max-age=60' } });
    const first = proxy.send();
    const transfer = await origin.begin();
    await transfer.sendTo(3000);
    await first.readUntil(3000);
    const explained = await proxy.explain(ranged('bytes=1000-4999'));
    expect(explained).toMatchObject({ decision: { kind: 'join' }, plan: { status: 206 } });
    expect(runs(explained)).toEqual(['here 1000-2047', 'in-flight 2048-4999']);
    transfer.finish();
    await first.bytes();
    await proxy.fillsEnded(1);
  });

  it('has no status yet for a range where its length is not known', async () => {
    start({ originRanges: 'never' });
    const first = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'max-age=60' } });
    await exchange.send(patternBytes(0, 3000));
    await first.readUntil(3000);
    const closed = await proxy.explain(ranged('bytes=1000-4999'));
    expect(closed.plan).not.toHaveProperty('status');
    expect(sums(closed)).toEqual([[1048, 2952, 0]]);
    const suffix = await proxy.explain(ranged('bytes=-100'));
    expect(suffix.plan).not.toHaveProperty('status');
    expect(suffix.plan.spans).toEqual([]);
    expect(suffix.chosen).not.toHaveProperty('sizeBytes');
    expect((await proxy.explain()).plan).toMatchObject({ status: 200, spans: [] });
    exchange.end();
    await first.bytes();
    await proxy.fillsEnded(1);
  });
});

describe('the response', () => {
  const modified = 'Wed, 01 Jan 2025 00:00:00 GMT';
  const file = { fields: { 'cache-control': 'max-age=60', etag: '"v1"', 'last-modified': modified }, hasRanges: false };
  it.each<[name: string, fields: Record<string, string>, want: object]>([
    ['no range', {}, { status: 200, spans: [{ start: 0, end: size, hereBytes: size }] }],
    [
      'one range',
      { range: 'bytes=5-9' },
      { status: 206, isMultipart: false, spans: [{ start: 5, end: 10, hereBytes: 5 }] },
    ],
    ['several ranges', { range: 'bytes=0-9,20-29' }, { status: 206, isMultipart: true, range: { isObeyed: true } }],
    [
      'several ranges that join',
      { range: 'bytes=0-9,5-29' },
      { status: 206, isMultipart: false, spans: [{ start: 0, end: 30 }] },
    ],
    ['a range past the end', { range: 'bytes=10000-' }, { status: 416, spans: [], range: { isObeyed: true } }],
    ['a malformed range', { range: 'bytes=9-5' }, { status: 200, range: { isObeyed: false, reason: 'malformed' } }],
    ['another range unit', { range: 'lines=0-5' }, { spans: [], range: { isObeyed: false, reason: 'unknown-unit' } }],
    [
      'too many ranges',
      { range: 'bytes=0-0,2-2,4-4,6-6' },
      { status: 200, range: { isObeyed: false, reason: 'too-many' } },
    ],
    ['an If-Range that holds', { range: 'bytes=5-9', 'if-range': '"v1"' }, { status: 206, conditions: ['if-range'] }],
    [
      'an If-Range that does not hold',
      { range: 'bytes=5-9', 'if-range': '"v0"' },
      { status: 200, range: { isObeyed: false, reason: 'if-range' }, outcome: 'proceed' },
    ],
    ['If-None-Match', { 'if-none-match': '"v1"' }, { status: 304, outcome: 'not-modified', spans: [] }],
    [
      'If-Modified-Since and a range',
      { 'if-modified-since': modified, range: 'bytes=5-9' },
      { status: 304, conditions: ['if-modified-since'], range: { isObeyed: false, reason: 'condition' } },
    ],
    ['an If-Match that fails', { 'if-match': '"v0"' }, { status: 412, outcome: 'precondition-failed', spans: [] }],
  ])('to a request with %s is explained', async (_name, fields, want) => {
    start({ route: { ranges: { maxRanges: 3, coalesceGapBytes: 0 } } }, file);
    await present({});
    expect((await proxy.explain({ fields })).plan).toMatchObject(want);
  });

  it('is the whole where the parts would cost more', async () => {
    start({ route: { ranges: { maxRanges: 1000, coalesceGapBytes: 0 } } }, file);
    await present({});
    const range = `bytes=${Array.from({ length: 200 }, (_, index) => `${index * 2}-${index * 2}`).join(',')}`;
    expect((await proxy.explain(ranged(range))).plan).toMatchObject({
      status: 200,
      isMultipart: false,
      range: { isObeyed: false, reason: 'costs-more-than-whole' },
    });
  });

  it('is a stored error, to which no range applies', async () => {
    start({ originRanges: 'never' });
    const client = proxy.send();
    (await proxy.origin.next()).respond(
      { status: 404, fields: { 'cache-control': 'max-age=60' } },
      patternBytes(0, 30),
    );
    await client.bytes();
    await proxy.fillsEnded(1);
    expect((await proxy.explain(ranged('bytes=0-9'))).plan).toMatchObject({
      status: 404,
      range: { isObeyed: false, reason: 'status' },
      spans: [{ start: 0, end: 30 }],
    });
  });

  it('is made from a fragment', async () => {
    start();
    const client = proxy.send(ranged('bytes=-100'));
    const part = { 'cache-control': 'max-age=60', 'content-range': `bytes 9900-9999/${size}` };
    (await proxy.origin.next()).respond({ status: 206, fields: part }, patternBytes(9900, size));
    await client.bytes();
    const explained = await proxy.explain(ranged('bytes=9950-9959'));
    expect(explained).toMatchObject({
      decision: { kind: 'hit', reason: 'fragment', cacheStatus: 'rangeway; hit; ttl=60' },
      entries: [{ isFragment: true, isChosen: true }],
      chosen: { fragment: { start: 9900, wholeBytes: size } },
      plan: { status: 206, range: { isObeyed: true }, spans: [{ start: 9950, end: 9960, hereBytes: 10 }] },
    });
    expect((await proxy.explain(ranged('bytes=-100'))).plan.spans).toMatchObject([{ start: 9900, end: size }]);
  });
});
