/**
 * Requests and responses as plain values, independent of protocols and sockets. Also problem details of our own errors
 * (RFC 9457), changed copies of a request, and reading a body chunk by chunk. Read this file first, then `fields.ts`.
 */

import type { ClientConnection } from './client-connection.ts';
import type { Fields } from './fields.ts';
import type { ProxyError } from './proxy-error.ts';

/**
 * A body that is read once, in order. `close` releases what it holds, read or not, and may be called more than once. Iterating
 * throws a `ProxyError` when the body breaks off; the bytes before that must then never look like a complete body.
 */
export interface BodyStream extends AsyncIterable<Uint8Array> {
  /**
   * Returns the next chunk of the iteration, without waiting for it. May be called between the steps of the iteration, or
   * instead of them. Does not throw. The chunk may be longer than `wantedBytes`.
   */
  readonly take?: ((wantedBytes?: number) => NextChunk) | undefined;
  /**
   * Has the system put `head`, and then the next bytes of the body, into a non-blocking socket (its descriptor), and skips the
   * bytes that it took. Returns how many bytes of both together it took, at once and for good; 0 where the next bytes cannot be
   * moved. May be called between the steps, as `take`. Does not throw.
   */
  readonly moveTo?: ((socket: number, head: Uint8Array) => number) | undefined;
  /** Resolves when the first bytes or the end have arrived; the iteration then returns them. Rejects as the iteration does. */
  readonly begun?: (() => Promise<void>) | undefined;
  /**
   * Takes back the memory of a chunk, to use it again. Only for chunks that are no longer read, also not by system calls; other
   * chunks are garbage-collected. Absent where no memory is lent.
   */
  readonly giveBack?: ((chunk: Uint8Array) => void) | undefined;
  /** The trailer fields (RFC 9110 §6.5), complete once the body was read to its end; absent where there cannot be any. */
  readonly trailers?: (() => Fields) | undefined;
  close(): void;
}

/** Bytes of a file that the system can send into a socket by itself (sendfile). */
export interface MovableBytes {
  /** As `BodyStream.moveTo`, for all of the bytes. Must be called once, in the same tick. Does not throw. */
  moveTo(socket: number, head: Uint8Array): number;
  /**
   * Returns the bytes from `offset` on. Must be called in the same tick, because the file may be gone later. Rejects with
   * `ProxyError`.
   */
  rest(offset: number): Promise<BodyStream>;
}

/** A chunk; `end` after the last one; `later` where the iteration must be used, which waits for the next chunk, or throws. */
export type NextChunk = Uint8Array | 'end' | 'later';

/** The body of a response. `sizeBytes` is the Content-Length; undefined when it is unknown beforehand. */
export type Body =
  | { readonly kind: 'none' }
  /** `giveBack` may be called once, when the system has taken every byte or a copy of it: the memory is then used again. */
  | {
      readonly kind: 'bytes';
      readonly sizeBytes: number;
      readonly chunks: readonly Uint8Array[];
      readonly giveBack?: (() => void) | undefined;
    }
  /** All bytes are in a file. Only for requests that accept this (`ProxyRequest.takesMovable`). */
  | { readonly kind: 'file'; readonly sizeBytes: number; readonly bytes: MovableBytes }
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
  /** All field lines as received, hop-by-hop fields included. */
  readonly fields: Fields;
  /** The body, or undefined when the framing says that there is none. */
  readonly body: BodyStream | undefined;
  /** The Content-Length of the body; undefined when there is no body or it is chunked. */
  readonly bodySizeBytes: number | undefined;
  readonly peer: Peer;
  /** When the request's head was complete, in epoch milliseconds. */
  readonly receivedAt: number;
  /** Whether the system may send the body from a file into the client's socket by itself. */
  readonly takesMovable?: boolean;
  /** The client's connection, where it carries one request after another (HTTP/1.x); undefined elsewhere. */
  readonly connection?: ClientConnection | undefined;
  /** Aborted when the client leaves before its response is complete. */
  readonly signal: AbortSignal;
  /** Sends an interim response, where the client's protocol supports them. */
  sendInterim(interim: InterimResponse): void;
}

/** The outcome of a response that a listener was given. */
export interface Delivery {
  /** Bytes of body handed to the connection. */
  readonly bytesSent: number;
  /** Whether all of the response was sent to the client. */
  readonly complete: boolean;
  /** Why the response broke off: the body failed, or the client left (`client_gone`). */
  readonly error?: ProxyError | undefined;
}

/** A response for a listener to write. It carries no fields of the connection; the listener adds those and Content-Length. */
export interface ProxyResponse {
  readonly status: number;
  readonly fields: Fields;
  /** For HEAD the body only states the Content-Length. For HEAD and 304 the listener closes the body without sending it. */
  readonly body: Body;
  /** Whether the connection must end after this response. */
  readonly closeConnection?: boolean;
  /** Whether the request needs HTTP/1.1 (RFC 9113 §7, HTTP_1_1_REQUIRED): over HTTP/2 its stream is reset in place of a response. */
  readonly requiresHttp1?: boolean;
  /** The problem, where it is an error of our own: `presentProblem` converts the response to the form that the client prefers. */
  readonly problem?: ProblemDetails;
  /** Called while a long body is sent, with the bytes that were handed to the connection since the last call. Does not throw. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
  /** Called once, when the response is over for the listener. Does not throw. */
  readonly onDelivered?: ((delivery: Delivery) => void) | undefined;
}

/**
 * The head of a GET or HEAD without content that a hit may answer in one step: of the fields that decide about a hit, it has
 * none but those listed here. A listener makes it from the received bytes, and splits the other field lines only when they are
 * read.
 */
export interface PlainHead {
  readonly method: 'GET' | 'HEAD';
  /** As `ProxyRequest.authority`; not checked. */
  readonly authority: string;
  /** As received; not checked. */
  readonly target: string;
  readonly version: string;
  /** The lines of Range, If-Range, If-None-Match and If-Modified-Since. */
  readonly selecting: Fields;
  /** The lines of Authorization and X-API-Key. */
  readonly credentials: Fields;
  /** The values of Accept-Encoding and Origin. */
  readonly acceptEncoding: string | undefined;
  readonly origin: string | undefined;
  /** Splits and returns all field lines as received. */
  readFields(): Fields;
}

/** The connection of a plain head. `known` keeps what a `HitRoad` has found out about the peer. */
export interface PlainSource {
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  /** As `ProxyRequest.takesMovable`. */
  readonly takesMovable: boolean;
  known?: object | undefined;
}

/**
 * The fields that all hits of one stored response have, and the forms that a listener has made of them for the next hits. There is one
 * for each entry in memory that was hit, so it has few objects.
 */
export abstract class CachedFields {
  /**
   * As HTTP/1.1 writes them: `text`, then `moreText`. `text` is `false` where they cannot be written, undefined until they were made.
   */
  text: string | false | undefined;
  moreText = '';
  hasDate = false;
  /** As HTTP/2 writes them; undefined until they were made. */
  section: CachedSection | undefined;
  /** The result of `lines`, where it is needed again and again. */
  kept: Fields | undefined;
  /** A text that is in memory anyway: `text` should be this one where the lines begin with it. */
  abstract readonly storedText: string | undefined;
  /** Returns the field lines. They may be made anew on each call, because a listener keeps its own form of them. */
  abstract lines(): Fields;
}

/** Fields as HTTP/2 writes them. */
export interface CachedSection {
  /** `false` where they cannot be written; undefined where they must be made again. */
  text: string | false | undefined;
  readonly hasDate: boolean;
}

/** A response from memory that can be written at once. */
export interface Hit {
  readonly status: number;
  readonly fields: CachedFields;
  /** The values that differ from hit to hit: Age, Cache-Status, and Content-Range in a 206. */
  readonly ageSeconds: number;
  readonly cacheStatus: string;
  readonly contentRange: string | undefined;
  /** Fields of this hit alone: the client's limits, and the Content-Type of a multipart body. */
  readonly more: Fields;
  /** The Content-Length; undefined in a 304. */
  readonly sizeBytes: number | undefined;
  /** The content; empty for HEAD, in a 304, and where `file` has it. */
  readonly chunks: readonly Uint8Array[];
  /**
   * The content, where the system can send it from a file; `chunks` is empty then. The signal of `owner` is read where some of
   * the content has to be read. Undefined where the content is in `chunks`.
   */
  readonly file: ((owner: { readonly signal: AbortSignal }) => MovableBytes) | undefined;
  /** Called where the client does not have the response at once: in the tick of the write, before `onDelivered`. */
  begin(): void;
  /** Releases the memory of the content. To be called at most once, when the system has taken every byte or a copy of it. */
  giveBack(): void;
  /** Called once, when the response is over for the listener; `endedAt` is in epoch milliseconds. Does not throw. */
  onDelivered(delivery: Delivery, endedAt: number): void;
}

/** Answers a plain head where everything it needs is in memory; undefined where the `Handler` must answer the request. */
export type HitRoad = (head: PlainHead, source: PlainSource, receivedAt: number) => Hit | undefined;

/** Answers a request, in the same tick where the response is ready in memory. Never throws and never rejects. */
export interface Handler {
  (request: ProxyRequest): ProxyResponse | Promise<ProxyResponse>;
  /** Gives the same answers to plain heads, at less cost. */
  readonly hit?: HitRoad | undefined;
}

/** Problem details (RFC 9457 §3.1). The type is `about:blank`, which is left out (§4.2.1). */
export interface ProblemDetails {
  readonly status: number;
  /** The reason phrase of the status. */
  readonly title: string;
  /** A sentence for people; it reveals nothing that only operators should know. */
  readonly detail: string;
}

/** The parts that may be changed. */
type RequestChanges = Partial<Omit<ProxyRequest, 'signal' | 'sendInterim' | 'connection'>>;

/** Returns a copy of a request with these changes. The signal is that of the original, made when it is first read. */
export function changedRequest(request: ProxyRequest, changes: RequestChanges): ProxyRequest {
  return new ChangedRequest(request, changes);
}

/** A class, because a listener's request is an object of a class too: a spread would leave out its getters. */
class ChangedRequest implements ProxyRequest {
  readonly method: ProxyRequest['method'];
  readonly scheme: ProxyRequest['scheme'];
  readonly authority: ProxyRequest['authority'];
  readonly target: ProxyRequest['target'];
  readonly version: ProxyRequest['version'];
  readonly fields: ProxyRequest['fields'];
  readonly body: ProxyRequest['body'];
  readonly bodySizeBytes: ProxyRequest['bodySizeBytes'];
  readonly peer: ProxyRequest['peer'];
  readonly receivedAt: ProxyRequest['receivedAt'];
  readonly takesMovable: boolean;
  readonly #original: ProxyRequest;

  constructor(original: ProxyRequest, changes: RequestChanges) {
    const { method, scheme, authority, target, version, fields, body, bodySizeBytes, peer, receivedAt, takesMovable } =
      {
        ...original,
        ...changes,
      };
    this.method = method;
    this.scheme = scheme;
    this.authority = authority;
    this.target = target;
    this.version = version;
    this.fields = fields;
    this.body = body;
    this.bodySizeBytes = bodySizeBytes;
    this.peer = peer;
    this.receivedAt = receivedAt;
    this.takesMovable = takesMovable === true;
    this.#original = original;
  }

  get signal(): AbortSignal {
    return this.#original.signal;
  }

  get connection(): ClientConnection | undefined {
    return this.#original.connection;
  }

  sendInterim(interim: Parameters<ProxyRequest['sendInterim']>[0]): void {
    this.#original.sendInterim(interim);
  }
}

/** Moves content to its destination without reading it; returns the number of bytes, 0 where the content has to be read. */
export interface Mover {
  move?(content: Pick<BodyStream, 'moveTo'>): number;
}

/**
 * The bytes that are read after a move, which ends when the socket is full: only a pending write is notified when there is room
 * again.
 */
const readAfterMoveBytes = 8 * 1024;

/** Reads a body once, chunk by chunk. Does not close it. */
export class Chunks {
  readonly #body: BodyStream;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #hasMoved: boolean;

  constructor(body: BodyStream, hasMoved = false) {
    this.#body = body;
    this.#hasMoved = hasMoved;
  }

  /** Moves the next content without reading it; returns the number of bytes, undefined where the content has to be read. */
  move(outlet: Mover): number | undefined {
    const movedBytes = outlet.move?.(this.#body) ?? 0;
    if (movedBytes === 0) return undefined;
    this.#hasMoved = true;
    return movedBytes;
  }

  /** Returns the next chunk; undefined after the last one. Throws or rejects as the body does. One call at a time. */
  next(): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    const taken = this.#body.take?.(this.#hasMoved ? readAfterMoveBytes : undefined) ?? 'later';
    // If no move follows this small read, the rest is read as usual.
    this.#hasMoved = false;
    if (taken === 'later') return this.#wait();
    return taken === 'end' ? undefined : taken;
  }

  async #wait(): Promise<Uint8Array | undefined> {
    this.#iterator ??= this.#body[Symbol.asyncIterator]();
    const { done, value } = await this.#iterator.next();
    return done === true ? undefined : value;
  }
}
