/** Random range sets over random bodies that arrive in random pieces, against a model that marks bytes one by one. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatRange, type RangeSpec } from '../../src/semantics/range.ts';
import { type Client, createWholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { rangeSpec } from '../support/values/range-arbitraries.ts';

const maxSize = 4000;

interface Part {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** Marks the bytes that a range set asks for, one by one. */
function wanted(specs: readonly RangeSpec[], size: number): boolean[] {
  return Array.from({ length: size }, (_, at) => specs.some((spec) => isWanted(spec, at, size)));
}

function isWanted(spec: RangeSpec, at: number, size: number): boolean {
  if (spec.kind === 'suffix') return at >= size - spec.length;
  return at >= spec.first && (spec.kind === 'open' || at <= spec.last);
}

/** Returns the parts of a 206 with their offsets, parsed as a client does. */
async function partsOf(client: Client): Promise<Part[]> {
  const body = Buffer.from(await client.bytes());
  const contentRange = await client.field('content-range');
  if (contentRange !== undefined) return [part(contentRange, body)];
  const boundary = (await client.field('content-type'))?.split('boundary=')[1];
  const sections = body.toString('latin1').split(`--${boundary}`).slice(1, -1);
  return sections.map((section) => {
    const [head = '', ...rest] = section.split('\r\n\r\n');
    const text = rest.join('\r\n\r\n').slice(0, -2);
    return part(/content-range: (.*)/i.exec(head)?.[1] ?? '', Buffer.from(text, 'latin1'));
  });
}

function part(contentRange: string, bytes: Uint8Array): Part {
  const [, first, last] = /^bytes (\d+)-(\d+)\/(?:\d+|\*)$/.exec(contentRange) ?? [];
  // Live content ends where it ends (RFC 8673 §2).
  const isLive = Number(last) === Number.MAX_SAFE_INTEGER && contentRange.endsWith('/*');
  if (!isLive) expect(bytes.length).toBe(Number(last) - Number(first) + 1);
  return { start: Number(first), bytes };
}

async function expectRanges(
  client: Client,
  specs: readonly RangeSpec[],
  size: number,
  isExact: boolean,
): Promise<void> {
  const marks = wanted(specs, size);
  const status = await client.status();
  if (!marks.includes(true)) {
    expect(status).toBe(size === 0 ? 200 : 416);
    return;
  }
  if (status === 200) {
    // The whole may be sent in place of any range.
    expect(Buffer.from(await client.bytes()).equals(patternBytes(0, size))).toBe(true);
    expect(specs.length > 1 || specs[0]?.kind === 'open').toBe(true);
    return;
  }
  expect(status).toBe(206);
  const got: boolean[] = marks.map(() => false);
  for (const { start, bytes } of await partsOf(client)) {
    expect(Buffer.from(bytes).equals(patternBytes(start, start + bytes.length))).toBe(true);
    for (let at = start; at < start + bytes.length; at += 1) {
      expect(got[at]).toBe(false);
      got[at] = true;
    }
  }
  if (isExact) expect(got).toEqual(marks);
  else expect(marks.every((mark, at) => !mark || got[at])).toBe(true);
}

const sets = fc.array(fc.array(rangeSpec(maxSize), { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 6 });

describe('random range sets', () => {
  it('get exactly their bytes, while the body arrives and from the store', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(maxSize),
        sets,
        fc.array(fc.integer({ min: 1, max: 1500 }), { minLength: 1, maxLength: 20 }),
        fc.boolean(),
        fc.constantFrom(0, 50),
        async (size, requested, pieces, isLengthKnown, coalesceGapBytes) => {
          const proxy = createWholeProxy({
            blockSizeBytes: 256,
            route: { ranges: { maxRanges: 10, coalesceGapBytes } },
          });
          const ask = (specs: readonly RangeSpec[]) => proxy.send({ fields: { range: formatRange(specs) } });
          const early = requested.map(ask);
          const exchange = await proxy.origin.next();
          const length: Record<string, string> = isLengthKnown ? { 'content-length': String(size) } : {};
          exchange.head({ fields: { 'cache-control': 'max-age=60', etag: '"v"', ...length } });
          const reading = early.map((client, at) =>
            expectRanges(client, requested[at] ?? [], size, coalesceGapBytes === 0),
          );
          for (let offset = 0, turn = 0; offset < size; turn += 1) {
            const end = Math.min(size, offset + (pieces[turn % pieces.length] ?? size));
            await exchange.send(patternBytes(offset, end));
            offset = end;
          }
          exchange.end();
          await Promise.all(reading);
          await proxy.fillsEnded(1);
          for (const specs of requested) await expectRanges(ask(specs), specs, size, coalesceGapBytes === 0);
          expect(proxy.origin.requests).toBe(1);
          await proxy.close();
        },
      ),
      { numRuns: 100 },
    );
  });
});
