/** The fields of a newer part replace the older ones (RFC 9110 §15.3.7.3, RFC 9111 §3.4). */

import { afterEach, beforeEach, expect, it } from 'vitest';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart } from '../support/values/expect-bytes.ts';

let proxy: WholeProxy;
let origin: RangeOrigin;
beforeEach(async () => {
  proxy = createWholeProxy({ originRanges: 'auto' });
  origin = createRangeOrigin(proxy.origin);
  origin.file = { ...origin.file, fields: { ...origin.file.fields, 'cache-control': 'max-age=60', 'x-part': 'first' } };
  await fetched(0);
});
afterEach(() => proxy.close());

const ranged = (start: number) => proxy.send({ fields: { range: `bytes=${start}-${start + 9}` } });

/** Reads absent bytes, which the origin sends. */
async function fetched(start: number): Promise<void> {
  const ended = proxy.fillEvents().length + 1;
  const client = ranged(start);
  await origin.give();
  await expectPart(client, start, start + 10);
  await proxy.fillsEnded(ended);
}

function nextFields(fields: Record<string, string>): void {
  origin.file = { ...origin.file, fields: { ...origin.file.fields, ...fields } };
}

it('the newer fields are sent with all stored parts', async () => {
  nextFields({ 'x-part': 'second', 'x-new': 'yes' });
  await fetched(5000);
  const client = ranged(0);
  await expectPart(client, 0, 10);
  expect(await client.field('x-part')).toBe('second');
  expect(await client.field('x-new')).toBe('yes');
  expect(await client.field('etag')).toBe('"v1"');
  expect(await client.field('cache-status')).toMatch(/; hit/);
});

it('the age of the newer fields counts', async () => {
  proxy.clock.advance(50_000);
  await fetched(5000);
  proxy.clock.advance(50_000);
  const client = ranged(0);
  await expectPart(client, 0, 10);
  expect(await client.field('cache-status')).toMatch(/; hit; ttl=10$/);
});

it.each(['no-store', 'private'])('%s in the newer fields ends the storing of all parts', async (directive) => {
  nextFields({ 'cache-control': directive });
  const client = ranged(5000);
  await origin.give();
  await expectPart(client, 5000, 5010);
  const again = ranged(0);
  await origin.give();
  await expectPart(again, 0, 10);
  expect(await again.field('cache-status')).not.toMatch(/; hit/);
});
