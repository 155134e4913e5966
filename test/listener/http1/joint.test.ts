/** Heads and bodies joined in one buffer: bytes that are still to be read are never overwritten. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinedBytes, WriteBuffer } from '../../../src/listener/write-buffer.ts';

describe('a joined response', () => {
  it('is the head and the body', () => {
    const joined = new WriteBuffer().join('head\xe4', [Buffer.from('bo'), Buffer.alloc(0), Buffer.from('dy')], 9);
    expect(joined.toString('latin1')).toBe('head\xe4body');
  });

  it('stays unchanged until it is taken back, however many responses follow', () => {
    const step = fc.record({ sizeBytes: fc.integer({ min: 2, max: joinedBytes }), isTaken: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const joint = new WriteBuffer();
        const kept: [Buffer, number][] = [];
        for (const [at, { sizeBytes, isTaken }] of steps.entries()) {
          const sign = at % 256;
          const joined = joint.join(String.fromCharCode(sign), [Buffer.alloc(sizeBytes - 1, sign)], sizeBytes);
          expect(joined.equals(Buffer.alloc(sizeBytes, sign))).toBe(true);
          if (isTaken) joint.takeBack(joined);
          else kept.push([joined, sign]);
        }
        for (const [joined, sign] of kept) expect(joined.every((byte) => byte === sign)).toBe(true);
      }),
    );
  });

  it('leaves its memory to the next one once it is taken back', () => {
    const joint = new WriteBuffer();
    const first = joint.join('a', [], 1);
    joint.takeBack(first);
    const second = joint.join('b', [], 1);
    expect([second.buffer === first.buffer, second.byteOffset]).toEqual([true, first.byteOffset]);
  });
});
