/** An origin of many files: some with ranges and strong validators, some without both. Files may change or be slow. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type FileVersion, nameOf, versionPiece } from './versioned-file.ts';

/** The properties of a file, which its path encodes. */
export interface FileTraits {
  /** `ranged`: strong entity tags and ranges. `whole`: neither; a response is always the whole file. */
  readonly kind: 'ranged' | 'whole';
  /** Its max-age, in seconds. */
  readonly freshSeconds: number;
  /** The length of its first version, in bytes; each later version is a byte longer. */
  readonly sizeBytes: number;
  /** Number of the file; it makes the path and the bytes unique. */
  readonly file: number;
}

/** Returns the path of a file. */
export function pathOf({ kind, freshSeconds, sizeBytes, file }: FileTraits): string {
  return `/${kind}/${freshSeconds}/${sizeBytes}/${file}`;
}

/** A running origin. */
export interface VersionedOrigin extends AsyncDisposable {
  readonly url: string;
  /** Number of all requests so far. */
  readonly requests: number;
  /** Returns the number of requests for a path. */
  requestsFor(path: string): number;
  /** Returns the number of the current version of a path; 0 for the first one. */
  versionOf(path: string): number;
  /** Gives a path a new version. */
  change(path: string): void;
}

/** The field that names the version of a body, for a file without a validator too. */
export const versionField = 'x-version';

const pathPattern = /^\/(ranged|whole)\/(\d+)\/(\d+)\/(\d+)$/;

/**
 * Opens the origin on a free port. In the middle of each body of more than 64 KiB it pauses for the milliseconds that `pauseMs`
 * returned at the request.
 */
export async function openVersionedOrigin(pauseMs: () => number = () => 0): Promise<VersionedOrigin> {
  const versions = new Map<string, number>();
  const requests = new Map<string, number>();
  let requestCount = 0;
  const server = createServer((request, response) => {
    const { url: path = '' } = request;
    requestCount += 1;
    requests.set(path, (requests.get(path) ?? 0) + 1);
    // Closes the connection after each body.
    response.shouldKeepAlive = false;
    const traits = parsePath(path);
    if (traits === undefined) response.writeHead(404).end();
    else void answer(request, response, traits, versions.get(path) ?? 0, pauseMs());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get requests() {
      return requestCount;
    },
    requestsFor: (path) => requests.get(path) ?? 0,
    versionOf: (path) => versions.get(path) ?? 0,
    change: (path) => void versions.set(path, (versions.get(path) ?? 0) + 1),
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function parsePath(path: string): FileTraits | undefined {
  const [, kind, freshSeconds, sizeBytes, file] = pathPattern.exec(path) ?? [];
  if (kind !== 'ranged' && kind !== 'whole') return undefined;
  return { kind, freshSeconds: Number(freshSeconds), sizeBytes: Number(sizeBytes), file: Number(file) };
}

async function answer(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  { kind, freshSeconds, sizeBytes: firstSizeBytes, file }: FileTraits,
  version: number,
  pauseMs: number,
): Promise<void> {
  const current: FileVersion = { file, version, sizeBytes: firstSizeBytes + version };
  const { sizeBytes } = current;
  const tag = `"${nameOf(current)}"`;
  response.setHeader('content-type', 'application/octet-stream');
  response.setHeader('cache-control', `max-age=${freshSeconds}`).setHeader(versionField, nameOf(current));
  let span = { start: 0, end: sizeBytes };
  if (kind === 'ranged') {
    response.setHeader('etag', tag).setHeader('accept-ranges', 'bytes');
    if (headers['if-none-match'] === tag) return void response.writeHead(304).end();
    const isValid = headers['if-range'] === undefined || headers['if-range'] === tag;
    const asked = isValid ? spanOfRange(headers.range, sizeBytes) : undefined;
    if (asked !== undefined) {
      span = asked;
      response.statusCode = 206;
      response.setHeader('content-range', `bytes ${span.start}-${span.end - 1}/${sizeBytes}`);
    }
  }
  response.setHeader('content-length', span.end - span.start);
  if (method === 'HEAD') return void response.end();
  try {
    await pipeline(Readable.from(pieces(current, span, pauseMs), { objectMode: false }), response);
  } catch {
    // The client has disconnected early.
  }
}

/** Parses one satisfiable range into a half-open span. Returns undefined for anything else, which the origin ignores. */
function spanOfRange(range: string | undefined, sizeBytes: number): { start: number; end: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const start = first === '' ? Math.max(0, sizeBytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? sizeBytes : Math.min(sizeBytes, Number(last) + 1);
  return start < end ? { start, end } : undefined;
}

async function* pieces(
  version: FileVersion,
  { start, end }: { start: number; end: number },
  pauseMs: number,
): AsyncGenerator<Buffer> {
  const pieceBytes = 64 * 1024;
  const pauseAt = (start + end) / 2;
  for (let offset = start; offset < end; ) {
    if (pauseMs > 0 && offset <= pauseAt && pauseAt < offset + pieceBytes && end - start > pieceBytes) {
      await delay(pauseMs);
    }
    const piece = versionPiece(version, offset, Math.min(end, offset + pieceBytes));
    yield piece;
    offset += piece.length;
  }
}
