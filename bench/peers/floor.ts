/**
 * The cost of Node without a proxy: a bare server that parses the head with one regular expression, looks up the path in one
 * Map and writes once. It fetches missing bodies with undici and writes each into a file. It follows no rule of HTTP
 * caching: it is no real peer, but a lower bound for Rangeway's costs.
 */

import { open, read, writeFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { performServerHandshake, type ServerHttp2Stream } from 'node:http2';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createSecureServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { BenchFault } from '../fault.ts';
import type { Peer, PeerPlace } from './peer.ts';
import { startServer } from './server-process.ts';

const program = fileURLToPath(import.meta.url);

/** Name of the floor in tables. */
export const floorName = 'floor';

export const floorPeer: Peer = {
  name: floorName,
  version: `of bare Node ${process.versions.node}`,
  async start(place) {
    if (place.workers > 1) throw new BenchFault('it has no workers');
    return await startServer([process.execPath, program, JSON.stringify(place)], place);
  },
};

/** Bytes of bodies that may still be kept in memory. It starts at Rangeway's default memory size. */
let memoryLeftBytes = 128e6;

/** Buffers larger than this are not reused. */
const longestLentBytes = 2 * 1024 * 1024;

interface Entry {
  readonly fields: string;
  readonly type: string;
  readonly etag: string;
  readonly lastModified: string;
  readonly sizeBytes: number;
  /** Undefined where the body is read from `file`. */
  readonly body: Buffer | undefined;
  readonly file: string;
  descriptor: number | undefined;
}

/** A request for an entry. */
interface Question {
  readonly method: string | undefined;
  readonly path: string;
  readonly range: string | undefined;
  readonly noneMatch: string | undefined;
  readonly modifiedSince: string | undefined;
  readonly ifRange: string | undefined;
}

/** A response: its status, and the spans of the body that a 206 sends. */
interface Reply {
  readonly status: number;
  readonly spans: readonly (readonly [start: number, end: number])[];
}

const entries = new Map<string, Promise<Entry> | Entry>();
const lent: Buffer[] = [];

if (process.argv[1] === program) serve(JSON.parse(process.argv[2] ?? '') as PeerPlace);

function serve({ port, originPort, dir, certificate }: PeerPlace): void {
  const origin = new Pool(`http://127.0.0.1:${originPort}`, { connections: 128 });
  const find = (path: string): Promise<Entry> | Entry => {
    const known = entries.get(path);
    if (known !== undefined) return known;
    const fetched = fetchEntry(origin, path, join(dir, `body-${entries.size}`));
    entries.set(path, fetched);
    return fetched;
  };
  if (certificate === undefined) {
    createServer({ noDelay: true }, (socket) => serveHttp1(socket, find)).listen(port, '127.0.0.1', 4096);
    return;
  }
  void Promise.all([readFile(certificate.certFile), readFile(certificate.keyFile)]).then(([cert, key]) => {
    createSecureServer({ cert, key, ALPNProtocols: ['h2', 'http/1.1'], noDelay: true }, (socket) => {
      if (socket.alpnProtocol !== 'h2') return serveHttp1(socket, find);
      socket.on('error', () => {});
      const session = performServerHandshake(socket).on('error', () => {});
      session.on('stream', (stream, head) => {
        stream.on('error', () => {});
        const { ':method': method, ':path': path = '', range } = head;
        const question = {
          method,
          path,
          range,
          noneMatch: head['if-none-match'],
          modifiedSince: head['if-modified-since'],
          ifRange: String(head['if-range'] ?? '') || undefined,
        };
        const found = find(path);
        if (found instanceof Promise) void found.then((entry) => answerHttp2(stream, entry, question));
        else answerHttp2(stream, found, question);
      });
    }).listen(port, '127.0.0.1', 4096);
  });
}

type Find = (path: string) => Promise<Entry> | Entry;

const wanted =
  /^(GET|HEAD) (\S+)|\r\n(?:range: *bytes=([^\r]*)|if-none-match: *([^\r]*)|if-modified-since: *([^\r]*)|if-range: *([^\r]*))/gi;

function serveHttp1(socket: Socket, find: Find): void {
  let received = '';
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (text: string) => {
    received = received === '' ? text : received + text;
    if (!received.endsWith('\r\n\r\n')) return;
    const head = received;
    received = '';
    let [method, path, range, noneMatch, modifiedSince, ifRange]: (string | undefined)[] = [];
    for (const match of head.matchAll(wanted)) {
      method ??= match[1];
      path ??= match[2];
      range ??= match[3];
      noneMatch ??= match[4];
      modifiedSince ??= match[5];
      ifRange ??= match[6];
    }
    const question = { method, path: path ?? '', range, noneMatch, modifiedSince, ifRange };
    const found = find(question.path);
    if (found instanceof Promise) void found.then((entry) => answerHttp1(socket, entry, question));
    else answerHttp1(socket, found, question);
  });
}

const boundary = 'floor';

function answerHttp1(socket: Socket, entry: Entry, question: Question): void {
  const { status, spans } = replyTo(entry, question);
  const date = `\r\nDate: ${dateNow()}\r\n\r\n`;
  if (status === 304) return void socket.write(`HTTP/1.1 304 Not Modified${entry.fields}${date}`, 'latin1');
  if (spans.length > 1) return void socket.write(multipart(entry, spans, date), 'latin1');
  const [[start, end] = [0, entry.sizeBytes]] = spans;
  const part = status === 206 ? `\r\nContent-Range: bytes ${start}-${end - 1}/${entry.sizeBytes}` : '';
  const head = `HTTP/1.1 ${status} OK${entry.fields}\r\nContent-Type: ${entry.type}\r\nContent-Length: ${end - start}${part}${date}`;
  if (question.method === 'HEAD') return void socket.write(head, 'latin1');
  readSpan(entry, head, start, end, (bytes, done) => socket.write(bytes, done));
}

function multipart({ body, type, fields, sizeBytes }: Entry, spans: Reply['spans'], date: string): string {
  const parts = spans.map(([start, end]) => {
    const head = `--${boundary}\r\nContent-Type: ${type}\r\nContent-Range: bytes ${start}-${end - 1}/${sizeBytes}`;
    return `${head}\r\n\r\n${body?.toString('latin1', start, end)}\r\n`;
  });
  const text = `${parts.join('')}--${boundary}--\r\n`;
  const head = `HTTP/1.1 206 OK${fields}\r\nContent-Type: multipart/byteranges; boundary=${boundary}`;
  return `${head}\r\nContent-Length: ${text.length}${date}${text}`;
}

function answerHttp2(stream: ServerHttp2Stream, entry: Entry, question: Question): void {
  if (stream.destroyed) return;
  const { status, spans } = replyTo(entry, question);
  const [[start, end] = [0, entry.sizeBytes]] = spans;
  const head: Record<string, string | number> = { ':status': status, etag: entry.etag, age: '0' };
  head['last-modified'] = entry.lastModified;
  if (status === 206) head['content-range'] = `bytes ${start}-${end - 1}/${entry.sizeBytes}`;
  if (status !== 304) head['content-length'] = end - start;
  stream.respond(head, { endStream: status === 304 || question.method === 'HEAD' });
  if (status === 304 || question.method === 'HEAD') return;
  readSpan(entry, '', start, end, (bytes, done) => stream.end(bytes, done));
}

function replyTo({ etag, lastModified, sizeBytes }: Entry, question: Question): Reply {
  const { noneMatch, modifiedSince, ifRange, range } = question;
  const isSame = noneMatch === undefined ? modifiedSince === lastModified : noneMatch === etag;
  if (isSame) return { status: 304, spans: [] };
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) return { status: 200, spans: [] };
  const spans = range
    .replace('bytes=', '')
    .split(',')
    .map((each): [number, number] => {
      const dash = each.indexOf('-');
      return [Number(each.slice(0, dash)), Math.min(Number(each.slice(dash + 1)) + 1, sizeBytes)];
    });
  return { status: 206, spans };
}

/** Writes head and body in one piece, from a lent buffer into which the body is copied from memory or read from the file. */
function readSpan(
  entry: Entry,
  head: string,
  start: number,
  end: number,
  write: (bytes: Buffer, done: () => void) => void,
): void {
  const { body } = entry;
  const needed = head.length + end - start;
  const buffer = takeBuffer(needed);
  const give = () => {
    if (buffer.length <= longestLentBytes) lent.push(buffer);
  };
  buffer.write(head, 'latin1');
  if (body !== undefined) {
    body.copy(buffer, head.length, start, end);
    write(buffer.subarray(0, needed), give);
    return;
  }
  const readFrom = (descriptor: number) =>
    read(descriptor, buffer, head.length, end - start, start, () => write(buffer.subarray(0, needed), give));
  if (entry.descriptor !== undefined) {
    readFrom(entry.descriptor);
    return;
  }
  open(entry.file, (error, descriptor) => {
    if (error !== null) throw error;
    entry.descriptor = descriptor;
    readFrom(descriptor);
  });
}

/** Returns a buffer that was given back, if it is large enough; otherwise a new one. */
function takeBuffer(sizeBytes: number): Buffer {
  const buffer = lent.pop();
  return buffer !== undefined && buffer.length >= sizeBytes
    ? buffer
    : Buffer.allocUnsafeSlow(Math.max(sizeBytes, 4096));
}

/** Fetches a body by undici's `dispatch`, its cheapest interface. */
function fetchEntry(origin: Pool, path: string, file: string): Promise<Entry> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let head: IncomingHttpHeaders = {};
    const keep = () => {
      const body = Buffer.concat(chunks);
      const entry = entryOf(head, body, file);
      const isInMemory = body.length <= memoryLeftBytes;
      if (isInMemory) memoryLeftBytes -= body.length;
      writeFile(file, body, () => entries.set(path, isInMemory ? entry : { ...entry, body: undefined }));
      resolve(entry);
    };
    origin.dispatch(
      { method: 'GET', path },
      {
        onRequestStart: () => {},
        onResponseStart: (_controller, _status, headers) => {
          head = headers;
        },
        onResponseData: (_controller, chunk) => void chunks.push(chunk),
        onResponseEnd: keep,
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });
}

function entryOf(headers: IncomingHttpHeaders, body: Buffer, file: string): Entry {
  const { etag, 'last-modified': lastModified, 'content-type': type } = headers;
  return {
    fields: `\r\nETag: ${etag}\r\nLast-Modified: ${lastModified}\r\nCache-Control: max-age=86400\r\nAge: 0`,
    type: String(type),
    etag: String(etag),
    lastModified: String(lastModified),
    sizeBytes: body.length,
    body,
    file,
    descriptor: undefined,
  };
}

let date = '';
let dateAt = 0;

function dateNow(): string {
  const now = Date.now();
  if (now - dateAt >= 1000) {
    dateAt = now;
    date = new Date(now).toUTCString();
  }
  return date;
}
