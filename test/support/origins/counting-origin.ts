/** An origin of one file of any size, over real sockets. It counts each byte that it sends. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Span } from '../../../src/bytes/span.ts';
import { parseRange, selectRanges } from '../../../src/semantics/range.ts';
import { periodicPiece } from '../values/periodic-body.ts';

/**
 * How the origin treats Range. `parts`: it sends a part for each range, even where ranges overlap. `whole`: it has no ranges.
 * `deaf`: it sends Accept-Ranges: bytes, but always the whole body.
 */
export type RangeHabit = 'parts' | 'whole' | 'deaf';

export interface CountingOrigin extends AsyncDisposable {
  readonly url: string;
  /** Bytes of bodies that were written to connections. */
  readonly bytes: number;
  /** Method, target and Range of each request. */
  readonly asked: readonly { readonly method: string; readonly target: string; readonly range: string | undefined }[];
  /** Number of requests whose response has not ended. */
  readonly running: number;
  /** Resets `bytes` and `asked`. */
  reset(): void;
}

const etag = '"v1"';

/** Returns bytes from `at` on, at most up to `end` (exclusive). */
type PieceOf = (at: number, end: number) => Uint8Array;

/** Opens the origin. Every path is the same file of `sizeBytes`. Paths that begin with `/relayed` are `no-store`. */
export async function openCountingOrigin(
  habit: RangeHabit,
  sizeBytes: number,
  pieceOf: PieceOf = periodicPiece,
): Promise<CountingOrigin> {
  let bytes = 0;
  let running = 0;
  const asked: { method: string; target: string; range: string | undefined }[] = [];

  async function send(response: ServerResponse, start: number, end: number): Promise<void> {
    for (let at = start; at < end && !response.destroyed; ) {
      const piece = pieceOf(at, end);
      bytes += piece.length;
      at += piece.length;
      if (!response.write(piece)) await untilDrained(response);
    }
  }

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    asked.push({ method, target: url, range: headers.range });
    running += 1;
    response.once('close', () => {
      running -= 1;
    });
    const spans = spansOf(request, habit, sizeBytes);
    response.writeHead(...headFor(spans, sizeBytes, fieldsFor(url, habit)));
    if (method !== 'HEAD') {
      for (const { start, end } of spans === 'whole' ? [{ start: 0, end: sizeBytes }] : spans) {
        if (spans.length > 1 && spans !== 'whole') response.write(partHead({ start, end }, sizeBytes));
        await send(response, start, end);
      }
    }
    response.end();
  }

  const server = createServer((request, response) => void respond(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get bytes() {
      return bytes;
    },
    get running() {
      return running;
    },
    asked,
    reset() {
      bytes = 0;
      asked.length = 0;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}

/** Waits until a response takes more bytes, or is closed. */
function untilDrained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      response.off('drain', go);
      response.off('close', go);
      resolve();
    };
    response.on('drain', go);
    response.on('close', go);
  });
}

/** The spans of a 206; an empty list for a 416. */
type Selected = 'whole' | readonly Span[];

/** Returns a span for each satisfiable range. */
function spansOf({ method = '', headers }: IncomingMessage, habit: RangeHabit, sizeBytes: number): Selected {
  const ifRange = headers['if-range'] ?? etag;
  const parsed = parseRange(headers.range ?? '', { maxRanges: Number.POSITIVE_INFINITY });
  const isObeyed = habit === 'parts' && (method === 'GET' || method === 'HEAD') && ifRange === etag;
  if (!isObeyed || parsed.kind === 'ignored') return 'whole';
  return parsed.specs.flatMap((spec) => {
    const selected = selectRanges([spec], sizeBytes, { coalesceGapBytes: 0 });
    return selected.kind === 'partial' ? selected.spans : [];
  });
}

function fieldsFor(target: string, habit: RangeHabit): OutgoingHttpHeaders {
  return {
    etag,
    'cache-control': target.startsWith('/relayed') ? 'no-store' : 'max-age=3600',
    'content-type': 'application/octet-stream',
    ...(habit === 'whole' ? {} : { 'accept-ranges': 'bytes' }),
  };
}

function headFor(spans: Selected, sizeBytes: number, fields: OutgoingHttpHeaders): [number, OutgoingHttpHeaders] {
  if (spans === 'whole') return [200, { ...fields, 'content-length': sizeBytes }];
  const [span, ...more] = spans;
  if (span === undefined) return [416, { ...fields, 'content-range': `bytes */${sizeBytes}` }];
  if (more.length > 0) return [206, { ...fields, 'content-type': 'multipart/byteranges; boundary=b' }];
  const { start, end } = span;
  return [206, { ...fields, 'content-range': `bytes ${start}-${end - 1}/${sizeBytes}`, 'content-length': end - start }];
}

function partHead({ start, end }: Span, sizeBytes: number): string {
  return `\r\n--b\r\nContent-Range: bytes ${start}-${end - 1}/${sizeBytes}\r\n\r\n`;
}
