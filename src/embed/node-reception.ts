/** Reads the head of a request that a server of Node has parsed, with the checks of our own listeners. */

import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { plainAddress } from '../guard/client.ts';
import type { Peer } from '../http/message.ts';
import { receiveHttp2Head } from '../listener/http2/receive.ts';
import type { ListenerLimits } from '../listener/listener.ts';
import { parseFields, type Reception, receiveHead, refused } from '../listener/receive.ts';

/** A request of `node:http`, `node:https` or the compatibility API of `node:http2`. Connect and Express add `originalUrl`. */
export type NodeRequest = (IncomingMessage | Http2ServerRequest) & { readonly originalUrl?: string | undefined };

/** The parts that requests are received with. */
export interface NodeReceptionContext {
  readonly now: () => number;
  readonly limits: ListenerLimits;
}

/**
 * Validates the head of a request. The target is the one that the client sent: `originalUrl` where a framework has removed the
 * path under which it has mounted a middleware. The scheme and the peer are those of the socket.
 */
export function receiveNodeHead(request: NodeRequest, { now, limits }: NodeReceptionContext): Reception {
  const scheme: 'http' | 'https' =
    'encrypted' in request.socket && request.socket.encrypted === true ? 'https' : 'http';
  const context = { scheme, peer: peerOf(request), receivedAt: now(), limits };
  const target = request.originalUrl ?? request.url ?? '';
  if (isHttp2(request)) {
    return receiveHttp2Head(
      { list: withPath(request.rawHeaders, target), fault: undefined, isTooLarge: false },
      context,
    );
  }
  const { method = '', httpVersion, rawHeaders } = request;
  if (httpVersion !== '1.0' && httpVersion !== '1.1') return refused('malformed_request', `HTTP/${httpVersion}`);
  return receiveHead({ method, target, version: httpVersion, fields: parseFields(rawHeaders) }, context);
}

/** Whether a request has come over HTTP/2. */
export function isHttp2(request: NodeRequest): request is Http2ServerRequest {
  return request.httpVersionMajor === 2;
}

/** A proxy that Node has put before the socket of HTTP/2 answers these two, too. A Unix socket has no address. */
function peerOf({ socket }: NodeRequest): Peer {
  return { address: plainAddress(socket.remoteAddress ?? ''), port: socket.remotePort ?? 0 };
}

function withPath(list: readonly string[], target: string): string[] {
  const at = list.indexOf(':path');
  return at % 2 === 0 ? list.with(at + 1, target) : [...list];
}
