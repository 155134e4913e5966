/** Bytes that were lent for a response are given back when the system has taken them, and not while the client has yet to. */

import { describe, expect, it } from 'vitest';
import type { ProxyResponse } from '../../../src/http/message.ts';
import { openListener, textResponse } from '../../support/open-listener.ts';
import { patternBytes } from '../../support/pattern-body.ts';

const request = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';

/** A listener whose second equal request follows a precedent with a body of so many bytes; what is given back is wiped. */
async function openLending(sizeBytes: number) {
  const lent = Buffer.from(patternBytes(0, sizeBytes));
  const counts = { followed: 0, givenBack: 0, delivered: 0 };
  const follow = () => {
    counts.followed += 1;
    return {
      status: 200,
      fields: [],
      contentRange: undefined,
      sizeBytes,
      chunks: [lent],
      onDelivered: () => {
        counts.delivered += 1;
      },
      giveBack: () => {
        counts.givenBack += 1;
        lent.fill(0);
      },
    };
  };
  const listener = await openListener((): ProxyResponse => ({ ...textResponse('x'), precedent: { follow } }));
  return { listener, counts };
}

describe('what was lent for a response that follows a precedent', () => {
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
    await client.response();
    client.send(request);
    await expect.poll(() => counts.followed).toBe(1);
    if (!isGivenBack) expect(counts.givenBack).toBe(0);
    const response = await client.response();
    expect(response?.body.equals(patternBytes(0, sizeBytes))).toBe(true);
    await expect.poll(() => counts.delivered).toBe(1);
    expect(counts.givenBack).toBe(isGivenBack ? 1 : 0);
  });
});
