/** Reads the complete requests that an origin got, and checks that all readers read them alike. */

import { expect } from 'vitest';
import { readByNode, readLeniently } from '../clients/lenient-request.ts';
import { type ReadRequest, readStrictly } from '../clients/strict-request.ts';
import type { RecordingOrigin } from './recording-origin.ts';

/** Returns the complete requests. Throws where the strict reader refuses the bytes, or another reader reads them differently. */
export async function readRecorded(origin: RecordingOrigin): Promise<ReadRequest[]> {
  const all: ReadRequest[] = [];
  for (const { bytes } of origin.recorded()) {
    const reading = readStrictly(bytes);
    if (reading.kind === 'fault') throw new Error(`the origin got ${reading.reason}: ${JSON.stringify(bytes)}`);
    const whole = bytes.slice(0, bytes.length - reading.rest.length);
    const gists = reading.requests.map(({ method, target, body }) => ({ method, target, body }));
    expect(readLeniently(whole)).toEqual(gists);
    expect(await readByNode(whole)).toEqual(gists);
    all.push(...reading.requests);
  }
  return all;
}
