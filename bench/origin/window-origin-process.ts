/** The window origin as a process: a legacy server that sends whole files only, fast enough not to be the bottleneck. */

import { type AddressInfo, createServer, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createTokenBucket, paceBody, type TokenBucket } from '../../src/cli/demo/legacy-origin.ts';
import { periodicPiece } from '../../test/support/values/periodic-body.ts';
import { windowOf } from '../sample-file.ts';
import type { OriginCounters, WindowOriginOptions } from './origin.ts';
import { burstBytes, systemClock } from './pace.ts';

const options = JSON.parse(process.argv[2] ?? '') as WindowOriginOptions;
const pattern = patternOf(options.patternBytes);
// All connections share one bucket: the origin's line.
const bucket =
  options.bytesPerSecond === undefined
    ? undefined
    : createTokenBucket({ bytesPerSecond: options.bytesPerSecond, burstBytes }, systemClock);

const counters = { requests: 0, bodyBytes: 0, running: 0 } satisfies OriginCounters;

const server = createServer({ noDelay: true }, (socket) => {
  let received = '';
  let answered: Promise<void> | undefined;
  socket.setEncoding('latin1');
  socket.on('error', () => {});
  socket.on('data', (text: string) => {
    received += text;
    for (let end = received.indexOf('\r\n\r\n'); end >= 0; end = received.indexOf('\r\n\r\n')) {
      const path = received.split(' ', 2)[1] ?? '';
      const [, tag] = /\r\nif-none-match: *(\S+)/i.exec(received.slice(0, end)) ?? [];
      received = received.slice(end + 4);
      // Paced responses of a connection are sent one after the other. Without pacing a response is written at once.
      if (options.validated !== undefined) answerLater(socket, path, tag, options.validated.delayMs);
      else if (bucket === undefined) answerAtOnce(socket, path);
      else answered = (answered ?? Promise.resolve()).then(() => answerPaced(socket, path, bucket));
    }
  });
});

process.on('message', () => process.send?.(counters));
// The benchmark has ended.
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));

/** A connection has one request at a time. */
function answerLater(socket: Socket, path: string, tag: string | undefined, delayMs: number): void {
  setTimeout(() => {
    if (tag !== tagOf(path)) {
      answerAtOnce(socket, path);
      return;
    }
    counters.requests += 1;
    socket.write(`HTTP/1.1 304 Not Modified\r\nETag: ${tag}\r\nCache-Control: no-cache\r\n\r\n`, 'latin1');
  }, delayMs);
}

function answerAtOnce(socket: Socket, path: string): void {
  const body = bodyOf(path);
  counters.requests += 1;
  counters.bodyBytes += body.length;
  socket.cork();
  socket.write(headOf(path, body), 'latin1');
  socket.write(body);
  socket.uncork();
}

async function answerPaced(socket: Socket, path: string, pace: TokenBucket): Promise<void> {
  const body = bodyOf(path);
  counters.requests += 1;
  counters.running += 1;
  socket.write(headOf(path, body), 'latin1');
  try {
    await pipeline(Readable.from(counted(paceBody([body], pace, systemClock))), socket, { end: false });
  } catch {
    // The client has left. The bytes sent until then are counted.
  } finally {
    counters.running -= 1;
  }
}

async function* counted(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    counters.bodyBytes += chunk.length;
    yield chunk;
  }
}

/** Returns the whole pattern in one array, so that every body is a view of it. */
function patternOf(sizeBytes: number): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  for (let offset = 0; offset < sizeBytes; ) {
    const piece = periodicPiece(offset, sizeBytes);
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}

function bodyOf(path: string): Uint8Array {
  const window = windowOf(path);
  return window === undefined ? new Uint8Array() : pattern.subarray(window.start, window.end);
}

function headOf(path: string, body: Uint8Array): string {
  const status = windowOf(path) === undefined ? '404 Not Found' : '200 OK';
  return [
    `HTTP/1.1 ${status}`,
    `Date: ${new Date().toUTCString()}`,
    'Content-Type: application/octet-stream',
    `Content-Length: ${body.length}`,
    'Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT',
    `ETag: ${tagOf(path)}`,
    `Cache-Control: ${options.validated === undefined ? 'max-age=86400' : 'no-cache'}`,
    ...(options.vary === undefined ? [] : [`Vary: ${options.vary}`]),
    '\r\n',
  ].join('\r\n');
}

/** Returns the entity tag of a path; where responses are validated, the one that it has now. */
function tagOf(path: string): string {
  const version = options.validated === undefined ? '' : `-${Math.floor(Date.now() / options.validated.changeEveryMs)}`;
  return `"${path.slice(path.lastIndexOf('/') + 1)}${version}"`;
}
