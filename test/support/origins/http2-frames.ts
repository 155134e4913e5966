/**
 * An HTTP/2 origin of bare frames (RFC 9113 §4.1): a test sends any frames in any order. Requests are not decoded; a play gets
 * the stream of its request.
 */

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import type { Field } from '../../../src/http/fields.ts';
import { ByteReader } from '../clients/byte-reader.ts';
import { encodeFields } from '../clients/h2-hpack.ts';
import { flag, frameBytes, frameType, preface } from '../clients/h2-raw-client.ts';
import { testCertificate } from '../values/tls-certificate.ts';

export const { endStream, endHeaders } = flag;

/** Encodes a frame. */
export function frame(type: keyof typeof frameType, flags: number, stream: number, payload: Uint8Array): Buffer {
  return frameBytes(frameType[type], flags, stream, payload);
}

/** Encodes field lines, `:status` included, as literals without indexing. */
export function lines(...fields: readonly Field[]): Buffer {
  return encodeFields(fields);
}

/** Reads the next frame. Returns undefined at the end of the connection. */
async function takeFrame(reader: ByteReader) {
  const head = await reader.take(9);
  if (head.length < 9) return undefined;
  const payload = await reader.take(head.readUIntBE(0, 3));
  return { type: head.readUInt8(3), flags: head.readUInt8(4), stream: head.readUInt32BE(5), payload };
}

/** One request to be answered. */
export interface FrameExchange {
  readonly stream: number;
  /** Number of the connection, from 1. */
  readonly connection: number;
  readonly socket: TLSSocket;
  send(...frames: readonly Buffer[]): void;
}

export type FramePlay = (exchange: FrameExchange) => unknown;

export interface FrameOrigin extends AsyncDisposable {
  readonly url: string;
  readonly exchanges: readonly FrameExchange[];
  /** The RST_STREAM frames that were received: `rst 1 8` for stream 1 with code 8. */
  readonly received: readonly string[];
}

/** Opens the origin. Each request gets the next play; the last play answers all later requests. */
export async function openFrameOrigin(
  { settings = Buffer.alloc(0) }: { readonly settings?: Buffer },
  ...plays: readonly FramePlay[]
): Promise<FrameOrigin> {
  const exchanges: FrameExchange[] = [];
  const received: string[] = [];
  const sockets = new Set<TLSSocket>();
  let connections = 0;
  const serve = async (socket: TLSSocket, connection: number): Promise<void> => {
    const reader = new ByteReader(socket);
    const send = (...frames: readonly Buffer[]) => void socket.write(Buffer.concat(frames));
    await reader.take(preface.length);
    send(frame('settings', 0, 0, settings));
    for (let next = await takeFrame(reader); next !== undefined; next = await takeFrame(reader)) {
      const { type, stream, payload } = next;
      if (type === frameType.settings && next.flags !== flag.ack) send(frame('settings', flag.ack, 0, Buffer.alloc(0)));
      if (type === frameType.reset) received.push(`rst ${stream} ${payload.readUInt32BE()}`);
      if (type !== frameType.headers) continue;
      const play = plays[Math.min(exchanges.length, plays.length - 1)];
      const exchange = { stream, connection, socket, send };
      exchanges.push(exchange);
      play?.(exchange);
    }
  };
  const server = createServer({ ...testCertificate, ALPNProtocols: ['h2'] }, (socket) => {
    sockets.add(socket);
    connections += 1;
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    serve(socket, connections).catch(() => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges,
    received,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
