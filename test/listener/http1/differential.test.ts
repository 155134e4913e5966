/** Our request reader and Node's own, on the same bytes: ours reads the same requests, or fewer. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readWithLlhttp } from '../../support/clients/llhttp.ts';
import { readAsListener } from '../../support/clients/own-reader.ts';
import { differenceOf } from '../../support/clients/reader-differences.ts';
import { streamText } from '../../support/values/request-arbitraries.ts';

/** More runs than the default find rarer differences. */
const { RANGEWAY_TEST_RUNS = '100' } = process.env;
const runs = 30 * Number(RANGEWAY_TEST_RUNS);

/** The default number of runs uses the same streams each time. */
const seed = runs === 9000 ? { seed: 20_261_122 } : {};

describe('a stream of requests', () => {
  it('is read as Node reads it, or refused', { timeout: 60_000 + 10 * runs }, () => {
    const counted = { read: 0, refused: 0, refusedByBoth: 0 };
    // Node refuses later minor versions, which count as 1.1 (RFC 9110 §2.5).
    const streams = streamText.map((text) => text.replaceAll(/HTTP\/1\.[2-9]/g, 'HTTP/1.1'));
    const property = fc.property(streams, (text) => {
      const bytes = [Buffer.from(text, 'latin1')];
      const ours = readAsListener(bytes);
      const theirs = readWithLlhttp(bytes);
      expect(differenceOf(ours, theirs), text).toBeUndefined();
      counted.read += ours.requests.length;
      if (ours.fault !== undefined) counted.refused += 1;
      if (ours.fault !== undefined && theirs.fault !== undefined) counted.refusedByBoth += 1;
    });
    fc.assert(property, { numRuns: runs, ...seed });
    // Enough random streams stay valid, and enough are damaged.
    expect(counted.read).toBeGreaterThan(runs);
    expect(counted.refusedByBoth).toBeGreaterThan(runs / 10);
  });
});
