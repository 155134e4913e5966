/** A body whose bytes are counted: what is taken from it at once is counted, and held back, as what is waited for. */

import { expect, it } from 'vitest';
import { MeteredBody } from '../../src/guard/metered-body.ts';
import { OriginShare } from '../../src/guard/origin-share.ts';
import type { Errand, Reach } from '../../src/origin/origin.ts';
import { ReceivedBody } from '../../src/origin/received-body.ts';

const chunk = Buffer.alloc(600);

/** A body of three chunks that are there, for a client that may owe 1000 bytes, and nothing new begins above 500. */
function createMetered(wanters: readonly string[], reach: Reach) {
  const received = new ReceivedBody(3 * chunk.length, { pause: () => {}, resume: () => {}, abort: () => {} });
  for (let count = 0; count < 3; count += 1) received.push(chunk);
  received.end();
  const share = new OriginShare({ factor: 1, freeBytes: 1000, windowMs: 1000 }, () => 0);
  const errand: Errand = { key: 'k', client: 'c', wanters: () => wanters, reach: () => reach };
  let overs = 0;
  const body = new MeteredBody(
    { body: received, sizeBytes: 3 * chunk.length },
    {
      errand,
      share,
      clock: { after: () => () => {} },
      onOver: () => {
        overs += 1;
      },
    },
  );
  return { body, overs: () => overs };
}

it('gives all of it at once to whoever has each byte as it comes, and ends', () => {
  const { body, overs } = createMetered(['c'], 'near');
  expect([body.take(), body.take(), body.take(), overs()]).toEqual([chunk, chunk, chunk, 0]);
  expect([body.take(), overs()]).toEqual(['end', 1]);
});

it('gives no more than the first chunk of what nobody reads', async () => {
  const { body, overs } = createMetered([], 'far');
  expect([body.take(), body.take()]).toEqual([chunk, 'later']);
  await expect(body.next()).rejects.toMatchObject({ code: 'origin_share_spent' });
  expect(overs()).toBeGreaterThan(0);
});

it('gives what is far from its readers until the share is spent, however it is asked', async () => {
  const { body } = createMetered(['c'], 'far');
  expect((await body.next()).value).toBe(chunk);
  expect([body.take(), body.take()]).toEqual([chunk, 'later']);
  await expect(body.next()).rejects.toMatchObject({ code: 'origin_share_spent' });
});
