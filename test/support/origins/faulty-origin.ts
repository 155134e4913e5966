/** An origin of versioned files over raw connections. A test may twist its honest replies: cut them, stall them, or falsify them. */

import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Span } from '../../../src/bytes/span.ts';
import { ByteReader } from '../clients/byte-reader.ts';
import { untilClosed } from '../clocks/until-closed.ts';
import { type FileVersion, nameOf, versionPiece } from './versioned-file.ts';
import { versionField } from './versioned-origin.ts';

/** `ranged`: strong entity tags and ranges; `tagged`: strong entity tags; `weak`: weak entity tags; `whole`: no validator. */
export type FileKind = 'ranged' | 'tagged' | 'weak' | 'whole';

/** The properties of a file, which its path encodes. */
export interface FaultyFile {
  /** The first segment of the path, which selects the route. */
  readonly route: string;
  readonly kind: FileKind;
  readonly sizeBytes: number;
  /** Number of the file; it makes the path and the bytes unique. */
  readonly file: number;
}

/** Returns the path of a file. Its responses are fresh for ten hours. */
export function faultyPath({ route, kind, sizeBytes, file }: FaultyFile): string {
  return `/${route}/${kind}/${sizeBytes}/${file}`;
}

/** A parsed request. */
export interface Asked {
  readonly path: string;
  readonly kind: FileKind;
  /** Number of earlier requests for this path. */
  readonly earlier: number;
  /** The span of a valid Range whose If-Range holds; parsed even where the file has no ranges. */
  readonly range: Span | undefined;
  readonly version: FileVersion;
}

/** A response before it is sent. */
export interface Reply {
  readonly status: number;
  /** The fields besides the framing. */
  readonly fields: Readonly<Record<string, string>>;
  readonly version: FileVersion;
  /** The bytes of the version that make the body. */
  readonly span: Span;
  /** Text that is sent after them. */
  readonly extra?: string;
  /** A false Content-Length; `true` for the right one; or chunked, with or without the last chunk. */
  readonly framing: number | 'true' | 'chunked' | 'chunked-endless';
  /** What happens to the connection at the end or cut of the body: kept, closed, reset, or left open in silence. */
  readonly end: 'keep' | 'fin' | 'rst' | 'stall';
  /** Cuts the body after so many bytes. */
  readonly cutAfterBytes?: number;
  /** Bytes that are sent at a time, and the pause after them, in milliseconds. */
  readonly pieceBytes: number;
  readonly pauseMs: number;
}

/** Changes an honest reply. */
export type Twist = (honest: Reply, asked: Asked) => Reply;

/** A running origin. */
export interface FaultyOrigin extends AsyncDisposable {
  readonly url: string;
  /** Returns the number of requests for a path. */
  requestsFor(path: string): number;
  /** Returns the bytes of bodies that were sent for a path. */
  bytesFor(path: string): number;
  /** Gives a path a new version, which is longer by `growthBytes`. */
  change(path: string, growthBytes?: number): void;
  versionOf(path: string): FileVersion;
  /** Twists replies for a path from now on; undefined: no longer. */
  twist(path: string, twist: Twist | undefined): void;
}

const pathPattern = /^\/[\w-]+\/(ranged|tagged|weak|whole)\/(\d+)\/(\d+)$/;

/** Opens the origin on a free port. */
export async function openFaultyOrigin(): Promise<FaultyOrigin> {
  const origin = new TcpOrigin();
  await origin.listen();
  return origin;
}

class TcpOrigin implements FaultyOrigin {
  readonly #server = createServer((socket) => this.#accept(socket));
  readonly #sockets = new Set<Socket>();
  readonly #versions = new Map<string, FileVersion>();
  readonly #twists = new Map<string, Twist>();
  readonly #requests = new Map<string, number>();
  readonly #bytes = new Map<string, number>();

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('The origin does not listen.');
    return `http://127.0.0.1:${address.port}`;
  }

  requestsFor(path: string): number {
    return this.#requests.get(path) ?? 0;
  }

  bytesFor(path: string): number {
    return this.#bytes.get(path) ?? 0;
  }

  change(path: string, growthBytes = 1): void {
    const { file, version, sizeBytes } = this.versionOf(path);
    this.#versions.set(path, { file, version: version + 1, sizeBytes: sizeBytes + growthBytes });
  }

  versionOf(path: string): FileVersion {
    const [, , sizeBytes, file] = pathPattern.exec(path) ?? [];
    return this.#versions.get(path) ?? { file: Number(file), version: 0, sizeBytes: Number(sizeBytes) };
  }

  twist(path: string, twist: Twist | undefined): void {
    if (twist === undefined) this.#twists.delete(path);
    else this.#twists.set(path, twist);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket)).on('error', () => {});
    socket.setNoDelay(true);
    this.#serve(socket).catch(() => socket.destroy());
  }

  async #serve(socket: Socket): Promise<void> {
    const reader = new ByteReader(socket);
    for (;;) {
      const head = await reader.until('\r\n\r\n');
      if (head === undefined || socket.destroyed) return;
      const asked = this.#read(head.toString('latin1'));
      if (asked === undefined) {
        socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n');
        return;
      }
      const honest = honestReply(asked);
      const reply = this.#twists.get(asked.path)?.(honest, asked) ?? honest;
      if (!(await this.#send(socket, asked.path, reply))) return;
    }
  }

  #read(head: string): Asked | undefined {
    const [, path = ''] = /^GET (\S+) /.exec(head) ?? [];
    const kind = pathPattern.exec(path)?.[1] as FileKind | undefined;
    if (kind === undefined) return undefined;
    const earlier = this.requestsFor(path);
    this.#requests.set(path, earlier + 1);
    const version = this.versionOf(path);
    const ifRange = /\r\nif-range: *([^\r]*)/i.exec(head)?.[1];
    const isValid = ifRange === undefined || ifRange === tagOf(kind, version);
    const range = isValid ? parseRange(/\r\nrange: *([^\r]*)/i.exec(head)?.[1], version.sizeBytes) : undefined;
    return { path, kind, earlier, version, range };
  }

  /** Sends a reply. Returns whether the connection can take another request. */
  async #send(socket: Socket, path: string, reply: Reply): Promise<boolean> {
    const { version, span, cutAfterBytes = Number.POSITIVE_INFINITY, pieceBytes, pauseMs, end } = reply;
    await write(socket, headOf(reply));
    const limit = Math.min(span.end, span.start + cutAfterBytes);
    const isChunked = String(reply.framing).startsWith('chunked');
    for (let offset = span.start; offset < limit && !socket.destroyed; ) {
      const piece = versionPiece(version, offset, Math.min(limit, offset + pieceBytes));
      await write(socket, isChunked ? chunk(piece) : piece);
      this.#bytes.set(path, this.bytesFor(path) + piece.length);
      offset += piece.length;
      if (pauseMs > 0) await delay(pauseMs);
    }
    if (limit === span.end && reply.framing === 'chunked') await write(socket, '0\r\n\r\n');
    if (limit === span.end && reply.extra !== undefined) await write(socket, reply.extra);
    if (end === 'fin') socket.end();
    if (end === 'stall') await untilClosed(socket);
    if (end === 'rst') {
      // Lets the sent bytes arrive before the reset.
      await delay(20);
      socket.resetAndDestroy();
    }
    return end === 'keep' && !socket.destroyed;
  }
}

function tagOf(kind: FileKind, version: FileVersion): string | undefined {
  if (kind === 'whole') return undefined;
  return `${kind === 'weak' ? 'W/' : ''}"${nameOf(version)}"`;
}

/** Returns the fields of a response with this version. */
export function fieldsOfVersion(kind: FileKind, version: FileVersion): Record<string, string> {
  const tag = tagOf(kind, version);
  return {
    'content-type': 'application/octet-stream',
    'cache-control': 'max-age=36000',
    [versionField]: nameOf(version),
    ...(tag === undefined ? {} : { etag: tag }),
    ...(kind === 'ranged' ? { 'accept-ranges': 'bytes' } : {}),
  };
}

/** Formats a Content-Range. */
export function contentRange({ start, end }: Span, sizeBytes: number): string {
  return `bytes ${start}-${end - 1}/${sizeBytes}`;
}

function honestReply({ kind, range, version }: Asked): Reply {
  const fields = fieldsOfVersion(kind, version);
  const common = { version, framing: 'true', end: 'keep', pieceBytes: 64 * 1024, pauseMs: 0 } as const;
  if (kind !== 'ranged' || range === undefined) {
    return { ...common, status: 200, fields, span: { start: 0, end: version.sizeBytes } };
  }
  return {
    ...common,
    status: 206,
    fields: { ...fields, 'content-range': contentRange(range, version.sizeBytes) },
    span: range,
  };
}

function headOf({ status, fields, span, framing }: Reply): string {
  const length = framing === 'true' ? span.end - span.start : framing;
  const framed =
    typeof length === 'number' ? { 'content-length': String(length) } : { 'transfer-encoding': 'chunked' as const };
  const lines = Object.entries({ ...fields, ...framed }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Whatever\r\n${lines.join('')}\r\n`;
}

function chunk(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

/** Parses one satisfiable range. Returns undefined for anything else, which the origin ignores. */
function parseRange(range: string | undefined, sizeBytes: number): Span | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const start = first === '' ? Math.max(0, sizeBytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? sizeBytes : Math.min(sizeBytes, Number(last) + 1);
  return start < end ? { start, end } : undefined;
}

/** Resolves when the system has taken the bytes, or the connection is gone. */
function write(socket: Socket, bytes: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed) resolve();
    else socket.write(bytes, () => resolve());
  });
}
