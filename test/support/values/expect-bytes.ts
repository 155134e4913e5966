/** Expectations on the pattern body that a client has received. */

import { expect } from 'vitest';
import type { Client } from '../proxies/whole-proxy.ts';
import { patternBytes } from './pattern-body.ts';

/** Expects a 206 with the bytes `[start, end)`. */
export async function expectPart(
  client: Client,
  start: number,
  end: number,
  { sizeBytes = 10_000, seed = 0 } = {},
): Promise<void> {
  expect(await client.status()).toBe(206);
  expect(await client.field('content-range')).toBe(`bytes ${start}-${end - 1}/${sizeBytes}`);
  expectSame(await client.bytes(), patternBytes(start, end, seed));
}

/** Expects a 200 with the whole body. */
export async function expectWhole(client: Client, { sizeBytes = 10_000, seed = 0 } = {}): Promise<void> {
  expect(await client.status()).toBe(200);
  expectSame(await client.bytes(), patternBytes(0, sizeBytes, seed));
}

/** Reads until at least `count` bytes, and expects them to be right. */
export async function expectUntil(client: Client, count: number, { seed = 0 } = {}): Promise<void> {
  const bytes = await client.readUntil(count);
  expect(bytes.length).toBeGreaterThanOrEqual(count);
  expectSame(bytes, patternBytes(0, bytes.length, seed));
}

/** Compares bytes without printing thousands of them. */
function expectSame(received: Uint8Array, expected: Uint8Array): void {
  expect(received.length).toBe(expected.length);
  const at = received.findIndex((byte, index) => byte !== expected[index]);
  expect(at, 'the first wrong byte').toBe(-1);
}
