/** The whole requests that an origin got, each of them read alike by every reader. */

import { expect } from 'vitest';
import { readByNode, readLeniently } from '../clients/lenient-request.ts';
import { type ReadRequest, readStrictly } from '../clients/strict-request.ts';
import type { RecordingOrigin } from './recording-origin.ts';

/** Throws where the bytes are no sound requests, or where a lenient reader or Node's takes them for others. */
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
