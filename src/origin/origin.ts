/**
 * The interface of an origin: it answers requests, over whatever protocol. Also reads the host, path and Unix socket from the URL
 * of an origin, and adds the operator's fields to requests. Read this file first, then `exchange.ts` and `undici-origin.ts`.
 */

import type { BoundClient } from '../http/client-connection.ts';
import type { Fields } from '../http/fields.ts';
import type { BodyStream, InterimResponse } from '../http/message.ts';
import { type BodyObserver, ObservedBody } from '../http/observed-body.ts';
import type { ProxyError } from '../http/proxy-error.ts';
import { clientReferences, type ReferenceRules } from '../semantics/references.ts';

/** The clients of a transfer, for the limits per client. One object for each transfer, however often it is resumed. */
export interface ChargedClients {
  /** The client that is charged: the one that began the transfer. */
  client: string;
  /** Returns the clients that want the next bytes; undefined where only `client` can. */
  bodyClients: (() => readonly string[]) | undefined;
  /** Returns the clients that wait for the head of the response; absent where only `client` can. */
  headClients?: (() => readonly string[]) | undefined;
  /** Returns why a client may not begin the transfer; asked where the request has waited. Absent where no limit applies. */
  whyNotBegin?: ((client: string) => ProxyError | undefined) | undefined;
  /**
   * Whether the transfer only makes another one faster. It begins at once, with a connection that no other request is likely to need,
   * or fails with `origin_busy`.
   */
  readonly isSpare?: boolean;
  /**
   * Called when another request waits for the connection of this transfer, which should end soon. Spare transfers have it, and those
   * that nobody reads any more.
   */
  onNeeded?: (() => void) | undefined;
  /** Called with each further client that wants the transfer. Set by the connection queue while the request waits there. */
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
  /**
   * Whose connections carry the request: no other request uses them, and they end with the client's connection. Absent where the
   * request may share connections.
   */
  readonly owner?: BoundClient | undefined;
  /** Absent where no client is charged. */
  readonly charged?: ChargedClients | undefined;
  /** Whether the request was sent before, and is sent again because no usable response came. */
  readonly isResent?: boolean;
  /** The fields with the trace of the request that caused this one, where this one is not sent for that request alone. */
  readonly causedBy?: Fields | undefined;
}

/**
 * How the end of a body is known (RFC 9112 §6.3): by its length, by the last chunk (or END_STREAM), by the end of the
 * connection, or because there is no body at all.
 */
export type Framing = 'length' | 'chunked' | 'close' | 'none';

/** The head of a response, and its unread body. Iterating the body throws `ProxyError` when it breaks off. */
export interface OriginResponse {
  readonly status: number;
  /** All fields as received, hop-by-hop fields included. */
  readonly fields: Fields;
  /** The protocol version as Via writes it. */
  readonly version: string;
  readonly framing: Framing;
  /** The length of the body; undefined where the framing does not state it. */
  readonly sizeBytes: number | undefined;
  /** Names of the faults of the head that were mended; see `HeadMender`. */
  readonly mended?: readonly string[] | undefined;
  readonly body: BodyStream;
}

/** Returns a response with an observer of its body. */
export function observedResponse(response: OriginResponse, observer: BodyObserver): OriginResponse {
  const body = ObservedBody.of(response.body, observer);
  return body === response.body ? response : { ...response, body };
}

/** One origin. */
export interface Origin {
  /** Sends a request and resolves with the final response's head. Throws `ProxyError`. */
  fetch(request: OriginRequest): Promise<OriginResponse>;
  close(): Promise<void>;
}

/** The requests to an origin: those that have a place, by what holds it, and those that wait for one. */
export interface OriginUse {
  /** Responses that are passed on while they arrive. */
  readonly streams: number;
  /** Responses that are taken into the store. */
  readonly fills: number;
  /** Requests that have no response yet. */
  readonly unanswered: number;
  readonly waiting: number;
}

/** An origin that has connections of its own. */
export interface ConnectedOrigin extends Origin {
  /** What holds its connections now. Absent for one that does not count them. */
  readonly use?: OriginUse | undefined;
  /**
   * Closes all idle connections, and others when they become idle. Requests under way go on. Later requests are still sent, over
   * connections that close soon after.
   */
  retire(): void;
}

const unixProtocol = 'unix:';

/** The Host of an origin at a Unix socket, which has no host name. */
const unixHost = 'localhost';

/** Returns the path of the Unix socket in a URL such as `unix:/run/app.sock`; undefined for other URLs. */
export function socketPathOf(url: URL): string | undefined {
  return url.protocol === unixProtocol ? url.pathname : undefined;
}

/** Returns the origin's own authority, as in Host (RFC 9110 §7.2). */
export function hostOfOrigin(url: URL): string {
  return url.protocol === unixProtocol ? unixHost : url.host;
}

/** Returns the prefix of all paths at an origin, without a slash at its end; empty for a Unix socket. */
export function basePathOf(url: URL): string {
  return url.protocol === unixProtocol ? '' : url.pathname.replace(/\/$/, '');
}

/** Wraps an origin: every request gets the operator's fields, which may be secret. The caller has removed the fields that they replace. */
export function createOriginWithFields(origin: Origin, fields: Fields): Origin {
  if (fields.length === 0) return origin;
  return {
    fetch: (request) => origin.fetch({ ...request, fields: [...request.fields, ...fields] }),
    close: () => origin.close(),
  };
}

/**
 * Wraps an origin: in its responses, interim ones too, references to itself become those of its clients. What is stored, and what
 * stored responses are invalidated by, is so the same as what clients get.
 */
export function createMappedOrigin(origin: Origin, rules: ReferenceRules): Origin {
  return {
    async fetch(request) {
      const map = (fields: Fields) => clientReferences(fields, rules, request);
      const { onInterim } = request;
      const response = await origin.fetch(
        onInterim === undefined
          ? request
          : { ...request, onInterim: ({ status, fields }) => onInterim({ status, fields: map(fields) }) },
      );
      const fields = map(response.fields);
      return fields === response.fields ? response : { ...response, fields };
    },
    close: () => origin.close(),
  };
}
