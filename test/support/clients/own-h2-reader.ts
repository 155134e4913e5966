/** Has the HTTP/2 listener read bytes without a network, and returns what it made of them. */

import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { errorResponse } from '../../../src/delivery/problem.ts';
import type { ProxyRequest } from '../../../src/http/message.ts';
import { Http2Connection } from '../../../src/listener/http2/connection.ts';
import { UnreadContent } from '../../../src/listener/message-body.ts';
import type { ProtocolOptions } from '../../../src/listener/protocol.ts';
import { answer, type ResponseContext, respond } from '../../../src/listener/respond.ts';
import { WriteBuffer } from '../../../src/listener/write-buffer.ts';
import { testLimits, textResponse } from '../proxies/open-listener.ts';

/** A socket that takes everything at once, and keeps it. */
class KeptSocket extends EventEmitter {
  readonly written: Buffer[] = [];
  readonly writableLength = 0;
  readonly errored = null;
  writable = true;
  destroyed = false;
  bytesRead = 0;
  bytesWritten = 0;

  write(bytes: Uint8Array): boolean {
    this.written.push(Buffer.from(bytes));
    this.bytesWritten += bytes.length;
    return true;
  }

  end(): void {
    this.writable = false;
  }

  destroy(): void {
    this.writable = false;
    this.destroyed = true;
  }

  cork(): void {}
  uncork(): void {}
  pause(): void {}
  resume(): void {}
}

/** What an HTTP/2 listener made of bytes. */
export interface Http2Reading {
  /** The requests: method, authority, target and field lines. */
  readonly requests: readonly (readonly [method: string, authority: string, target: string, ...fields: string[]])[];
  /** All bytes that it has sent. */
  readonly sent: Buffer;
  /** Whether it has ended the connection. */
  readonly isEnded: boolean;
}

const unlimited = { watch: () => () => {} };

/** Reads pieces of bytes that follow the preface of a client. Each request is answered at once. */
export function readAsHttp2Listener(pieces: readonly Buffer[]): Http2Reading {
  const socket = new KeptSocket();
  const requests: ProxyRequest[] = [];
  const handler = (request: ProxyRequest) => {
    requests.push(request);
    return textResponse('well');
  };
  const options: ProtocolOptions = { scheme: 'http', handler, emit: () => {}, now: () => 0, limits: testLimits };
  const context: ResponseContext = { handler, now: options.now, pace: unlimited };
  new Http2Connection(socket as unknown as Socket, { address: '127.0.0.1', port: 1 }, options, {
    pace: unlimited,
    uploadPace: unlimited,
    writeBuffer: new WriteBuffer(),
    unread: new UnreadContent(),
    noteReset: () => false,
    take: (exchange, request) => answer(exchange, request, context),
    refuse: (exchange, error) => respond(exchange, errorResponse(error), context),
  });
  for (const piece of pieces) {
    socket.bytesRead += piece.length;
    if (!socket.destroyed) socket.emit('data', piece);
  }
  return {
    requests: requests.map(({ method, authority, target, fields }) => [method, authority, target, ...fields.flat()]),
    sent: Buffer.concat(socket.written),
    isEnded: !socket.writable,
  };
}
