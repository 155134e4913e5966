/** Origins that are servers of Node. */

import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { LegacyOrigin, StartedOrigin } from '../origin.ts';

/** Listens on a free port. Disposing closes all connections. */
export async function listening(server: Server, targetOf = (path: string): string => path): Promise<StartedOrigin> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket)).on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    target: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    targetOf,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Starts a server that answers each request for a file with `send`, and 404 where there is none. */
function serving(
  dir: string,
  send: (path: string, request: IncomingMessage, response: ServerResponse) => Promise<void>,
): RequestListener {
  return (request, response) => {
    const path = join(dir, decodeURIComponent((request.url ?? '/').split('?')[0] ?? '/'));
    stat(path)
      .then((found) => (found.isFile() ? send(path, request, response) : notFound(response)))
      .catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? notFound(response) : response.destroy()));
  };
}

function notFound(response: ServerResponse): void {
  response.writeHead(404, { 'content-type': 'text/plain' }).end('not found\n');
}

/** The types that browsers and package tools look at. */
function typeOf(path: string): string {
  if (path.endsWith('.mp4') || path.endsWith('.m4s')) return 'video/mp4';
  if (path.endsWith('.m3u8')) return 'application/vnd.apple.mpegurl';
  if (path.endsWith('.mpd')) return 'application/dash+xml';
  if (path.endsWith('/')) return 'text/html';
  return 'application/octet-stream';
}

/** Sends files in chunks: no length, no validator, no ranges. */
export const chunkedOrigin: LegacyOrigin = {
  name: 'Node, chunked',
  programs: [],
  habit: { hasRanges: false, isStrong: false, transfers: 1 },
  start: (dir) =>
    listening(
      createServer(
        serving(dir, async (path, request, response) => {
          response.writeHead(200, { 'content-type': typeOf(path) });
          if (request.method === 'HEAD') response.end();
          else pipeline(createReadStream(path), response, () => undefined);
        }),
      ),
    ),
};

/** Speaks HTTP/1.0: no length, and the end of the connection is the end of the file. */
export const closingOrigin: LegacyOrigin = {
  name: 'HTTP/1.0, closing',
  programs: [],
  habit: { hasRanges: false, isStrong: true, transfers: 1 },
  start: (dir) =>
    listening(
      createNetServer((socket) => {
        socket.once('data', (head) => {
          const [method, target = '/'] = head.toString('latin1').split(' ');
          const path = join(dir, target);
          stat(path).then(
            ({ mtime }) => {
              const fields = `Content-Type: ${typeOf(path)}\r\nLast-Modified: ${mtime.toUTCString()}`;
              socket.write(`HTTP/1.0 200 OK\r\n${fields}\r\n\r\n`);
              if (method === 'HEAD') socket.end();
              else pipeline(createReadStream(path), socket, () => undefined);
            },
            () => socket.end('HTTP/1.0 404 Not Found\r\n\r\n'),
          );
        });
      }),
    ),
};

/** Bytes after which the cutting origins break a transfer off. */
const cutAfterBytes = 400_000;

/** Sends slowly: yields to all other work between small pieces, and resets the connection after `length` bytes of a longer body. */
async function sendSlowly(response: ServerResponse, bytes: Buffer, length: number): Promise<void> {
  for (let at = 0; at < Math.min(length, bytes.length) && !response.destroyed; at += 16_384) {
    if (!response.write(bytes.subarray(at, Math.min(at + 16_384, length)))) {
      await Promise.race([once(response, 'drain'), once(response, 'close')]);
    }
    await turn();
  }
  if (length < bytes.length) response.destroy();
  else response.end();
}

function tagOf(bytes: Buffer): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

/** Breaks off the first transfer of each file, and has no ranges. */
export const cuttingOrigin: LegacyOrigin = {
  name: 'slow, cuts once, no ranges',
  programs: [],
  habit: { hasRanges: false, isStrong: true, transfers: 2 },
  start: (dir) => {
    const cut = new Set<string>();
    return listening(
      createServer(
        serving(dir, async (path, request, response) => {
          const bytes = await readFile(path);
          response.writeHead(200, {
            'content-type': typeOf(path),
            'content-length': bytes.length,
            etag: tagOf(bytes),
          });
          if (request.method === 'HEAD') return void response.end();
          const target = request.url ?? '';
          await sendSlowly(response, bytes, cut.has(target) ? bytes.length : cutAfterBytes);
          cut.add(target);
        }),
      ),
    );
  },
};

/** Breaks off every transfer, and has ranges. */
export const flakyOrigin: LegacyOrigin = {
  name: 'slow, cuts always, ranges',
  programs: [],
  habit: { hasRanges: true, isStrong: true, transfers: 2 },
  start: (dir) =>
    listening(
      createServer(
        serving(dir, async (path, { method, headers }, response) => {
          const bytes = await readFile(path);
          const etag = tagOf(bytes);
          const fields = { 'content-type': typeOf(path), etag, 'accept-ranges': 'bytes' };
          const isForThis = (headers['if-range'] ?? etag) === etag;
          const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(headers.range ?? '') ?? [];
          if ((first === '' && last === '') || !isForThis || method !== 'GET') {
            response.writeHead(200, { ...fields, 'content-length': bytes.length });
            return method === 'HEAD' ? void response.end() : sendSlowly(response, bytes, cutAfterBytes);
          }
          const start = first === '' ? Math.max(0, bytes.length - Number(last)) : Number(first);
          const end = first === '' || last === '' ? bytes.length : Math.min(bytes.length, Number(last) + 1);
          if (start >= end) {
            return void response.writeHead(416, { ...fields, 'content-range': `bytes */${bytes.length}` }).end();
          }
          const range = `bytes ${start}-${end - 1}/${bytes.length}`;
          response.writeHead(206, { ...fields, 'content-range': range, 'content-length': end - start });
          await sendSlowly(response, bytes.subarray(start, end), cutAfterBytes);
        }),
      ),
    ),
};

const s3Secret = 'a secret of the bucket';

function s3Signature(path: string, expires: string): string {
  return createHmac('sha256', s3Secret).update(`GET\n${path}\n${expires}`).digest('hex');
}

function isSigned(target: string): boolean {
  const { pathname, searchParams } = new URL(target, 'http://bucket');
  const given = Buffer.from(searchParams.get('X-Amz-Signature') ?? '');
  const right = Buffer.from(s3Signature(pathname, searchParams.get('X-Amz-Expires') ?? ''));
  return given.length === right.length && timingSafeEqual(given, right);
}

/** A bucket with presigned URLs: an entity tag, a length, no ranges, and 403 as XML for any other URL. */
export const s3Origin: LegacyOrigin = {
  name: 'S3-like, presigned URLs',
  programs: [],
  habit: { hasRanges: false, isStrong: true, transfers: 1 },
  start: (dir) => {
    const send = serving(dir, async (path, request, response) => {
      const bytes = await readFile(path);
      response.writeHead(200, {
        'content-type': typeOf(path),
        'content-length': bytes.length,
        etag: tagOf(bytes),
        'x-amz-request-id': '0A1B2C3D4E5F',
      });
      response.end(request.method === 'HEAD' ? undefined : bytes);
    });
    const server = createServer((request, response) => {
      if (isSigned(request.url ?? '')) return send(request, response);
      const fields = { 'content-type': 'application/xml' };
      response.writeHead(403, fields).end('<Error><Code>SignatureDoesNotMatch</Code></Error>');
    });
    return listening(server, (path) => `${path}?X-Amz-Expires=3600&X-Amz-Signature=${s3Signature(path, '3600')}`);
  },
};
