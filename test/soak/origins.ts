/** The origins of the soak: one server for each kind, which changes its files and fails when it is told to. */

import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type FileVersion, nameOf, versionPiece } from '../support/origins/versioned-file.ts';
import { versionField } from './answer-check.ts';
import {
  cacheControlOf,
  fileAt,
  type Kind,
  kindNames,
  kinds,
  pathOf,
  type SoakFile,
  tagsOf,
  textBody,
  versionOf,
} from './content.ts';
import type { History } from './history.ts';
import type { Random } from './plan.ts';

/** How an origin answers: as it should, by resetting each connection, by an error, or not before its fault is over. */
export type OriginState = 'well' | 'reset' | '5xx' | 'hang';

const pieceBytes = 64 * 1024;
/** Last-Modified of the first versions. It is long ago, so that it is a strong validator (RFC 9110 §8.8.2.2). */
const firstModifiedAt = Date.UTC(2020, 0, 1);

/** The origin of one kind. */
class SoakOrigin {
  readonly #kind: Kind;
  readonly #history: History;
  readonly #random: Random;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #state: OriginState = 'well';
  #over = Promise.withResolvers<void>();
  requests = 0;

  constructor(kind: Kind, history: History, random: Random) {
    this.#kind = kind;
    this.#history = history;
    this.#random = random;
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.become('well');
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  /** Changes how it answers from now on. Requests that hang are answered when the state changes. */
  become(state: OriginState): void {
    this.#state = state;
    this.#over.resolve();
    this.#over = Promise.withResolvers();
    if (state === 'reset') this.cutAll();
  }

  /** Cuts all connections, in the middle of bodies too. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests += 1;
    request.resume();
    if (this.#state === 'hang') await this.#over.promise;
    if (this.#state === 'reset') return void request.socket.resetAndDestroy();
    const file = fileAt(request.url ?? '');
    if (file === undefined) return void response.writeHead(404).end();
    if (this.#state === '5xx') return void response.writeHead(503, { 'content-length': 0 }).end();
    if (request.method === 'POST') return this.#accept(response, file);
    const { errorShare, cutShare } = kinds[this.#kind];
    if (this.#random() < errorShare) {
      const status = this.#random() < 0.5 ? 500 : 502;
      return void response.writeHead(status, { 'content-length': 0 }).end();
    }
    await this.#send(request, response, file, this.#random() < cutShare ? this.#random() : undefined);
  }

  /** An upload replaces the file. */
  #accept(response: ServerResponse, file: SoakFile): void {
    this.#history.change(pathOf(file), Date.now());
    response.writeHead(204).end();
  }

  /** Sends a response, of which only the share `cutAt` arrives if that is given. */
  async #send(request: IncomingMessage, response: ServerResponse, file: SoakFile, cutAt?: number): Promise<void> {
    const { hasRanges, validator, hasLength, isText, hasGzip, pauseMs } = kinds[file.kind];
    const { headers } = request;
    const number = this.#history.currentOf(pathOf(file));
    const version = versionOf(file, number);
    const coding = hasGzip ? codingFor(headers) : 'identity';
    const tag = `"${nameOf(version)}${coding === 'gzip' ? '-gzip' : ''}"`;
    const modified = new Date(firstModifiedAt + number * 60_000).toUTCString();
    writeFields(response, file, version, coding);
    if (validator === 'tag') response.setHeader('etag', tag);
    if (validator === 'date') response.setHeader('last-modified', modified);
    if (validator !== 'none' && isKnown(headers, tag, modified)) return void response.writeHead(304).end();
    const body = isText ? textBody(file, number, coding) : undefined;
    const sizeBytes = body?.length ?? version.sizeBytes;
    const span = hasRanges
      ? selectRange(headers, response, sizeBytes, validator === 'date' ? modified : tag)
      : undefined;
    const { start, end: spanEnd } = span ?? { start: 0, end: sizeBytes };
    if (hasLength) response.setHeader('content-length', spanEnd - start);
    if (request.method === 'HEAD') return void response.end();
    const end = cutAt === undefined ? spanEnd : start + Math.floor((spanEnd - start) * cutAt);
    const pieces = body === undefined ? piecesOf(version, start, end, pauseMs) : [body.subarray(start, end)];
    try {
      await pipeline(Readable.from(pieces, { objectMode: false }), response, { end: cutAt === undefined });
      if (cutAt !== undefined) response.destroy();
    } catch {
      // Rangeway does not want the rest, or a fault has cut the connection.
    }
  }
}

/** Returns the coding that the client of the request takes. */
function codingFor({ 'accept-encoding': accepted = '' }: IncomingHttpHeaders): 'gzip' | 'identity' {
  return /\bgzip\b/.test(accepted.toString()) ? 'gzip' : 'identity';
}

/** Returns whether the client of the request has this version; If-None-Match decides where it is there (RFC 9110 §13.1.3). */
function isKnown(headers: IncomingHttpHeaders, tag: string, modified: string): boolean {
  const { 'if-none-match': known } = headers;
  return known === undefined ? headers['if-modified-since'] === modified : known === tag;
}

/** Writes the fields of a response that have nothing to do with its range. */
function writeFields(response: ServerResponse, file: SoakFile, version: FileVersion, coding: string): void {
  const { isText, hasGzip } = kinds[file.kind];
  const control = cacheControlOf(file);
  response.setHeader('content-type', isText ? 'text/plain' : 'application/octet-stream');
  response.setHeader(versionField, nameOf(version)).setHeader('surrogate-key', tagsOf(file).join(' '));
  if (control !== undefined) response.setHeader('cache-control', control);
  if (hasGzip) response.setHeader('vary', 'Accept-Encoding');
  if (coding !== 'identity') response.setHeader('content-encoding', coding);
}

/** Makes a 206 of a response where the request asks for a range of this version. Returns the range. */
function selectRange(
  headers: IncomingHttpHeaders,
  response: ServerResponse,
  sizeBytes: number,
  validator: string,
): Span | undefined {
  response.setHeader('accept-ranges', 'bytes');
  const condition = headers['if-range'];
  if (condition !== undefined && condition !== validator) return undefined;
  const span = spanOfRange(headers.range, sizeBytes);
  if (span === undefined) return undefined;
  response.statusCode = 206;
  response.setHeader('content-range', `bytes ${span.start}-${span.end - 1}/${sizeBytes}`);
  return span;
}

/** Half-open. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** The origins of all kinds, by their names. */
export interface SoakOrigins extends AsyncDisposable {
  readonly of: ReadonlyMap<Kind, Pick<SoakOrigin, 'url' | 'become' | 'cutAll'>>;
  /** Number of requests so far. */
  readonly requests: number;
}

/** Opens an origin for each kind on a free port. */
export async function openSoakOrigins(history: History, random: Random): Promise<SoakOrigins> {
  const origins = new Map(kindNames.map((kind) => [kind, new SoakOrigin(kind, history, random)]));
  await Promise.all([...origins.values()].map((origin) => origin.open()));
  return {
    of: origins,
    get requests() {
      return [...origins.values()].reduce((sum, { requests }) => sum + requests, 0);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...origins.values()].map((origin) => origin.close()));
    },
  };
}

/** Parses one satisfiable range into a half-open span. Returns undefined for anything else, which an origin ignores. */
function spanOfRange(range: string | undefined, sizeBytes: number): Span | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const start = first === '' ? Math.max(0, sizeBytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? sizeBytes : Math.min(sizeBytes, Number(last) + 1);
  return start < end ? { start, end } : undefined;
}

async function* piecesOf(version: FileVersion, start: number, end: number, pauseMs: number): AsyncGenerator<Buffer> {
  for (let offset = start; offset < end; ) {
    const piece = versionPiece(version, offset, Math.min(end, offset + pieceBytes));
    yield piece;
    offset += piece.length;
    if (pauseMs > 0 && offset < end) await delay(pauseMs);
  }
}
