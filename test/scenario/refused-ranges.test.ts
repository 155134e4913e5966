/** Origins that refuse Range, that give parts only, or whose validators change from part to part. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createRangeOrigin,
  type RangeOrigin,
  retagged,
  type Twist,
  without,
  withSpan,
} from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';

const size = 10_000;
const forgetAfterMs = 600_000;
const key = (target: string) => `http://origin.example/ http://files.example${target}`;

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'auto', fill: { openRanges: 'grow', resumeAttempts: 1 } });
  origin = createRangeOrigin(proxy.origin);
});
afterEach(() => proxy.close());

const ask = (target: string, range?: string) => proxy.send({ target, fields: range === undefined ? {} : { range } });

const error =
  (status: number): Twist =>
  (honest) => ({ ...without(without(honest, 'etag'), 'content-range'), status, span: { start: 0, end: 0 } });

async function forget(target: string): Promise<void> {
  for (const entry of await proxy.store.find(key(target))) await proxy.store.removeEntry(entry);
}

describe('an origin that refuses Range', () => {
  it.each([400, 403, 405, 406, 500, 501])(
    'with %i is asked once without it, and for the whole from then on',
    async (status) => {
      origin.serve((honest) => (honest.status === 206 ? error(status)(honest) : honest));
      await expectPart(ask('/a', 'bytes=5000-5099'), 5000, 5100);
      expect(origin.asked).toEqual(['bytes=4096-5119', 'whole']);
      await proxy.fillsEnded(1);
      await forget('/a');
      await expectPart(ask('/a', 'bytes=5000-5099'), 5000, 5100);
      expect(origin.asked.slice(2)).toEqual(['whole']);
      expect((await proxy.explain({ target: '/b', fields: { range: 'bytes=0-9' } })).originQuestion?.fields).toEqual([
        ['range', 'bytes=0-1023'],
      ]);
      await proxy.fillsEnded(2);
      await forget('/a');
      proxy.clock.advance(forgetAfterMs);
      await expectPart(ask('/a', 'bytes=5000-5099'), 5000, 5100);
      expect(origin.asked.slice(3)).toEqual(['bytes=4096-5119', 'whole']);
    },
  );

  it.each([400, 403, 405, 406, 501])('with %i is asked for the whole where a transfer breaks off', async (status) => {
    const client = ask('/a');
    (await origin.begin()).cutAt(4000);
    await proxy.clock.whenPending(1);
    proxy.clock.advance(100);
    await origin.give(error(status));
    await origin.give();
    await expectWhole(client);
    expect(origin.asked).toEqual(['whole', 'bytes=4000- if "v1"', 'whole']);
  });

  it.each([400, 405, 412, 501])(
    'with If-Range by %i is asked for the whole, and its parts are not joined',
    async (status) => {
      origin.serve((honest) => (origin.asked.at(-1)?.includes(' if ') ? error(status)(honest) : honest));
      await expectPart(ask('/a', 'bytes=0-99'), 0, 100);
      await expectPart(ask('/a', 'bytes=5000-5099'), 5000, 5100);
      expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=4096-5119 if "v1"', 'whole']);
      await expectWhole(ask('/a'));
    },
  );

  it.each([403, 405, 500])(
    'and the whole with %i gives the error, and is not asked twice for each request',
    async (status) => {
      origin.serve(error(status));
      for (const _ of [1, 2, 3]) expect(await ask('/a', 'bytes=5000-5099').status()).toBe(status);
      expect(origin.asked.length).toBeLessThanOrEqual(4);
    },
  );

  it.each([404, 410, 401, 503])(
    'with %i means that there is nothing to be had, and is not asked again',
    async (status) => {
      origin.serve(error(status));
      expect(await ask('/a', 'bytes=5000-5099').status()).toBe(status);
      expect(origin.asked).toEqual(['bytes=4096-5119']);
    },
  );
});

describe('an origin that gives parts only', () => {
  const chunk = 3000;
  /** A part of at most 3000 bytes from the first one that was asked for, without a validator. */
  const likeTutorial =
    (whole: number): Twist =>
    (honest) => {
      const { start } = honest.span;
      if (honest.status !== 206)
        return whole === 206 ? without(withSpan(honest, { start: 0, end: chunk }, size), 'etag') : error(whole)(honest);
      return without(withSpan(honest, { start, end: Math.min(size, start + chunk) }, size), 'etag');
    };

  it.each([400, 403, 416])('and %i for the whole gives parts also where stored ones are stale', async (status) => {
    origin.serve((honest) => (honest.status === 206 ? honest : error(status)(honest)));
    await expectPart(ask('/video', 'bytes=0-99'), 0, 100);
    await expectPart(ask('/video', 'bytes=100-199'), 100, 200);
    expect(origin.asked).toEqual(['bytes=0-1023']);
    proxy.clock.advance(61_000);
    await expectPart(ask('/video', 'bytes=100-199'), 100, 200);
    await expectPart(ask('/video', 'bytes=5000-'), 5000, size);
    expect(origin.asked.slice(1)).toEqual(['whole', 'bytes=100-199', 'whole', 'bytes=5000-']);
  });

  it.each([400, 403, 416, 206])('and %i for the whole gets the range of a client as it is', async (status) => {
    origin.serve(likeTutorial(status));
    const first = ask('/video', 'bytes=0-');
    expect(await first.status()).toBe(206);
    expect((await first.bytes()).length).toBe(chunk);
    expect(origin.asked.at(-1)).toBe('bytes=0-');
    const before = origin.asked.length;
    for (const start of [3000, 6000]) {
      const next = ask('/video', `bytes=${start}-`);
      expect(await next.field('content-range')).toBe(`bytes ${start}-${start + chunk - 1}/${size}`);
    }
    expect(origin.asked.slice(before)).toEqual(['bytes=3000-', 'bytes=6000-']);
    expect(proxy.events.filter(({ kind }) => kind === 'origin')).toEqual([]);
    expect((await proxy.explain({ target: '/other', fields: { range: 'bytes=0-9' } })).originQuestion?.fields).toEqual([
      ['range', 'bytes=0-1023'],
    ]);
    expect((await proxy.explain({ target: '/video', fields: { range: 'bytes=0-9' } })).originQuestion?.fields).toEqual([
      ['range', 'bytes=0-9'],
    ]);
  });

  it('and reads the end of a range as a part of its start gets the open range as it is', async () => {
    // "bytes=0-" means 0, and "bytes=0-1023" means 1023.
    origin.serve((honest) => (honest.status === 200 ? error(400)(honest) : likeTutorial(400)(honest)));
    const client = ask('/video', 'bytes=0-');
    expect(await client.status()).toBe(206);
    expect(origin.asked).toEqual(['bytes=0-', 'whole', 'bytes=0-']);
  });

  it('gives its error to a client without a range', async () => {
    origin.serve(likeTutorial(400));
    expect(await ask('/video').status()).toBe(400);
  });

  it.each([400, 403])('and a lasting %i for the whole gives ranges also while that is stored', async (status) => {
    origin.serve((honest) => {
      const reply = likeTutorial(status)(honest);
      return { ...reply, fields: { ...reply.fields, 'cache-control': 'max-age=60' } };
    });
    for (const _ of [1, 2]) expect(await ask('/video').status()).toBe(status);
    expect(origin.asked).toEqual(['whole']);
    const client = ask('/video', 'bytes=500-');
    expect(await client.field('content-range')).toBe(`bytes 500-${500 + chunk - 1}/${size}`);
    expect(await client.field('cache-status')).toBe('rangeway; fwd=partial; fwd-status=206; detail=refused-whole');
    expect((await proxy.explain({ target: '/video', fields: { range: 'bytes=500-' } })).decision).toMatchObject({
      kind: 'pass',
      reason: 'refused-whole',
    });
    expect(await ask('/video').status()).toBe(status);
    expect(origin.asked).toEqual(['whole', 'bytes=500-']);
  });
});

describe('validators that change from part to part', () => {
  let parts = 0;
  const another: Twist = (honest) => retagged(honest, `"p${++parts}"`);

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

  it('do not cut an open download of an origin that has not shown that its parts can be joined', async () => {
    origin.serve((honest) => (honest.status === 206 ? another(honest) : honest));
    for (const target of ['/a', '/b', '/c']) await expectPart(ask(target, 'bytes=0-'), 0, size);
    expect(origin.asked).toEqual(['bytes=0-', 'bytes=0-', 'bytes=0-']);
  });

  it('are learnt of the URL after the first cut, and of the origin after the second', async () => {
    await joinParts();
    const ignoring: Twist = (honest) => withSpan(another(honest), { start: 1024, end: 2048 }, size);
    for (const target of ['/a', '/b']) {
      const cut = expect(ask(target, 'bytes=0-').bytes()).rejects.toMatchObject({ code: 'generation_changed' });
      await origin.give(another);
      await origin.give(ignoring);
      await cut;
      const again = ask(target, 'bytes=0-');
      await origin.give();
      await expectPart(again, 0, size);
      expect(origin.asked.at(-1)).toBe('whole');
    }
    const third = ask('/c', 'bytes=5000-5099');
    await origin.give();
    await expectPart(third, 5000, 5100);
    expect(origin.asked.at(-1)).toBe('whole');
  });

  it('by servers in turn that obey If-Range are learnt of the URL, and the origin is asked once for each open range', async () => {
    await joinParts();
    for (const target of ['/a', '/b']) {
      const cut = expect(ask(target, 'bytes=0-').bytes()).rejects.toMatchObject({ code: 'generation_changed' });
      await origin.give(another);
      await origin.give(another);
      await cut;
      expect(origin.asked.at(-1)).toMatch(/^bytes=1024-/);
    }
    const third = ask('/c', 'bytes=0-');
    await origin.give(another);
    await expectPart(third, 0, size);
    expect(origin.asked.at(-1)).toBe('bytes=0-');
  });
});
