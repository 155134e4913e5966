/** Misses of a block or less: sent at once where they have arrived, and byte by byte where they have not. */

import { afterEach, expect, it, vi } from 'vitest';
import { namesOfResource } from '../../src/routing/cache-key.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { selectedWire } from '../support/wire/wire.ts';

const blockSizeBytes = 1024;
const place = { authority: 'files.example', target: '/file' };

const keys = () => namesOfResource(place, [proxy.route]).keys;
const stored = async () => (await Promise.all(keys().map((key) => proxy.store.find(key)))).flat();
const fields = { 'cache-control': 'max-age=60', etag: '"v1"' };

let proxy: WholeProxy;
afterEach(() => proxy.close());

async function ask(sizeBytes: number, more: Readonly<Record<string, string>> = {}) {
  proxy = createWholeProxy({ blockSizeBytes });
  const client = proxy.send();
  const exchange = await proxy.origin.next();
  exchange.head({ fields: { ...fields, ...more, 'content-length': String(sizeBytes) } });
  return { client, exchange, bytes: patternBytes(0, sizeBytes) };
}

/** Expects that the next request gets a body of nine bytes from the origin; waits until so many fills have ended. */
async function expectMiss(fillCount: number): Promise<void> {
  const client = proxy.send();
  const exchange = await proxy.origin.next();
  exchange.head({ fields: { ...fields, 'content-length': '9' } });
  void exchange.send(patternBytes(0, 9));
  exchange.end();
  expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, 9)));
  await proxy.fillsEnded(fillCount);
}

/** Empty over a wire, where one piece cannot be told from two. */
const givenAtOnce = selectedWire() === undefined ? [1, 1023, 1024] : [];

it.each(givenAtOnce)(
  'a body of %i bytes that arrives with its head, in two pieces, is sent at once',
  async (sizeBytes) => {
    const { client, exchange, bytes } = await ask(sizeBytes);
    void exchange.send(bytes.subarray(0, 1));
    void exchange.send(bytes.subarray(1));
    exchange.end();
    const { body } = await client.response;
    expect(body).toMatchObject({ kind: 'bytes', sizeBytes });
    expect(body.kind === 'bytes' && Buffer.concat(body.chunks)).toEqual(Buffer.from(bytes));
  },
);

it('a slow small body is sent byte by byte', async () => {
  const { client, exchange, bytes } = await ask(10);
  expect(await client.status()).toBe(200);
  for (let count = 1; count <= 10; count += 1) {
    void exchange.send(bytes.subarray(count - 1, count));
    expect(await client.readUntil(count)).toEqual(Buffer.from(bytes.subarray(0, count)));
  }
  exchange.end();
  expect(await client.bytes()).toEqual(Buffer.from(bytes));
});

it('a small body that breaks off at once is answered with an error, and is not stored', async () => {
  const { client, exchange, bytes } = await ask(10);
  void exchange.send(bytes.subarray(0, 9));
  exchange.end();
  expect(await client.status()).toBe(502);
  await proxy.fillsEnded(1);
  expect(await stored()).toEqual([]);
});

it('a small body that has arrived is stored in one step, even if another client asks meanwhile', async () => {
  proxy = createWholeProxy({ blockSizeBytes });
  const openWriter = vi.spyOn(proxy.store, 'openWriter');
  const clients = [proxy.send(), proxy.send({ fields: { range: 'bytes=10-19' } })];
  const exchange = await proxy.origin.next();
  const bytes = patternBytes(0, 1000);
  exchange.head({ fields: { ...fields, 'content-length': '1000' } });
  void exchange.send(bytes);
  exchange.end();
  expect(await clients[0]?.bytes()).toEqual(Buffer.from(bytes));
  expect(await clients[1]?.bytes()).toEqual(Buffer.from(bytes.subarray(10, 20)));
  await proxy.fillsEnded(1);
  expect(proxy.fillEvents()).toMatchObject([{ result: 'stored', bytes: 1000 }]);
  expect(await proxy.send().bytes()).toEqual(Buffer.from(bytes));
  expect(proxy.requestEvents().map(({ outcome }) => outcome)).toEqual(['miss', 'miss', 'hit']);
  expect([openWriter.mock.calls.length, proxy.origin.untaken]).toEqual([0, 0]);
});

it('a small body that the store cannot take in one step is stored block by block', async () => {
  proxy = createWholeProxy({ blockSizeBytes });
  vi.spyOn(proxy.store, 'openWhole').mockReturnValue(undefined);
  await expectMiss(1);
  expect(proxy.fillEvents()).toMatchObject([{ result: 'stored', bytes: 9 }]);
  expect(await stored()).toHaveLength(1);
});

it('a small body is sent though the store fails unexpectedly, and the next request is answered', async () => {
  proxy = createWholeProxy({ blockSizeBytes });
  const { openWhole } = proxy.store;
  vi.spyOn(proxy.store, 'openWhole').mockImplementationOnce((...entry) => {
    const writer = openWhole?.apply(proxy.store, entry);
    return writer && Object.assign(writer, { commit: () => Promise.reject(new TypeError('a fault of the store')) });
  });
  for (const count of [1, 2]) {
    await expectMiss(count);
  }
  expect(proxy.fillEvents().map(({ result }) => result)).toEqual(['relayed', 'stored']);
});

it('a small body that does not match its digest is cut off, and is not stored', async () => {
  const { client, exchange, bytes } = await ask(10, {
    'repr-digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:`,
  });
  void exchange.send(bytes);
  exchange.end();
  await expect(client.bytes()).rejects.toThrow();
  await proxy.fillsEnded(1);
  expect(await stored()).toEqual([]);
});

it('a small body that is purged while it arrives is sent, and not stored', async () => {
  const { client, exchange, bytes } = await ask(10);
  await proxy.cache.purge({ keys: keys(), prefixes: [], tags: [], mode: 'hard' });
  void exchange.send(bytes);
  exchange.end();
  expect(await client.bytes()).toEqual(Buffer.from(bytes));
  await proxy.fillsEnded(1);
  expect(proxy.fillEvents()).toMatchObject([{ result: 'relayed' }]);
  expect(await stored()).toEqual([]);
});
