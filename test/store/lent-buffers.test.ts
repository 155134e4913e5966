/** Buffers that are used again: by one at a time, and only when they were given back. */

import { expect, it } from 'vitest';
import { LentBuffers } from '../../src/store/disk/bodies/synchronous-io.ts';

it('gives a buffer that was given back to the next one who wants about so many bytes', () => {
  const buffers = new LentBuffers();
  const first = buffers.lend(70_000);
  buffers.giveBack(first.subarray(10, 20));
  const second = buffers.lend(90_000);
  expect({ isSame: second.buffer === first.buffer, length: second.length }).toEqual({ isSame: true, length: 90_000 });
  expect(buffers.lend(90_000).buffer).not.toBe(first.buffer);
});

it('never gives one to two, however often it is given back', () => {
  const buffers = new LentBuffers();
  const first = buffers.lend(10_000);
  buffers.giveBack(first);
  buffers.giveBack(first.subarray(1));
  expect(buffers.lend(10_000).buffer).not.toBe(buffers.lend(10_000).buffer);
});

it('takes nothing that was not lent from it, or of another size', () => {
  const buffers = new LentBuffers();
  const others = [new Uint8Array(16_384), Buffer.allocUnsafeSlow(16_384), new LentBuffers().lend(16_384)];
  for (const other of others) buffers.giveBack(other);
  const taken = buffers.lend(16_384);
  expect(others.map(({ buffer }) => buffer === taken.buffer)).toEqual([false, false, false]);
  buffers.giveBack(taken);
  expect(buffers.lend(40_000).buffer).not.toBe(taken.buffer);
});

it('keeps no more ready than eight MiB, and nothing that is very large', () => {
  const buffers = new LentBuffers();
  const given = Array.from({ length: 20 }, () => buffers.lend(512 * 1024));
  const large = buffers.lend(600_000);
  for (const each of [...given, large]) buffers.giveBack(each);
  const again = new Set(Array.from({ length: 20 }, () => buffers.lend(512 * 1024).buffer));
  expect(given.filter(({ buffer }) => again.has(buffer))).toHaveLength(16);
  expect(buffers.lend(600_000).buffer).not.toBe(large.buffer);
});
