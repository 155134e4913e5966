import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { patternBytes } from '../support/pattern-body.ts';
import { createWholeProxy, type WholeProxy } from '../support/whole-proxy.ts';

const body = patternBytes(0, 3000);
const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`;
const cache = { defaultTtlSeconds: 60 };

let proxy: WholeProxy;
afterEach(() => proxy.close());

describe('a route with digests', () => {
  it('states the digest of the whole with every response from the store, and asks the origin for what the client wants', async () => {
    proxy = createWholeProxy({ route: { cache: { ...cache, digest: true } } });
    const first = proxy.send({ fields: { 'want-repr-digest': 'sha-256=1' } });
    const exchange = await proxy.origin.next();
    expect(exchange.request.fields).toContainEqual(['want-repr-digest', 'sha-256=1']);
    exchange.respond({ fields: {} }, body);
    await first.bytes();
    await proxy.fillsEnded(1);
    for (const fields of [{}, { range: 'bytes=-100' }, { 'want-repr-digest': 'sha-512=1' }]) {
      const client = proxy.send({ fields });
      expect(await client.field('cache-status')).toContain('hit');
      expect(await client.field('repr-digest')).toBe(digest);
    }
  });

  it('is not every route', async () => {
    proxy = createWholeProxy({ route: { cache: { ...cache, digest: false } } });
    const first = proxy.send();
    (await proxy.origin.next()).respond({ fields: {} }, body);
    await first.bytes();
    await proxy.fillsEnded(1);
    const client = proxy.send();
    expect(await client.field('cache-status')).toContain('hit');
    expect(await client.field('repr-digest')).toBeUndefined();
  });
});
