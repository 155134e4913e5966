/**
 * The periodic origin as a process, for counted workloads. Every path has the same large body, computed while it is sent.
 * Its options say whether it supports ranges and where it cuts transfers off. It sends a strong ETag.
 */

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Span } from '../../src/bytes/span.ts';
import { createTokenBucket, paceBody } from '../../src/cli/demo/legacy-origin.ts';
import { periodicPiece } from '../../test/support/values/periodic-body.ts';
import type { OriginCounters, PeriodicOriginOptions } from './origin.ts';
import { burstBytes, systemClock } from './pace.ts';

const etag = '"periodic"';

const { sizeBytes, hasRanges, cutAt, bytesPerSecond } = JSON.parse(process.argv[2] ?? '') as PeriodicOriginOptions;
// All connections share one bucket: the origin's line.
const bucket = createTokenBucket({ bytesPerSecond, burstBytes }, systemClock);
const counters = { requests: 0, bodyBytes: 0, running: 0 } satisfies OriginCounters;
/** The offsets of the cuts that are still to come, by path. */
const cutsLeft = new Map<string, number[]>();

const server = createServer((request, response) => {
  counters.requests += 1;
  const path = request.url ?? '';
  if (!cutsLeft.has(path)) cutsLeft.set(path, [...cutAt]);
  const ifRange = request.headers['if-range'];
  const mayBePart = hasRanges && (ifRange === undefined || ifRange === etag);
  void answer(response, path, mayBePart ? parseRange(request.headers.range) : undefined);
});

process.on('message', () => process.send?.(counters));
// The benchmark has ended.
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));

/** Parses `bytes=a-b`, `bytes=a-` and `bytes=-n`. Any other value is ignored, which RFC 9110 §14.2 allows: the client gets the whole. */
function parseRange(value: string | undefined): Span | undefined {
  const [, first, last] = /^bytes=(?!-$)([0-9]{0,15})-([0-9]{0,15})$/.exec(value ?? '') ?? [];
  if (first === undefined) return undefined;
  if (first === '') return { start: Math.max(0, sizeBytes - Number(last)), end: sizeBytes };
  const end = last === undefined || last === '' ? sizeBytes : Math.min(Number(last) + 1, sizeBytes);
  return { start: Number(first), end };
}

async function answer(response: ServerResponse, path: string, part: Span | undefined): Promise<void> {
  const span = part ?? { start: 0, end: sizeBytes };
  if (span.start >= span.end) {
    response.writeHead(416, { 'content-range': `bytes */${sizeBytes}` }).end();
    return;
  }
  response.writeHead(part === undefined ? 200 : 206, {
    'content-type': 'application/octet-stream',
    'content-length': span.end - span.start,
    'last-modified': 'Wed, 01 Jan 2020 00:00:00 GMT',
    'cache-control': 'max-age=86400',
    etag,
    ...(hasRanges ? { 'accept-ranges': 'bytes' } : {}),
    ...(part === undefined ? {} : { 'content-range': `bytes ${span.start}-${span.end - 1}/${sizeBytes}` }),
  });
  counters.running += 1;
  try {
    const cut = takeCut(path, span);
    await sendBody(response, { start: span.start, end: cut ?? span.end });
    // The bytes that were written still arrive before the connection ends: the proxy receives exactly what was counted.
    if (cut === undefined) response.end();
    else response.destroy();
  } catch {
    // The client has left. The bytes sent until then are counted.
  } finally {
    counters.running -= 1;
  }
}

/** Returns the first cut inside this transfer, and removes it; undefined where there is none. */
function takeCut(path: string, { start, end }: Span): number | undefined {
  const left = cutsLeft.get(path) ?? [];
  const index = left.findIndex((offset) => start < offset && offset < end);
  return index < 0 ? undefined : left.splice(index, 1)[0];
}

/** Sends piece by piece, and counts a piece once the system has accepted it: no bytes wait in this process when a client leaves. */
async function sendBody(response: ServerResponse, span: Span): Promise<void> {
  for await (const piece of paceBody(piecesOf(span), bucket, systemClock)) {
    await new Promise<void>((resolve, reject) => {
      response.write(piece, (error) => (error ? reject(error) : resolve()));
    });
    counters.bodyBytes += piece.length;
  }
}

function* piecesOf({ start, end }: Span): Generator<Uint8Array> {
  for (let offset = start; offset < end; ) {
    const piece = periodicPiece(offset, end);
    yield piece;
    offset += piece.length;
  }
}
