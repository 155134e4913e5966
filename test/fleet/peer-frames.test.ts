/** Frames between processes, whatever pieces their bytes arrive in. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  FrameReader,
  formatDataHead,
  formatFrame,
  frameKinds,
  readData,
  readValue,
} from '../../src/fleet/peer-connection.ts';

it('frames are read as they were written, however they are cut', () => {
  const value = fc.oneof(fc.jsonValue(), fc.constant(undefined), fc.constant({ end: Number.POSITIVE_INFINITY }));
  const data = fc.record({
    offset: fc.maxSafeNat(),
    originBytes: fc.maxSafeNat(),
    bytes: fc.uint8Array({ maxLength: 300 }),
  });
  const frames = fc.array(
    fc.oneof(
      value.map((answer) => ({ answer })),
      data.map((sent) => ({ sent })),
    ),
    { maxLength: 8 },
  );
  fc.assert(
    fc.property(frames, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (written, cuts) => {
      const wire = Buffer.concat(
        written.flatMap((frame) => {
          if ('answer' in frame) return [formatFrame(frameKinds.answer, frame.answer)];
          const { offset, originBytes, bytes } = frame.sent;
          return [formatDataHead(bytes.length, offset, originBytes), bytes];
        }),
      );
      const reader = new FrameReader();
      const read = [];
      for (let at = 0, turn = 0; at < wire.length; turn += 1) {
        const end = at + (cuts[turn % cuts.length] ?? 1);
        read.push(...reader.read(wire.subarray(at, end)));
        at = end;
      }
      expect(read).toHaveLength(written.length);
      for (const [index, frame] of written.entries()) {
        const got = read[index] ?? { kind: 0, bytes: Buffer.alloc(0) };
        if ('answer' in frame) {
          expect(got.kind).toBe(frameKinds.answer);
          if (frame.answer !== undefined) expect(readValue(got)).toEqual(frame.answer);
        } else {
          const { offset, originBytes, bytes } = readData(got);
          expect({ offset, originBytes, bytes: Uint8Array.from(bytes) }).toEqual(frame.sent);
        }
      }
    }),
  );
});

it('a frame that claims to be too long is refused', () => {
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(0x1000_0001, 1);
  expect(() => new FrameReader().read(frame)).toThrow(RangeError);
});
