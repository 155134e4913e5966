/** Misses of a block or less: given out at once where they have arrived, and byte by byte where they have not. */

import { afterEach, expect, it } from 'vitest';
import { patternBytes } from '../support/pattern-body.ts';
import { createWholeProxy, type WholeProxy } from '../support/whole-proxy.ts';
import { selectedWire } from '../support/wire.ts';

const blockSizeBytes = 1024;
const fields = { 'cache-control': 'max-age=60', etag: '"v1"' };

let proxy: WholeProxy;
afterEach(() => proxy.close());

async function ask(sizeBytes: number) {
  proxy = createWholeProxy({ blockSizeBytes });
  const client = proxy.send();
  const exchange = await proxy.origin.next();
  exchange.head({ fields: { ...fields, 'content-length': String(sizeBytes) } });
  return { client, exchange, bytes: patternBytes(0, sizeBytes) };
}

/** Over a wire nobody can tell one piece from two. */
const givenAtOnce = selectedWire() === undefined ? [1, 1023, 1024] : [];

it.each(givenAtOnce)(
  'a body of %i bytes that arrives with its head, in two pieces, is given in one',
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

it('one that is slow is given byte by byte', async () => {
  const { client, exchange, bytes } = await ask(10);
  expect(await client.status()).toBe(200);
  for (let count = 1; count <= 10; count += 1) {
    void exchange.send(bytes.subarray(count - 1, count));
    expect(await client.readUntil(count)).toEqual(Buffer.from(bytes.subarray(0, count)));
  }
  exchange.end();
  expect(await client.bytes()).toEqual(Buffer.from(bytes));
});

it('one that breaks off at once is answered with an error, and is not stored', async () => {
  const { client, exchange, bytes } = await ask(10);
  void exchange.send(bytes.subarray(0, 9));
  exchange.end();
  expect(await client.status()).toBe(502);
  await proxy.fillsEnded(1);
  expect(await proxy.store.find('http://files.example/file')).toEqual([]);
});
