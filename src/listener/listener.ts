/** What a listener is: it speaks to clients and passes their requests to a handler. */

import type { Socket } from 'node:net';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import type { Certificates } from './accept/tls.ts';

/** Limits on what a client may send and on how long it may take. All of them are of the client's side only. */
export interface ListenerLimits {
  /** Bytes of the request target; a longer one gets 414. */
  readonly targetBytes: number;
  /** Bytes of the header section, four per line for its delimiters included; a larger one gets 431. */
  readonly fieldsBytes: number;
  /** Field lines of the header section; more of them get 431. */
  readonly maxFieldCount: number;
  /** From the first byte of a request, or from the connection's start, to the end of its head. 0 is no limit. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the end of its body. 0 is no limit. */
  readonly requestTimeoutMs: number;
  /**
   * How long a connection is kept without a request; the client is told it, and gets a second more. 0 leaves that to
   * `idleTimeoutMs`.
   */
  readonly keepAliveTimeoutMs: number;
  /** How long a client that is waited for may neither read nor send. 0 is no limit. */
  readonly idleTimeoutMs: number;
  /** From the head of a response to its end. 0 is no limit. */
  readonly responseTimeoutMs: number;
  /** A client that takes a response more slowly than this, over `idleTimeoutMs`, is cut off. 0 is no limit. */
  readonly minBytesPerSecond: number;
  /** A client that sends the body of a request more slowly than this, over `idleTimeoutMs`, gets 408. 0 is no limit. */
  readonly minUploadBytesPerSecond: number;
  /** The most requests at a time on one connection of HTTP/2. */
  readonly streamsPerConnection: number;
}

/** Where a listener can be reached. */
export interface ListenerAddress {
  /** Empty, and the port 0, for a Unix socket. */
  readonly host: string;
  readonly port: number;
  /** Such as `https://127.0.0.1:8443`, or `unix:/run/rangeway.sock`. */
  readonly url: string;
}

/** An open listener. */
export interface Listener {
  readonly address: ListenerAddress;
  /** Speaks TLS with these from the next handshake on, and closes those before. Of a listener that speaks TLS. */
  renew(certificates: Certificates): void;
  /**
   * Leaves its socket to another listener, or to be closed, and its connections to themselves: each ends after what runs on
   * it. One of HTTP/1 that has nothing to do is kept as long as ever, and takes one further request, so that none is lost that
   * is on its way. Resolves when none is left.
   */
  retire(): Promise<void>;
  /**
   * Closes its socket unless it has left it, closes the idle connections, lets running responses finish and cuts what is left
   * after the grace. Resolves with the number of connections that were cut. A second call can shorten the grace, not lengthen
   * it.
   */
  close(graceMs: number): Promise<{ readonly cut: number }>;
}

/** What a request says before its body. */
export type RequestHead = Pick<
  ProxyRequest,
  'method' | 'scheme' | 'authority' | 'target' | 'version' | 'fields' | 'peer' | 'receivedAt'
>;

/** The client's side of a tunnel that is asked for. */
export interface TunnelClient {
  /** The connection, given over: the tunnel writes its 101 and everything after it. */
  readonly socket: Socket;
  /** What the client has sent after its request. */
  readonly firstBytes: Buffer;
  /** Answers with something else than a tunnel; the connection ends after it. */
  answer(response: ProxyResponse): void;
}

/** Turns a request for an upgrade into a tunnel to an origin. Never throws. */
export interface Tunnel {
  open(request: RequestHead, client: TunnelClient): void;
}
