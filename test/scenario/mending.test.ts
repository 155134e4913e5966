/** Damaged blocks on disk, found while a client reads a complete entry. */

import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type NewEntry, type Store, StoreFault } from '../../src/store/store.ts';
import { asWhole, createRangeOrigin, retagged, type Twist } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { flipBit } from '../support/stores/damage.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { expectPart, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const blockSizeBytes = 16 * 1024;
const sizeBytes = 20 * blockSizeBytes;

let proxy: WholeProxy;
/** Whether the store finds nothing and takes nothing, as one whose engine was killed. */
let isAway: boolean;
afterEach(() => proxy.close());

/** Returns a store whose calls go to another one. */
function bound(store: Store): Store {
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

/** Stores a complete file, and flips a bit in each of these blocks. Returns the origin. */
async function damaged(blocks: readonly number[], twist?: Twist) {
  const { store, dir } = await openTestStore({ blockSizeBytes });
  isAway = false;
  const unlessAway = <T>(step: () => Promise<T>) => (isAway ? Promise.reject(new StoreFault('io', 'away')) : step());
  const leaving: Store = Object.assign(Object.create(bound(store)) as Store, {
    peek: (key: string) => (isAway ? [] : store.peek(key)),
    find: async (key: string) => (isAway ? [] : await store.find(key)),
    openWriter: (entry: NewEntry) => unlessAway(() => store.openWriter(entry)),
    close: () => store.close(),
  });
  proxy = createWholeProxy({ originRanges: 'auto', createStore: () => leaving, blockSizeBytes });
  const origin = createRangeOrigin(proxy.origin, { sizeBytes });
  const first = proxy.send();
  await origin.give(twist);
  await expectWhole(first, { sizeBytes });
  await proxy.fillsEnded(1);
  const files = await readdir(dir, { recursive: true });
  const body = files.find((file) => file.endsWith('.body')) ?? expect.fail('there is no body');
  for (const block of blocks) await flipBit(join(dir, body), block * blockSizeBytes + 100);
  origin.serve(twist);
  return origin;
}

it.each([
  ['in the middle', [7]],
  ['at the end', [19]],
  ['in several places', [3, 4, 11]],
])('damaged blocks alone are fetched again, unnoticed by the client: %s', async (_where, blocks) => {
  const origin = await damaged(blocks);
  await expectWhole(proxy.send(), { sizeBytes });
  const spans = origin.asked.slice(1);
  expect(spans.join()).toMatch(/^(bytes=\d+-\d* if "v1",?)+$/);
  const fetched = () =>
    proxy
      .fillEvents()
      .slice(1)
      .reduce((sum, { bytes }) => sum + bytes, 0);
  await expect.poll(fetched).toBe(blocks.length * blockSizeBytes);
  const requests = origin.asked.length;
  await expectWhole(proxy.send(), { sizeBytes });
  expect(origin.asked).toHaveLength(requests);
});

it('damaged blocks are fetched again for a range that reaches into them', async () => {
  await damaged([7]);
  const start = 6 * blockSizeBytes + 5;
  const client = proxy.send({ fields: { range: `bytes=${start}-${start + 30_000}` } });
  await expectPart(client, start, start + 30_001, { sizeBytes });
});

it('damaged blocks are found at once where the whole must be verified and fetched: at most two clients are cut off', async () => {
  const digest = createHash('sha256').update(patternBytes(0, sizeBytes)).digest('base64');
  const stated: Twist = (honest) => ({ ...honest, fields: { ...honest.fields, 'repr-digest': `sha-256=:${digest}:` } });
  const asLegacy: Twist = (honest) => stated(asWhole(honest, sizeBytes));
  const origin = await damaged([0, 3, 4, 8, 12, 15, 19], asLegacy);
  let isGiven = false;
  for (let clients = 0; clients < 3 && !isGiven; clients += 1) {
    const bytes = await proxy
      .send()
      .bytes()
      .catch(() => undefined);
    isGiven = bytes !== undefined && Buffer.compare(bytes, patternBytes(0, sizeBytes)) === 0;
  }
  expect(isGiven).toBe(true);
  expect(origin.asked.length).toBeLessThanOrEqual(4);
});

it.each([
  ['has ranges', undefined],
  ['has no ranges', (honest: Parameters<Twist>[0]) => asWhole(honest, sizeBytes)],
])('blocks that are lost together with the store come from an origin that %s', async (_what, twist) => {
  const origin = await damaged([7], twist);
  const client = proxy.send();
  expect(await client.status()).toBe(200);
  isAway = true;
  await expectWhole(client, { sizeBytes });
  expect(origin.asked.length).toBeLessThanOrEqual(3);
});

it('damaged blocks cut off the response where there is no strong validator', async () => {
  await damaged([7], (honest) => retagged(honest, 'W/"v1"'));
  const client = proxy.send();
  expect(await client.status()).toBe(200);
  await expect(client.bytes()).rejects.toMatchObject({ code: 'bytes_gone' });
});

it('damaged blocks cut off a response to only-if-cached, and the origin is not asked', async () => {
  const origin = await damaged([7]);
  const asked = origin.asked.length;
  const client = proxy.send({ fields: { 'cache-control': 'only-if-cached' } });
  expect(await client.status()).toBe(200);
  await expect(client.bytes()).rejects.toMatchObject({ code: 'bytes_gone' });
  expect(origin.asked).toHaveLength(asked);
});
