/** An origin of long exchanges: WebSocket, Server-Sent Events, and a call as in gRPC-web. */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { LegacyOrigin } from '../origin.ts';
import { listening } from './node-origins.ts';

/** Returns a message of gRPC-web: a flag, the length, the bytes. The flag 0x80 marks trailers. */
export function grpcFrame(content: string, flag = 0): Buffer {
  const bytes = Buffer.from(content);
  const head = Buffer.alloc(5);
  head.writeUInt8(flag);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** A frame of a client, and the bytes that it took. */
interface WebSocketFrame {
  readonly first: number;
  readonly content: Buffer;
  readonly size: number;
}

/** Reads a masked frame of at most 65,535 bytes (RFC 6455 §5.2); undefined where it has not arrived whole. */
function readFrame(bytes: Buffer): WebSocketFrame | undefined {
  const [first = 0, second = 0] = bytes;
  const maskAt = (second & 127) === 126 ? 4 : 2;
  const from = maskAt + 4;
  if (bytes.length < from) return undefined;
  const length = maskAt === 4 ? bytes.readUInt16BE(2) : second & 127;
  if (bytes.length < from + length) return undefined;
  const mask = bytes.subarray(maskAt, from);
  const content = Buffer.from(bytes.subarray(from, from + length).map((byte, at) => byte ^ (mask[at % 4] ?? 0)));
  return { first, content, size: from + length };
}

/** Echoes the frames of a WebSocket, and closes it after the client's close frame. */
function echo(socket: Socket, head: Buffer): void {
  let unread = head;
  const answer = (): void => {
    for (let frame = readFrame(unread); frame !== undefined; frame = readFrame(unread)) {
      const { first, content, size } = frame;
      unread = unread.subarray(size);
      const isLong = content.length > 125;
      const length = isLong ? [126, content.length >> 8, content.length & 255] : [content.length];
      socket.write(Buffer.concat([Buffer.from([first, ...length]), content]));
      if ((first & 15) === 8) socket.end();
    }
  };
  answer();
  socket.on('data', (piece: Buffer) => {
    unread = Buffer.concat([unread, piece]);
    answer();
  });
}

/** Below any path: `echo` upgrades, `events` and `call` send a part and the rest after a POST to `go`. */
export const liveOrigin: LegacyOrigin = {
  name: 'Node, live',
  programs: [],
  habit: { hasRanges: false, isStrong: false, transfers: 1 },
  start() {
    const waiting = new Map<string, () => void>();
    const gone = (request: IncomingMessage): Promise<void> =>
      new Promise((resolve) => waiting.set((request.url ?? '').replace(/[^/]*$/, 'go'), resolve));
    const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const name = (request.url ?? '').replace(/^.*\//, '');
      if (name === 'events') {
        const go = gone(request);
        response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
        response.write('id: 1\ndata: first\n\n');
        await go;
        response.write('id: 2\ndata: second\n\n');
        await once(response, 'close');
      } else if (name === 'call') {
        const body = Buffer.concat((await request.toArray()) as Buffer[]);
        const go = gone(request);
        response.writeHead(200, { 'content-type': 'application/grpc-web+proto' });
        response.write(grpcFrame(`you sent ${createHash('sha256').update(body).digest('hex')}`));
        await go;
        response.write(grpcFrame('more'));
        response.end(grpcFrame('grpc-status: 0\r\n', 0x80));
      } else {
        waiting.get(request.url ?? '')?.();
        response.writeHead(name === 'go' ? 204 : 404).end();
      }
    };
    const server = createServer((request, response) => void respond(request, response));
    server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
      const accept = createHash('sha1').update(key).digest('base64');
      const fields = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}`;
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n\r\n`);
      echo(socket, head);
    });
    return listening(server);
  },
};
