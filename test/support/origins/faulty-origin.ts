/** An origin of versioned files over raw connections, whose honest replies a test may twist: cut, stalled, or lied about. */

import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Span } from '../../../src/bytes/span.ts';
import { ByteReader } from '../clients/byte-reader.ts';
import { untilClosed } from '../clocks/until-closed.ts';
import { type FileVersion, nameOf, versionPiece } from './versioned-file.ts';
import { versionField } from './versioned-origin.ts';

/** `ranged`: strong entity tags and ranges; `tagged`: strong entity tags; `weak`: weak ones; `whole`: no validator. */
export type FileKind = 'ranged' | 'tagged' | 'weak' | 'whole';

/** What a file's path says of it. */
export interface FaultyFile {
  /** The first segment of the path, by which routes are told apart. */
  readonly route: string;
  readonly kind: FileKind;
  readonly sizeBytes: number;
  /** Tells this file from all others. */
  readonly file: number;
}

/** The path of such a file. It is fresh for ten hours. */
export function faultyPath({ route, kind, sizeBytes, file }: FaultyFile): string {
  return `/${route}/${kind}/${sizeBytes}/${file}`;
}

/** A request as the origin understands it. */
export interface Asked {
  readonly path: string;
  readonly kind: FileKind;
  /** How many requests for this path came before. */
  readonly earlier: number;
  /** What is asked for by Range and If-Range, if anything, whether this file has ranges or not. */
  readonly range: Span | undefined;
  readonly version: FileVersion;
}

/** What is sent. */
export interface Reply {
  readonly status: number;
  /** Beside the framing. */
  readonly fields: Readonly<Record<string, string>>;
  readonly version: FileVersion;
  /** The bytes of the version that make the body, and what is sent after them. */
  readonly span: Span;
  readonly extra?: string;
  /** Content-Length, where it is not the length of the span; or chunks, with or without the last one. */
  readonly framing: number | 'true' | 'chunked' | 'chunked-endless';
  /** What happens after so many bytes of the body, or at its end: the connection is kept, closed, reset or left as it is. */
  readonly end: 'keep' | 'fin' | 'rst' | 'stall';
  readonly cutAfterBytes?: number;
  /** How much is sent at a time, and the pause after it. */
  readonly pieceBytes: number;
  readonly pauseMs: number;
}

/** Makes something else of an honest reply. */
export type Twist = (honest: Reply, asked: Asked) => Reply;

/** A running origin. */
export interface FaultyOrigin extends AsyncDisposable {
  readonly url: string;
  /** How many requests for a path it has had, and how many bytes of bodies it has sent. */
  requestsFor(path: string): number;
  bytesFor(path: string): number;
  /** From now on a path has another version, so many bytes longer than the one before. */
  change(path: string, growthBytes?: number): void;
  versionOf(path: string): FileVersion;
  /** From now on replies for a path are twisted. */
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

  /** True when the connection is good for another request. */
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
      // What is on its way arrives before.
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

/** The fields of a version. */
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

/** Content-Range. */
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

/** One satisfiable range; undefined for anything else, which is ignored. */
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
