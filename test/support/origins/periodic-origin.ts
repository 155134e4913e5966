/** An origin that generates one large body as it sends it: whole, at the pace of its reader, with or without a length. */

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { periodicPiece } from '../values/periodic-body.ts';

/** Options of the origin. */
export interface PeriodicOriginOptions {
  readonly sizeBytes: number;
  /** Whether it sends Content-Length and an ETag; otherwise it sends chunks and no validator. */
  readonly hasLength: boolean;
  /** Bytes of each body that are sent before the test calls `goOn`. */
  readonly firstBytes: number;
}

/** A running origin. */
export interface PeriodicOrigin extends AsyncDisposable {
  readonly url: string;
  /** Number of requests so far. */
  readonly requests: number;
  /** Lets every body go on to its end. */
  goOn(): void;
}

/** Opens the origin on a free port. */
export async function openPeriodicOrigin(options: PeriodicOriginOptions): Promise<PeriodicOrigin> {
  let requests = 0;
  const { promise: mayGoOn, resolve: goOn } = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    requests += 1;
    // Closes the connection after each body.
    response.shouldKeepAlive = false;
    response.setHeader('content-type', 'application/octet-stream');
    response.setHeader('cache-control', 'max-age=3600');
    if (options.hasLength) response.setHeader('content-length', options.sizeBytes).setHeader('etag', '"periodic"');
    void sendBody(response, options, mayGoOn);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get requests() {
      return requests;
    },
    goOn,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function sendBody(
  response: ServerResponse,
  { sizeBytes, firstBytes }: PeriodicOriginOptions,
  mayGoOn: Promise<void>,
): Promise<void> {
  const pieces = async function* (): AsyncGenerator<Buffer> {
    yield* piecesBetween(0, firstBytes);
    await mayGoOn;
    yield* piecesBetween(firstBytes, sizeBytes);
  };
  try {
    await pipeline(Readable.from(pieces(), { objectMode: false }), response);
  } catch {
    // The client has disconnected early.
  }
}

function* piecesBetween(start: number, end: number): Generator<Buffer> {
  for (let offset = start; offset < end; ) {
    const piece = periodicPiece(offset, end);
    yield piece;
    offset += piece.length;
  }
}
