/** A charged transfer counts and refuses bytes in the same way where they are taken at once and where they are awaited. */

import { expect, it } from 'vitest';
import { ChargedTransfer, OriginShare } from '../../src/guard/limits/limited-origin.ts';
import { ReceivedBody } from '../../src/origin/exchange.ts';

const chunk = Buffer.alloc(600);

/** Returns a body of three available chunks, for a client whose unread transfers end above 500 bytes. */
function createMetered(bodyClients: readonly string[]) {
  const received = new ReceivedBody(3 * chunk.length, { pause: () => {}, resume: () => {}, abort: () => {} });
  for (let count = 0; count < 3; count += 1) received.push(chunk);
  received.end();
  const share = new OriginShare({ factor: 1, freeBytes: 1000, windowMs: 1000 }, () => 0);
  let overs = 0;
  const onOver = () => {
    overs += 1;
  };
  const charged = { client: 'c', bodyClients: () => bodyClients };
  const response = { status: 200, fields: [], version: '1.1', framing: 'length', sizeBytes: 3 * chunk.length } as const;
  const { body } = new ChargedTransfer(charged, share, onOver).observe({ ...response, body: received });
  return { body, overs: () => overs };
}

it('gives all chunks of a body that is read, regardless of the debt, and ends', () => {
  const { body, overs } = createMetered(['c']);
  expect([body.take?.(), body.take?.(), body.take?.(), overs()]).toEqual([chunk, chunk, chunk, 0]);
  expect([body.take?.(), overs()]).toEqual(['end', 1]);
});

it('gives only the first chunk of a body that no client reads', async () => {
  const { body, overs } = createMetered([]);
  expect([body.take?.(), body.take?.()]).toEqual([chunk, 'later']);
  await expect(body[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'origin_share_spent' });
  expect(overs()).toBeGreaterThan(0);
});
