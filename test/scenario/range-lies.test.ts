/**
 * An origin that lies about ranges: clients get the right bytes or are cut off. The URL counts as having no ranges, and the origin
 * does after lies at several paths.
 */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { settled } from '../support/clients/conversation.ts';
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
} from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
/** Milliseconds for which a distrusted origin is not asked for parts. */
const forgetAfterMs = 600_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', fill: { resumeAttempts: 1 } });
  origin = createRangeOrigin(proxy.origin);
});
afterEach(() => proxy.close());

const originEvents = () => proxy.events.flatMap((event) => (event.kind === 'origin' ? [event] : []));

let targets = 0;
/** Asks for bytes 5000-5099 of a file that was not asked for before. */
const sendCold = () => proxy.send({ target: `/${++targets}`, fields: { range: 'bytes=5000-5099' } });
const expectCold = (client: ReturnType<typeof sendCold>) => expectPart(client, 5000, 5100);

/** Answers as if another range had been asked for. */
const elsewhere =
  (start: number, end: number): Twist =>
  (honest) =>
    honest.status === 206 ? withSpan(honest, { start, end }, size) : honest;

/** Sends a part that ends 100 bytes before its Content-Range does. Its Content-Length is that of the bytes sent. */
const shorterThanStated: Twist = (honest) =>
  honest.status === 206 ? { ...honest, span: { start: honest.span.start, end: honest.span.end - 100 } } : honest;
const shorterInChunks: Twist = (honest) => ({ ...shorterThanStated(honest), isChunked: true });

/** Removes what is stored of the last file that `sendCold` asked for. */
async function forget(): Promise<void> {
  for (const entry of await proxy.store.find(`http://origin.example/ http://files.example/${targets}`))
    await proxy.store.removeEntry(entry);
}

/** Wrong answers to the first Range of a file, and whether bytes prove the lie. */
const firstLies: [string, Twist, boolean][] = [
  ['a 206 without Content-Range', (honest) => without(honest, 'content-range'), false],
  ['a 206 with an impossible Content-Range', (honest) => withContentRange(honest, `4096-5119/5000`), false],
  ['a 206 whose first byte comes after its last', (honest) => withContentRange(honest, `5119-4096/${size}`), false],
  [
    'a 206 in another unit',
    (honest) => ({ ...honest, fields: { ...honest.fields, 'content-range': 'lines 1-2/3' } }),
    false,
  ],
  ['a 206 of less than a block', elsewhere(4096, 4999), false],
  ['a 206 of a few bytes elsewhere', elsewhere(0, 10), true],
  ['a 206 of a block elsewhere', elsewhere(0, 1024), true],
  ['a 206 that begins later and ends later', elsewhere(5000, 8000), true],
  ['a 206 that begins earlier and ends later', elsewhere(4000, 6000), true],
  ['a 206 with fewer bytes than its Content-Range, by its length', shorterThanStated, true],
  ['a 416 without a length', (honest) => without(unsatisfied(honest, size), 'content-range'), false],
  ['a 416 with a length that holds the range', (honest) => unsatisfied(honest, size), false],
];

describe('an origin that answers the first Range with', () => {
  it('a 206 that turns out to have fewer bytes than its Content-Range is asked for the whole', async () => {
    const client = sendCold();
    await origin.give(shorterInChunks);
    await origin.give();
    await expectCold(client);
    await proxy.fillsEnded(1);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'whole']);
    expect(originEvents()).toHaveLength(1);
    await expectWhole(proxy.send({ target: `/${targets}` }));
    expect(origin.asked).toHaveLength(2);
  });

  it.each(firstLies)(
    '%s is not asked for parts of that URL for a while, and is reported once',
    async (_name, twist) => {
      const client = sendCold();
      await origin.give(twist);
      await origin.give();
      await expectCold(client);
      expect(origin.asked).toEqual(['bytes=4096-5119', 'whole']);
      await proxy.fillsEnded(1);
      await forget();
      const next = proxy.send({ target: `/${targets}`, fields: { range: 'bytes=5000-5099' } });
      await origin.give();
      await expectCold(next);
      expect(origin.asked.at(-1)).toBe('whole');
      expect(originEvents()).toHaveLength(1);

      await proxy.fillsEnded(2);
      await forget();
      proxy.clock.advance(forgetAfterMs);
      const again = proxy.send({ target: `/${targets}`, fields: { range: 'bytes=5000-5099' } });
      await origin.give();
      await expectCold(again);
      expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
    },
  );

  it.each(firstLies)(
    '%s is asked for parts of other files, until bytes have proven lies at three paths: %s',
    async (_name, twist, isProven) => {
      for (let paths = 1; paths <= 3; paths += 1) {
        const client = sendCold();
        await origin.give(twist);
        await origin.give();
        await expectCold(client);
        expect(origin.asked.slice(-2)).toEqual(['bytes=4096-5119', 'whole']);
      }
      expect(originEvents().map(({ message }) => message)).toEqual(
        isProven ? ['url distrusted', 'origin distrusted'] : ['url distrusted'],
      );
      const next = sendCold();
      await origin.give();
      await expectCold(next);
      expect(origin.asked.at(-1)).toBe(isProven ? 'whole' : 'bytes=4096-5119');
    },
  );
});

/** Wrong answers to a Range with If-Range, for a file whose length and validator are known. */
const laterLies: [string, Twist][] = [
  ['a 206 of other bytes', elsewhere(0, 1024)],
  ['a 206 that begins earlier', elsewhere(1024, 3072)],
  ['a 206 that begins later', elsewhere(2060, 4096)],
  ['a 206 with fewer bytes than its Content-Range, by its length', shorterThanStated],
  ['a 206 with fewer bytes than its Content-Range, by its last chunk', shorterInChunks],
  ['a 206 without Content-Range', (honest) => without(honest, 'content-range')],
  ['a 206 of another length', (honest) => withContentRange(honest, `2048-3071/${size + 1}`)],
  ['a 206 without a length', (honest) => withContentRange(honest, '2048-3071/*')],
  ['a 206 without a validator', (honest) => without(honest, 'etag')],
  ['a 206 with a weak form of the validator', (honest) => retagged(honest, 'W/"v1"')],
  ['a 416', (honest) => unsatisfied(honest, size)],
];

describe('an origin that has sent a part and answers the next Range with', () => {
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
    expect(originEvents()).toHaveLength(1);
    await proxy.fillsEnded(2);
    const { requests } = proxy.origin;
    await expectWhole(proxy.send());
    expect(proxy.origin.requests).toBe(requests);
  });

  it('the whole of the same version is trusted, and the whole is stored', async () => {
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
    expect(originEvents()).toEqual([]);
    const next = sendCold();
    await origin.give();
    await expectCold(next);
    expect(origin.asked.at(-1)).toBe('bytes=4096-5119');
  });

  it('fewer bytes than requested is asked for the rest', async () => {
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

describe('the end of an absent file, answered with a part', () => {
  it.each<[string, Twist]>([
    ['elsewhere', elsewhere(0, 500)],
    ['that is shorter than its Content-Range', shorterThanStated],
  ])('%s: the part is not passed on, and not stored', async (_name, twist) => {
    const client = proxy.send({ fields: { range: 'bytes=-500' } });
    await origin.give(twist);
    await origin.give();
    await expectPart(client, 9500, size);
    expect(origin.asked).toEqual(['bytes=-500', 'whole']);
    expect(originEvents()).toHaveLength(1);
  });
});

describe('parts from an origin that is found to lie later', () => {
  const wrong: Twist = (honest) => ({ ...honest, seed: 7 });
  const lie = elsewhere(0, 1024);

  /** Stores bytes 0-1023, right ones or wrong ones. */
  async function storePart(target: string, twist?: Twist): Promise<void> {
    const { length } = proxy.fillEvents();
    const client = proxy.send({ target, fields: { range: 'bytes=0-99' } });
    await origin.give(twist);
    await expectPart(client, 0, 100, { seed: twist === undefined ? 0 : 7 });
    await proxy.fillsEnded(length + 1);
  }

  it('are not served before the whole has shown that they are right', async () => {
    await storePart('/a');
    const lied = proxy.send({ target: '/a', fields: { range: 'bytes=2100-2199' } });
    await origin.give(lie);
    const whole = await origin.begin();
    const early = proxy.send({ target: '/a', fields: { range: 'bytes=0-99' } });
    let isGiven = false;
    const reading = early.bytes().then((bytes) => {
      isGiven = true;
      return Buffer.from(bytes);
    });
    await settled();
    expect(isGiven).toBe(false);
    whole.finish();
    expect(await reading).toEqual(Buffer.from(patternBytes(0, 100)));
    await expectPart(lied, 2100, 2200);
    await proxy.fillsEnded(2);
    await expectWhole(proxy.send({ target: '/a' }));
    expect(origin.asked).toHaveLength(3);
  });

  it('are removed where the whole shows that they are wrong', async () => {
    await storePart('/a', wrong);
    const lied = proxy.send({ target: '/a', fields: { range: 'bytes=2100-2199' } });
    await origin.give(lie);
    origin.serve();
    await expectPart(lied, 2100, 2200);
    await expectPart(proxy.send({ target: '/a', fields: { range: 'bytes=0-99' } }), 0, 100);
    await expectWhole(proxy.send({ target: '/a' }));
  });

  it('of other files are compared, too, once it has lied at three paths and the file is fetched whole', async () => {
    await storePart('/a', wrong);
    for (let lies = 0; lies < 3; lies += 1) {
      const lied = sendCold();
      await origin.give(lie);
      await origin.give();
      await expectCold(lied);
    }
    origin.serve();
    await expectPart(proxy.send({ target: '/a', fields: { range: 'bytes=2100-2199' } }), 2100, 2200);
    await expectPart(proxy.send({ target: '/a', fields: { range: 'bytes=0-99' } }), 0, 100);
    await expectWhole(proxy.send({ target: '/a' }));
  });

  it('are forgotten where the whole does not arrive', async () => {
    await proxy.close();
    proxy = createWholeProxy({ originRanges: 'auto', fill: { onAbort: 'stop' } });
    origin = createRangeOrigin(proxy.origin);
    await storePart('/a');
    const lied = proxy.send({ target: '/a', fields: { range: 'bytes=2100-2199' } });
    await origin.give(lie);
    const whole = await origin.begin();
    await whole.sendTo(500);
    await lied.leave();
    await proxy.fillsEnded(2);
    const next = proxy.send({ target: '/a', fields: { range: 'bytes=0-99' } });
    await origin.give();
    await expectPart(next, 0, 100);
    expect(origin.asked.at(-1)).toBe('whole');
  });

  it('have a client cut off that has got wrong ones', async () => {
    const client = proxy.send({ target: '/a', fields: { range: 'bytes=100-6000' } });
    await origin.give((honest) => ({ ...elsewhere(0, 2048)(honest), seed: 7 }));
    await client.readUntil(1000);
    const reading = expect(client.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
    await origin.give(lie);
    origin.serve();
    await reading;
    await expectPart(proxy.send({ target: '/a', fields: { range: 'bytes=100-6000' } }), 100, 6001);
  });

  it('do not have a client cut off that has got right ones', async () => {
    const client = proxy.send({ target: '/a', fields: { range: 'bytes=100-6000' } });
    await origin.give(elsewhere(0, 2048));
    await client.readUntil(1000);
    const reading = client.bytes();
    await origin.give(shorterInChunks);
    await origin.give();
    await reading;
    await expectPart(client, 100, 6001);
    expect(origin.asked.at(-1)).toBe('whole');
  });
});

describe('a length of the whole that turns out to be wrong', () => {
  it.each([true, false])('cuts off its client, once (length stated by the whole: %s)', async (isSized) => {
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

describe('a 206 with more bytes than its Content-Range states', () => {
  it('is used up to the stated end, and the rest is requested', async () => {
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

describe('a range that a real server answers badly', () => {
  const emptySpan = { start: 0, end: 0 };
  /** Caddy and other servers in Go take a suffix of no bytes for a range of no bytes. */
  const likeGo: Twist = (honest) => ({
    ...withContentRange(honest, `${size}-${size - 1}/${size}`),
    status: 206,
    span: emptySpan,
  });
  const likeSpring: Twist = (honest) => ({ ...without(honest, 'content-range'), status: 416, span: emptySpan });
  /** The end of the part that it states is the end that was asked for, though the file is shorter. */
  const echoesEnd: Twist = (honest) =>
    honest.status === 206 ? withContentRange(honest, `${honest.span.start}-${10_239}/${size}`) : honest;

  it.each<[string, Twist, number]>([
    ['bytes=-0', likeGo, 416],
    [`bytes=${size}-`, likeSpring, 416],
    [`bytes=${size}-`, (honest) => unsatisfied(honest, size), 416],
    [`bytes=${size + 5000}-`, likeSpring, 416],
    ['bytes=9500-9999', echoesEnd, 206],
    [`bytes=9500-${size + 5000}`, likeSpring, 206],
  ])('%s: %o, and the origin is still asked for parts of other files', async (range, twist, status) => {
    const first = sendCold();
    await origin.give();
    await expectCold(first);
    origin.serve((honest) => (honest.status === 200 ? honest : twist(honest)));
    for (let files = 0; files < 4; files += 1) {
      targets += 1;
      expect(await proxy.send({ target: `/${targets}`, fields: { range } }).status()).toBe(status);
    }
    await expectCold(sendCold());
    expect(origin.asked).toContain('bytes=4096-5119');
    expect(origin.asked.filter((asked) => asked === 'bytes=4096-5119')).toHaveLength(2);
  });

  it.each(['bytes=0-', 'bytes=0-99', 'bytes=-100', 'bytes=-0'])('%s of an empty file says nothing', async (range) => {
    origin.file = { ...origin.file, sizeBytes: 0 };
    origin.serve((honest) => (honest.status === 200 ? honest : unsatisfied(honest, 0)));
    for (let files = 0; files < 4; files += 1) {
      targets += 1;
      await proxy.send({ target: `/${targets}`, fields: { range } }).status();
    }
    expect(originEvents()).toEqual([]);
    origin.file = { ...origin.file, sizeBytes: size };
    expect(
      (await proxy.explain({ target: '/x', fields: { range: 'bytes=5000-5099' } })).originQuestion?.fields,
    ).toEqual([['range', 'bytes=4096-5119']]);
  });
});
