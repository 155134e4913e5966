/** Lent buffers: they are reused only after they were given back, by one borrower at a time. */

import { expect, it } from 'vitest';
import { LentBuffers } from '../../src/store/disk/bodies/synchronous-io.ts';

it('a buffer that was given back is lent again for about the same number of bytes', () => {
  const buffers = new LentBuffers();
  const first = buffers.lend(70_000);
  buffers.giveBack(first.subarray(10, 20));
  const second = buffers.lend(90_000);
  expect({ isSame: second.buffer === first.buffer, length: second.length }).toEqual({ isSame: true, length: 90_000 });
  expect(buffers.lend(90_000).buffer).not.toBe(first.buffer);
});

it('a buffer that is given back twice is lent only once', () => {
  const buffers = new LentBuffers();
  const first = buffers.lend(10_000);
  buffers.giveBack(first);
  buffers.giveBack(first.subarray(1));
  expect(buffers.lend(10_000).buffer).not.toBe(buffers.lend(10_000).buffer);
});

it('foreign buffers are not taken back, and a buffer is not lent for another size', () => {
  const buffers = new LentBuffers();
  const others = [new Uint8Array(16_384), Buffer.allocUnsafeSlow(16_384), new LentBuffers().lend(16_384)];
  for (const other of others) buffers.giveBack(other);
  const taken = buffers.lend(16_384);
  expect(others.map(({ buffer }) => buffer === taken.buffer)).toEqual([false, false, false]);
  buffers.giveBack(taken);
  expect(buffers.lend(40_000).buffer).not.toBe(taken.buffer);
});

it('at most eight MiB are kept for reuse, and no very large buffer', () => {
  const buffers = new LentBuffers();
  const lent = Array.from({ length: 20 }, () => buffers.lend(512 * 1024));
  const large = buffers.lend(600_000);
  for (const each of [...lent, large]) buffers.giveBack(each);
  const again = new Set(Array.from({ length: 20 }, () => buffers.lend(512 * 1024).buffer));
  expect(lent.filter(({ buffer }) => again.has(buffer))).toHaveLength(16);
  expect(buffers.lend(600_000).buffer).not.toBe(large.buffer);
});
