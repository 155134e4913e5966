/** Interfaces of a listener, which speaks to clients and passes their requests to a handler. Next: `accept/open-listener.ts`. */

import type { Socket } from 'node:net';
import type { ClientConnection } from '../http/client-connection.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';

/** Limits on the size, the duration and the rate of requests and responses, on the client's side only. */
export interface ListenerLimits {
  /** Bytes of the request target; a longer one gets 414. */
  readonly targetBytes: number;
  /** Bytes of the header section, counting four per line for its delimiters; a larger one gets 431. */
  readonly fieldsBytes: number;
  /** Number of field lines in the header section; more get 431. */
  readonly maxFieldCount: number;
  /** From the first byte of a request, or from the connection's start, to the end of its head. 0 is no limit. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the end of its body. 0 is no limit. */
  readonly requestTimeoutMs: number;
  /**
   * How long a connection is kept open without a request. HTTP/1 states it in Keep-Alive, and adds one second. 0 applies
   * `idleTimeoutMs` instead.
   */
  readonly keepAliveTimeoutMs: number;
  /** How long a client may neither read nor send while the proxy waits for it. 0 is no limit. */
  readonly idleTimeoutMs: number;
  /** From the head of a response to its end. 0 is no limit. */
  readonly responseTimeoutMs: number;
  /** Minimum rate at which a client reads a response, averaged over `idleTimeoutMs`. Slower ones are broken off. 0 is no limit. */
  readonly minBytesPerSecond: number;
  /** Minimum rate at which a client sends a request body, averaged over `idleTimeoutMs`. Slower ones get 408. 0 is no limit. */
  readonly minUploadBytesPerSecond: number;
  /** Maximum number of concurrent requests on one HTTP/2 connection. */
  readonly streamsPerConnection: number;
  /** Methods that are served besides the registered ones. */
  readonly methods?: ReadonlySet<string>;
  /** Protocols besides WebSocket that Upgrade may name, in lower case. */
  readonly upgrades?: ReadonlySet<string>;
}

/** A request without its body. */
export type RequestHead = Pick<
  ProxyRequest,
  'method' | 'scheme' | 'authority' | 'target' | 'version' | 'fields' | 'peer' | 'receivedAt'
>;

/** The client's side of a requested tunnel. */
export interface TunnelClient {
  /** The connection. From now on the tunnel owns it: it writes the 101 and everything after it. */
  readonly socket: Socket;
  /** As `ProxyRequest.connection`; absent where the connection cannot go on after a response. */
  readonly connection?: ClientConnection;
  /** Bytes that the client has sent after its request. */
  readonly firstBytes: Buffer;
  /** The protocol that the tunnel is for, as the client wrote it. */
  readonly protocol: string;
  /** How many bytes of content the request has; they come first. */
  readonly contentBytes: number;
  /** Sends a response in place of a tunnel; the connection ends after it where `closeConnection` says so, or `connection` is absent. */
  answer(response: ProxyResponse): void;
}

/** Turns an upgrade request into a tunnel to an origin. `open` never throws. */
export interface Tunnel {
  open(request: RequestHead, client: TunnelClient): void;
}
