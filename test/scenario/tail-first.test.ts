/** The cost, for the origin, of a first request for the end of a large absent file. */

import { describe, expect, it } from 'vitest';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const MiB = 1024 * 1024;
const blockSizeBytes = 256 * 1024;
const tailBytes = 64 * 1024;
/** The defaults of the server. */
const fill = { complete: { smallerThanBytes: MiB }, seekAheadBytes: 8 * MiB } as const;

describe('an origin with ranges', () => {
  const sizeBytes = 200 * MiB;
  const start = sizeBytes - tailBytes;

  it.each([`bytes=-${tailBytes}`, `bytes=${start}-`, `bytes=${start}-${sizeBytes - 1}`])(
    'is asked for little more than the range: %s',
    async (range) => {
      const proxy = createWholeProxy({ blockSizeBytes, fill, originRanges: 'auto', maxSizeBytes: 2 * sizeBytes });
      let sentBytes = 0;
      createRangeOrigin(proxy.origin, { sizeBytes }).serve((honest) => {
        sentBytes += honest.span.end - honest.span.start;
        // Fails before bytes are made that the test does not allow.
        expect(honest.span.end - honest.span.start).toBeLessThanOrEqual(MiB);
        return honest;
      });
      const client = proxy.send({ fields: { range } });
      expect(await client.status()).toBe(206);
      expect(Buffer.compare(await client.bytes(), patternBytes(start, sizeBytes))).toBe(0);
      await proxy.closeCache();
      expect(proxy.origin.requests).toBeLessThanOrEqual(3);
      expect(sentBytes).toBeLessThanOrEqual(MiB);
      await proxy.close();
    },
  );
});

describe('a legacy origin', () => {
  const sizeBytes = 3 * MiB + 1000;
  const start = sizeBytes - tailBytes;

  it('is asked once, and the client gets each byte as soon as it has arrived', async () => {
    const proxy = createWholeProxy({ blockSizeBytes, fill, originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { sizeBytes, hasRanges: false });
    const client = proxy.send({ fields: { range: `bytes=-${tailBytes}` } });
    const transfer = await origin.begin((honest) => ({
      ...honest,
      fields: { ...honest.fields, 'content-length': String(sizeBytes) },
    }));
    await transfer.sendTo(start + 1000);
    expect((await client.readUntil(1000)).length).toBe(1000);
    await transfer.sendTo(sizeBytes - 1);
    expect((await client.readUntil(tailBytes - 1)).length).toBe(tailBytes - 1);
    transfer.finish();
    expect(Buffer.compare(await client.bytes(), patternBytes(start, sizeBytes))).toBe(0);
    await proxy.fillsEnded(1);
    expect(proxy.origin.requests).toBe(1);
    await proxy.close();
  });
});
