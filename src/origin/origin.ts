/**
 * What an origin is: something that answers a request, over whatever protocol. Read this file first. Also what the URL of an
 * origin says of its host, path and Unix socket, and an origin whose requests get fields that the operator configured.
 */

import type { Fields } from '../http/fields.ts';
import type { BodyStream, InterimResponse } from '../http/message.ts';

/** For whom something is fetched, for those who limit what a client may cost: one for each transfer, however often it is taken up again. */
export interface Errand {
  /** The client that it is charged to: the one that has begun it, or one that wants it too and whose turn for a connection came first. */
  client: string;
  /** The clients that want what comes next; undefined where that can only be the one who has asked. */
  wanters: (() => readonly string[]) | undefined;
  /** The clients that wait for the head of the response; absent where that can only be the one who has asked. */
  askers?: (() => readonly string[]) | undefined;
  /** Told of each client that comes to want it too. Set by the queue for connections, for as long as the request waits there. */
  onWanted?: ((client: string) => void) | undefined;
}

/** A request toward an origin. The fields are end-to-end only; the origin adds framing. */
export interface OriginRequest {
  readonly method: string;
  /** Origin-form: path and query, or `*`. */
  readonly target: string;
  readonly fields: Fields;
  readonly body: BodyStream | undefined;
  readonly bodySizeBytes: number | undefined;
  /** Ends the exchange, body included. */
  readonly signal: AbortSignal;
  readonly onInterim?: ((interim: InterimResponse) => void) | undefined;
  /** Absent where nobody is to answer for it. */
  readonly errand?: Errand | undefined;
  /** Whether it was sent before, and is sent again because nothing of use came. */
  readonly isResent?: boolean;
  /** What told the trace of the request that it is due to, where it is not sent for that one alone. */
  readonly causedBy?: Fields | undefined;
}

/**
 * How the end of a body is known (RFC 9112 §6.3): by its length, by the last chunk (or END_STREAM), by the end of the
 * connection, or because there is no body at all.
 */
export type Framing = 'length' | 'chunked' | 'close' | 'none';

/** The head of a response, and its body to be read. Iterating the body throws `ProxyError` when it breaks off. */
export interface OriginResponse {
  readonly status: number;
  /** All fields as received, those of the connection included. */
  readonly fields: Fields;
  /** The protocol version as Via writes it. */
  readonly version: string;
  readonly framing: Framing;
  /** The body's length where the framing tells it. */
  readonly sizeBytes: number | undefined;
  readonly body: BodyStream;
}

/** One origin. */
export interface Origin {
  /** Sends a request and resolves with the final response's head. Throws `ProxyError`. */
  fetch(request: OriginRequest): Promise<OriginResponse>;
  close(): Promise<void>;
}

/** An origin that has connections of its own. */
export interface ConnectedOrigin extends Origin {
  /**
   * Keeps no connection any more that nothing runs on. What runs goes on; what is sent later is, too, over connections that
   * end with it.
   */
  retire(): void;
}

const unixProtocol = 'unix:';

/** The Host of an origin at a Unix socket, which has no name of its own. */
const unixHost = 'localhost';

/** The path of the Unix socket that a URL such as `unix:/run/app.sock` names; undefined for other URLs. */
export function socketPathOf(url: URL): string | undefined {
  return url.protocol === unixProtocol ? url.pathname : undefined;
}

/** The origin's own authority, as its Host field names it (RFC 9110 §7.2). */
export function hostOfOrigin(url: URL): string {
  return url.protocol === unixProtocol ? unixHost : url.host;
}

/** The path that is put before every path, without a slash at its end; empty for a Unix socket. */
export function basePathOf(url: URL): string {
  return url.protocol === unixProtocol ? '' : url.pathname.replace(/\/$/, '');
}

/** Adds fields to every request: what the operator sets, secrets among it. The caller has taken out what they replace. */
export function createOriginWithFields(origin: Origin, fields: Fields): Origin {
  if (fields.length === 0) return origin;
  return {
    fetch: (request) => origin.fetch({ ...request, fields: [...request.fields, ...fields] }),
    close: () => origin.close(),
  };
}
