/** An origin that lies about ranges: its clients get the right bytes or are cut, and it is treated as having none. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectPart, expectWhole } from '../support/expect-bytes.ts';
import { patternBytes } from '../support/pattern-body.ts';
import {
  asWhole,
  createRangeOrigin,
  type RangeOrigin,
  retagged,
  type Twist,
  unsatisfied,
  withContentRange,
  without,
  withSpan,
} from '../support/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/whole-proxy.ts';

const size = 10_000;
/** How long an origin that has disappointed is not asked for parts. */
const forgetAfterMs = 600_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', fill: { resumeAttempts: 1 } });
  origin = createRangeOrigin(proxy.origin);
});
afterEach(() => proxy.close());

const told = () => proxy.events.filter(({ kind }) => kind === 'origin');

let targets = 0;
/** Asks for bytes 5000-5099 of a file that was never asked for. */
const sendCold = () => proxy.send({ target: `/${++targets}`, fields: { range: 'bytes=5000-5099' } });
const expectCold = (client: ReturnType<typeof sendCold>) => expectPart(client, 5000, 5100);

/** As it would be if another range had been asked for. */
const elsewhere =
  (start: number, end: number): Twist =>
  (honest) =>
    honest.status === 206 ? withSpan(honest, { start, end }, size) : honest;

/** What answers a first Range, for which no bytes are known yet. */
const firstLies: [string, Twist][] = [
  ['a 206 without Content-Range', (honest) => without(honest, 'content-range')],
  ['a 206 with a Content-Range that cannot be', (honest) => withContentRange(honest, `4096-5119/5000`)],
  ['a 206 that is turned round', (honest) => withContentRange(honest, `5119-4096/${size}`)],
  ['a 206 in another unit', (honest) => ({ ...honest, fields: { ...honest.fields, 'content-range': 'lines 1-2/3' } })],
  ['a 206 of less than a block', elsewhere(4096, 4999)],
  ['a 206 of a few bytes elsewhere', elsewhere(0, 10)],
  ['a 416 without a length', (honest) => without(unsatisfied(honest, size), 'content-range')],
  ['a 416 with a length that holds the range', (honest) => unsatisfied(honest, size)],
];

describe('an origin that answers the first Range by', () => {
  it.each(firstLies)('%s is treated as having none, and that is told once', async (_name, twist) => {
    const client = sendCold();
    await origin.give(twist);
    await origin.give();
    await expectCold(client);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'whole']);
    expect(told()).toHaveLength(1);
    const next = sendCold();
    await origin.give();
    await expectCold(next);
    expect(origin.asked.at(-1)).toBe('whole');

    proxy.clock.advance(forgetAfterMs);
    const again = sendCold();
    await origin.give(twist);
    await origin.give();
    await expectCold(again);
    expect(origin.asked.slice(3)).toEqual(['bytes=4096-5119', 'whole']);
    expect(told()).toHaveLength(1);
  });

  it('a block elsewhere is not believed at the second attempt', async () => {
    const client = sendCold();
    await origin.give(elsewhere(0, 1024));
    await origin.give(elsewhere(0, 1024));
    await origin.give();
    await expectCold(client);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'bytes=4096-5119 if "v1"', 'whole']);
    expect(told()).toHaveLength(1);
  });

  it('bytes around what was asked for is believed, they are good ones', async () => {
    const client = sendCold();
    await origin.give(elsewhere(4000, 6000));
    await expectCold(client);
    expect(origin.asked).toEqual(['bytes=4096-5119']);
    expect(told()).toEqual([]);
  });
});

/** What answers a Range with If-Range, of a file whose length and validator are known. */
const laterLies: [string, Twist][] = [
  ['a 206 of other bytes', elsewhere(0, 1024)],
  ['a 206 without Content-Range', (honest) => without(honest, 'content-range')],
  ['a 206 of another length', (honest) => withContentRange(honest, `2048-3071/${size + 1}`)],
  ['a 206 without a length', (honest) => withContentRange(honest, '2048-3071/*')],
  ['a 206 without a validator', (honest) => without(honest, 'etag')],
  ['a 206 with a weak form of the validator', (honest) => retagged(honest, 'W/"v1"')],
  ['a 416', (honest) => unsatisfied(honest, size)],
];

describe('an origin that has sent a part and answers the next one by', () => {
  it.each(laterLies)('%s is asked for the whole, and distrusted', async (_name, twist) => {
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await expectPart(first, 0, 100);
    await proxy.fillsEnded(1);
    const client = proxy.send({ fields: { range: 'bytes=2100-2199' } });
    await origin.give(twist);
    await origin.give();
    await expectPart(client, 2100, 2200);
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=2048-3071 if "v1"', 'whole']);
    expect(told()).toHaveLength(1);
    await proxy.fillsEnded(2);
    const { requests } = proxy.origin;
    await expectWhole(proxy.send());
    expect(proxy.origin.requests).toBe(requests);
  });

  it('the whole of the same version is taken at its word: the whole is stored', async () => {
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await expectPart(first, 0, 100);
    await proxy.fillsEnded(1);
    const client = proxy.send({ fields: { range: 'bytes=2100-2199' } });
    await origin.give((honest) => asWhole(honest, size));
    await expectPart(client, 2100, 2200);
    await proxy.fillsEnded(2);
    await expectWhole(proxy.send());
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=2048-3071 if "v1"']);
    expect(told()).toEqual([]);
    const next = sendCold();
    await origin.give();
    await expectCold(next);
    expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
  });

  it('fewer bytes than asked for is asked for the others', async () => {
    const client = proxy.send({ fields: { range: 'bytes=0-9' } });
    await origin.give();
    await expectPart(client, 0, 10);
    await proxy.fillsEnded(1);
    const long = proxy.send({ fields: { range: 'bytes=1024-6000' } });
    const reading = long.bytes();
    await origin.give(elsewhere(1024, 2500));
    await origin.give();
    await reading;
    await expectPart(long, 1024, 6001);
    expect(origin.asked.slice(1)).toEqual(['bytes=1024-6143 if "v1"', 'bytes=2500-6143 if "v1"']);
  });
});

describe('a length of the whole that turns out to be wrong', () => {
  it.each([true, false])('cuts who was told it, once (length stated by the whole: %s)', async (isSized) => {
    origin.file = { ...origin.file, sizeBytes: size + 1 };
    const first = proxy.send({ fields: { range: 'bytes=0-99' } });
    await origin.give();
    await expectPart(first, 0, 100, { sizeBytes: size + 1 });
    await proxy.fillsEnded(1);
    origin.file = { ...origin.file, sizeBytes: size };
    const client = proxy.send();
    const reading = expect(client.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
    await origin.give();
    const whole = await proxy.origin.next();
    const { fields } = origin.file;
    whole.head({ fields: isSized ? { ...fields, 'content-length': String(size) } : fields });
    void whole.send(patternBytes(0, size));
    whole.end();
    await reading;
    await proxy.fillsEnded(2);
    const next = proxy.send();
    await origin.give();
    await expectWhole(next);
  });
});

describe('a 206 with more bytes than its Content-Range tells', () => {
  it('is used as far as it tells, and the others are asked for', async () => {
    const first = proxy.send({ fields: { range: 'bytes=0-9' } });
    await origin.give();
    await expectPart(first, 0, 10);
    await proxy.fillsEnded(1);
    const client = proxy.send({ fields: { range: 'bytes=2048-' } });
    const reading = client.bytes();
    const exchange = await proxy.origin.next();
    const fields = { ...origin.file.fields, 'content-range': `bytes 2048-4499/${size}` };
    exchange.head({ status: 206, fields });
    void exchange.send(patternBytes(2048, 4000));
    void exchange.send(Buffer.concat([patternBytes(4000, 4500), patternBytes(4500, 6000, 2)]));
    exchange.end();
    await origin.give();
    await reading;
    await expectPart(client, 2048, size);
    expect(origin.asked.at(-1)).toBe('bytes=4500- if "v1"');
  });
});

describe('an unasked 206', () => {
  it('is an error, and such an origin is distrusted', async () => {
    const client = proxy.send();
    await origin.give((honest) => withSpan(honest, { start: 0, end: 1024 }, size));
    expect(await client.status()).toBe(502);
    expect(told()).toHaveLength(1);
    const next = sendCold();
    await origin.give();
    await expectCold(next);
    expect(origin.asked.at(-1)).toBe('whole');
  });
});
