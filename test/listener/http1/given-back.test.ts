/** Bytes that were lent for a response are given back when the system has taken them, and not while the client has yet to. */

import { describe, expect, it } from 'vitest';
import type { ProxyResponse } from '../../../src/http/message.ts';
import { openListener } from '../../support/open-listener.ts';
import { patternBytes } from '../../support/pattern-body.ts';

const request = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';

/** A listener that answers with lent bytes, so many; what is given back is wiped. */
async function openLending(sizeBytes: number) {
  const lent = Buffer.from(patternBytes(0, sizeBytes));
  const counts = { answered: 0, givenBack: 0, delivered: 0 };
  const giveBack = () => {
    counts.givenBack += 1;
    lent.fill(0);
  };
  const listener = await openListener((): ProxyResponse => {
    counts.answered += 1;
    return {
      status: 200,
      fields: [],
      body: { kind: 'bytes', sizeBytes, chunks: [lent], giveBack },
      onDelivered: () => {
        counts.delivered += 1;
      },
    };
  });
  return { listener, counts };
}

describe('what was lent for a response', () => {
  const rows: readonly [name: string, sizeBytes: number, isGivenBack: boolean][] = [
    ['is given back when the system takes it at once', 20_000, true],
    // More than a system holds for a client that does not read.
    ['is not given back while the client has yet to take it', 96 * 1024 * 1024, false],
  ];
  it.each(rows)('%s', async (_, sizeBytes, isGivenBack) => {
    const { listener, counts } = await openLending(sizeBytes);
    await using _listener = listener;
    await using client = await listener.connect();
    client.send(request);
    await expect.poll(() => counts.answered).toBe(1);
    if (!isGivenBack) expect(counts.givenBack).toBe(0);
    const response = await client.response();
    expect(response?.body.equals(patternBytes(0, sizeBytes))).toBe(true);
    await expect.poll(() => counts.delivered).toBe(1);
    expect(counts.givenBack).toBe(isGivenBack ? 1 : 0);
  });
});
