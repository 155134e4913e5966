/** What a client is to have received of a pattern body. */

import { expect } from 'vitest';
import type { Client } from '../proxies/whole-proxy.ts';
import { patternBytes } from './pattern-body.ts';

/** A 206 with the bytes `[start, end)` of a whole. */
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

/** A 200 with the whole. */
export async function expectWhole(client: Client, { sizeBytes = 10_000, seed = 0 } = {}): Promise<void> {
  expect(await client.status()).toBe(200);
  expectSame(await client.bytes(), patternBytes(0, sizeBytes, seed));
}

/** The bytes `[0, count)` so far, at least. */
export async function expectUntil(client: Client, count: number, { seed = 0 } = {}): Promise<void> {
  const bytes = await client.readUntil(count);
  expect(bytes.length).toBeGreaterThanOrEqual(count);
  expectSame(bytes, patternBytes(0, bytes.length, seed));
}

/** Compares without printing thousands of bytes. */
function expectSame(received: Uint8Array, expected: Uint8Array): void {
  expect(received.length).toBe(expected.length);
  const at = received.findIndex((byte, index) => byte !== expected[index]);
  expect(at, 'the first wrong byte').toBe(-1);
}
