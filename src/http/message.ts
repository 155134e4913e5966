/** Requests and responses as plain values; no protocol and no socket is known here. */

import type { Fields } from './fields.ts';
import type { Problem } from './problem.ts';
import type { ProxyError } from './proxy-error.ts';

/**
 * A body that is read once, in order. `close` gives back what it holds, read or not, and may be called more than once.
 * Iterating throws a `ProxyError` when the body breaks off: what came before it must then never look whole.
 */
export interface BodyStream extends AsyncIterable<Uint8Array> {
  /**
   * What the iteration would give next, without waiting for it. Between its steps, or in place of them; does not throw. Who
   * tells how much is wanted may get more all the same.
   */
  readonly take?: ((wantedBytes?: number) => Taken) | undefined;
  /**
   * Has the system put `head`, and then what comes next, into a socket (its descriptor) that waits for nothing, and passes what
   * of it that took. Gives how many bytes of both, together, it took, at once and for good: 0 where what comes next cannot be
   * moved. Between the steps, as `take`; does not throw.
   */
  readonly moveTo?: ((socket: number, head: Uint8Array) => number) | undefined;
  /** The trailer fields (RFC 9110 §6.5), known once the body was read to its end; absent where there cannot be any. */
  readonly trailers?: (() => Fields) | undefined;
  close(): void;
}

/** Bytes of a file that the system can move into a socket by itself. None of these throws. */
export interface MovableBytes {
  /**
   * Has `head`, and then the bytes, put into a socket (its descriptor) that waits for nothing. Gives how many of both,
   * together, the socket took, at once and for good. To be called once.
   */
  move(socket: number, head: Uint8Array): number;
  /** The bytes from one of them on, read and checked, whatever it takes; undefined where they are not there any more. */
  readFrom(offset: number): readonly Uint8Array[] | undefined;
}

/** A chunk that is there; that there are no more; or that the iteration has to be asked, which waits for one, or throws. */
export type Taken = Uint8Array | 'end' | 'later';

/** The body of a response. `sizeBytes` is what Content-Length says; undefined means that it is not known beforehand. */
export type Body =
  | { readonly kind: 'none' }
  | { readonly kind: 'bytes'; readonly sizeBytes: number; readonly chunks: readonly Uint8Array[] }
  | { readonly kind: 'stream'; readonly sizeBytes: number | undefined; readonly stream: BodyStream };

/** An interim response (RFC 9110 §15.2), such as 103. */
export interface InterimResponse {
  readonly status: number;
  readonly fields: Fields;
}

/** The peer at the other end of a connection. */
export interface Peer {
  readonly address: string;
  readonly port: number;
}

/** A request as a listener received it, framing already undone. */
export interface ProxyRequest {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  /** The authority as the client sent it (Host or `:authority`), or an empty string from an HTTP/1.0 client without one. */
  readonly authority: string;
  /** The origin-form target as received, or `*` for OPTIONS. */
  readonly target: string;
  /** The protocol version as Via writes it (RFC 9110 §7.6.3): `1.0`, `1.1`, `2`. */
  readonly version: string;
  /** All field lines as received, those of the connection included. */
  readonly fields: Fields;
  /** The body, or undefined when the framing says that there is none. */
  readonly body: BodyStream | undefined;
  /** What Content-Length says of the body; undefined when there is none or it is chunked. */
  readonly bodySizeBytes: number | undefined;
  readonly peer: Peer;
  /** When the request's head was complete, in epoch milliseconds. */
  readonly receivedAt: number;
  /** Aborted when the client is gone before its response is whole. */
  readonly signal: AbortSignal;
  /** Sends an interim response, where the client's protocol has them. */
  sendInterim(interim: InterimResponse): void;
}

/** What became of a response once a listener had it. */
export interface Delivery {
  /** Bytes of body handed to the connection. */
  readonly bytesSent: number;
  /** Whether the client was sent all of it. */
  readonly complete: boolean;
  /** What broke it off: a body that failed, or a client that left (`client_gone`). */
  readonly error?: ProxyError | undefined;
}

/** A request whose head is, but for the value of its one Range field, that of the request which made the precedent. */
export interface EqualRequest {
  /** The value of Range; undefined where there is none, as there was none then. */
  readonly range: string | undefined;
  readonly peer: Peer;
  /** When the request's head was complete, in epoch milliseconds. */
  readonly receivedAt: number;
  /** Whether the response may come as bytes that the system moves by itself. */
  readonly takesMovable?: boolean;
}

/** The response of a precedent: all of it is there, and what stays the same is told apart from what changes. */
export interface PrecedentResponse {
  readonly status: number;
  /** All fields but Content-Range. The same array as long as they are the same, so that they are serialised once. */
  readonly fields: Fields;
  /** The value of Content-Range; undefined where the whole is sent. */
  readonly contentRange: string | undefined;
  /** The length of the body, in bytes. */
  readonly sizeBytes: number;
  /** All of the body; none where it is `movable`. */
  readonly chunks: readonly Uint8Array[];
  /** The body, where the request takes it so and it can be had so. */
  readonly movable?: MovableBytes | undefined;
  /** To be called once, when the response is over. Does not throw. */
  onDelivered(delivery: Delivery): void;
  /**
   * May be called once after that, by who knows that the system has taken every byte of the chunks or a copy of it: their
   * memory is used for other bytes from then on. Who does not know it never calls it.
   */
  giveBack?(): void;
}

/**
 * A rule that a response from memory has left: as long as it holds, an equal request would go the whole road to the same
 * response, but for the bytes that it selects. So the road need not be gone again.
 */
export interface Precedent {
  /** The response, in the same tick; undefined where the request has to go the whole road. Does not throw. */
  follow(request: EqualRequest): PrecedentResponse | undefined;
}

/** A response for a listener to write. It carries no fields of the connection; the listener adds those and Content-Length. */
export interface ProxyResponse {
  readonly status: number;
  readonly fields: Fields;
  /** For HEAD and 304 a body says only which length the field would have; the listener sends none of it and closes it. */
  readonly body: Body;
  /** Whether the connection must end after this response. */
  readonly closeConnection?: boolean;
  /** What it is about, where it is an error of our own: whoever knows the client gives it the form that this one prefers. */
  readonly problem?: Problem;
  /** A rule for requests that say the same, where this response makes one. A listener may follow it, or not. */
  readonly precedent?: Precedent | undefined;
  /** Called once, when the response is over for the listener. Does not throw. */
  readonly onDelivered?: ((delivery: Delivery) => void) | undefined;
}

/** Answers a request. What is ready in memory is answered in the same tick. Never throws and never rejects. */
export type Handler = (request: ProxyRequest) => ProxyResponse | Promise<ProxyResponse>;
