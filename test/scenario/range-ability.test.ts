/** What responses of an origin show about its range support, and for how long that is remembered. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RangeMode } from '../../src/origin/range-ability.ts';
import {
  asWhole,
  createRangeOrigin,
  type RangeOrigin,
  retagged,
  type Twist,
  unsatisfied,
  withContentRange,
  without,
} from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
/** Milliseconds for which an origin that sent no part is not asked for parts. */
const forgetAfterMs = 600_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => open('auto'));
afterEach(() => proxy.close());

function open(mode: RangeMode): void {
  proxy = createWholeProxy({ originRanges: mode, fill: { resumeAttempts: 1 } });
  origin = createRangeOrigin(proxy.origin);
}

const originEvents = () => proxy.events.filter(({ kind }) => kind === 'origin');

let targets = 0;
/** Asks for bytes 5000-5099 of a file that was not asked for before. */
const sendCold = () => proxy.send({ target: `/${++targets}`, fields: { range: 'bytes=5000-5099' } });
const expectCold = (client: ReturnType<typeof sendCold>) => expectPart(client, 5000, 5100);

describe('an origin that is asked for a part', () => {
  it('and sends it is asked for parts of other files, too', async () => {
    for (let files = 0; files < 2; files += 1) {
      const client = sendCold();
      await origin.give();
      await expectCold(client);
    }
    expect(origin.asked).toEqual(['bytes=4096-5119', 'bytes=4096-5119']);
    expect(originEvents()).toEqual([]);
  });

  it('and sends the whole has it stored, and is asked for parts of other files, because that costs nothing', async () => {
    origin.file = { ...origin.file, hasRanges: false };
    for (let files = 0; files < 3; files += 1) {
      const client = sendCold();
      await origin.give();
      await expectCold(client);
    }
    expect(origin.asked).toEqual(Array(3).fill('bytes=4096-5119'));
    await proxy.fillsEnded(3);
    expect(proxy.fillEvents().map(({ result, bytes }) => [result, bytes])).toEqual(Array(3).fill(['stored', size]));
    expect(originEvents()).toEqual([]);
  });

  it('and sends the whole is not asked for parts of a file that is arriving, for a while', async () => {
    origin.file = { ...origin.file, hasRanges: false };
    const first = sendCold();
    await origin.give();
    await expectCold(first);
    await proxy.fillsEnded(1);
    for (const [wait, asked] of [
      [0, ['whole']],
      [forgetAfterMs - 1, ['whole']],
      [1, ['whole', 'bytes=9216- if "v1"']],
    ] as const) {
      proxy.clock.advance(wait);
      const before = origin.asked.length;
      const target = `/${++targets}`;
      const plain = proxy.send({ target });
      const whole = await origin.begin();
      expect(await plain.status()).toBe(200);
      const ahead = proxy.send({ target, fields: { range: 'bytes=9500-' } });
      const reading = ahead.bytes();
      if (asked.length > 1) (await origin.begin()).finish();
      whole.finish();
      await expectWhole(plain);
      await reading;
      expect(origin.asked.slice(before)).toEqual(asked);
    }
  });

  it.each<[RangeMode, boolean, readonly string[]]>([
    ['never', true, ['whole', 'whole']],
    ['never', false, ['whole', 'whole']],
    ['always', true, ['bytes=4096-5119', 'bytes=4096-5119']],
    ['auto', false, ['bytes=4096-5119', 'bytes=4096-5119']],
  ])('under `%s`, where having ranges is %s, is asked for %s', async (mode, hasRanges, asked) => {
    await proxy.close();
    open(mode);
    origin.file = { ...origin.file, hasRanges };
    for (const _ of asked) {
      const client = sendCold();
      await origin.give();
      await expectCold(client);
    }
    expect(origin.asked).toEqual(asked);
  });

  it('under `always` is asked for parts, however often it sends the whole', async () => {
    await proxy.close();
    open('always');
    origin.file = { ...origin.file, hasRanges: false };
    origin.serve();
    for (let files = 0; files < 3; files += 1) await expectCold(sendCold());
    expect(origin.asked.filter((asked) => asked === 'bytes=4096-5119')).toHaveLength(3);
    expect(origin.asked).not.toContain('whole');
  });

  it('under `never` is not asked for the missing bytes of a broken transfer either', async () => {
    await proxy.close();
    open('never');
    const client = proxy.send();
    (await origin.begin()).cutAt(5000);
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['whole', 'whole']);
  });
});

describe('a 206 that cannot be combined with other parts', () => {
  it.each<[string, Twist]>([
    ['has a weak entity tag', (honest) => retagged(honest, 'W/"v1"')],
    ['has no validator', (honest) => without(honest, 'etag')],
    ['does not state the length of the whole', (honest) => withContentRange(honest, '4096-5119/*')],
  ])('because it %s is no lie: the whole is fetched and stored', async (_name, twist) => {
    const client = sendCold();
    await origin.give(twist);
    await origin.give((honest) => without(twist(honest), 'content-range'));
    await expectCold(client);
    expect(origin.asked).toEqual(['bytes=4096-5119', 'whole']);
    expect(originEvents()).toEqual([]);
    for (let files = 0; files < 2; files += 1) {
      const other = sendCold();
      await origin.give(twist);
      await origin.give((honest) => without(twist(honest), 'content-range'));
      await expectCold(other);
    }
    const next = sendCold();
    await origin.give();
    await expectCold(next);
    expect(origin.asked.at(-1)).toBe('whole');
  });
});

describe('a URL that is distrusted', () => {
  it('is reported again after a while', async () => {
    const lie: Twist = (honest) => unsatisfied(honest, size);
    for (const [twist, count] of [
      [lie, 1],
      [undefined, 1],
      [lie, 2],
    ] as const) {
      proxy.clock.advance(forgetAfterMs);
      const client = sendCold();
      await origin.give(twist);
      if (twist !== undefined) await origin.give();
      await expectCold(client);
      expect(originEvents()).toHaveLength(count);
    }
  });
});

describe('an origin that flaps between 200 and 206', () => {
  it('gives every client the right bytes, and is not distrusted', async () => {
    let requests = 0;
    origin.serve((honest) => (++requests % 2 === 0 ? asWhole(honest, size) : honest));
    for (let turns = 0; turns < 30; turns += 1) {
      proxy.clock.advance(forgetAfterMs);
      const start = (turns * 1733) % 9000;
      const client = proxy.send({ target: `/${turns % 3}`, fields: { range: `bytes=${start}-${start + 500}` } });
      await expectPart(client, start, start + 501);
    }
    expect(originEvents()).toEqual([]);
  });
});
