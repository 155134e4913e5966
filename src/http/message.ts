/**
 * Requests and responses as plain values; no protocol and no socket is known here. Read this file first. Also problem details of
 * our own errors (RFC 9457), a request with some parts changed, and the chunks of a body one by one.
 */

import type { Fields } from './fields.ts';
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
  /** Resolves when the first bytes are there, or the end is; the iteration then gives them. Rejects as the iteration does. */
  readonly begun?: (() => Promise<void>) | undefined;
  /**
   * Takes back the memory of a chunk, to use it again. Only for chunks that nothing reads any more, the system's calls included;
   * others are collected. Absent where no memory is lent.
   */
  readonly giveBack?: ((chunk: Uint8Array) => void) | undefined;
  /** The trailer fields (RFC 9110 §6.5), known once the body was read to its end; absent where there cannot be any. */
  readonly trailers?: (() => Fields) | undefined;
  close(): void;
}

/** Bytes of a file that the system can send into a socket by itself (sendfile). */
export interface MovableBytes {
  /** As `BodyStream.moveTo`, of all of the bytes. To be called once, in the same tick; does not throw. */
  moveTo(socket: number, head: Uint8Array): number;
  /** The bytes from one of them on. To be called in the same tick, for the file may be gone later. Rejects with `ProxyError`. */
  rest(offset: number): Promise<BodyStream>;
}

/** A chunk that is there; that there are no more; or that the iteration has to be asked, which waits for one, or throws. */
export type Taken = Uint8Array | 'end' | 'later';

/** The body of a response. `sizeBytes` is what Content-Length says; undefined means that it is not known beforehand. */
export type Body =
  | { readonly kind: 'none' }
  /** `giveBack` may be called once, when the system has taken every byte, or a copy of it: the memory is used again then. */
  | {
      readonly kind: 'bytes';
      readonly sizeBytes: number;
      readonly chunks: readonly Uint8Array[];
      readonly giveBack?: (() => void) | undefined;
    }
  /** All of it is in a file; only for requests that take it so (`ProxyRequest.takesMovable`). */
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
  /** All field lines as received, those of the connection included. */
  readonly fields: Fields;
  /** The body, or undefined when the framing says that there is none. */
  readonly body: BodyStream | undefined;
  /** What Content-Length says of the body; undefined when there is none or it is chunked. */
  readonly bodySizeBytes: number | undefined;
  readonly peer: Peer;
  /** When the request's head was complete, in epoch milliseconds. */
  readonly receivedAt: number;
  /** Whether the system may send the body from a file into the client's socket by itself. */
  readonly takesMovable?: boolean;
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

/** A response for a listener to write. It carries no fields of the connection; the listener adds those and Content-Length. */
export interface ProxyResponse {
  readonly status: number;
  readonly fields: Fields;
  /** For HEAD and 304 a body says only which length the field would have; the listener sends none of it and closes it. */
  readonly body: Body;
  /** Whether the connection must end after this response. */
  readonly closeConnection?: boolean;
  /** What it is about, where it is an error of our own: whoever knows the client gives it the form that this one prefers. */
  readonly problem?: ProblemDetails;
  /** Called once, when the response is over for the listener. Does not throw. */
  readonly onDelivered?: ((delivery: Delivery) => void) | undefined;
}

/**
 * The head of a GET or HEAD without content that a hit may answer in one step: it has no field that a hit is decided by, except
 * those that stand here. A listener makes it of what a client sent, and splits the other field lines only when they are read.
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
  /** All field lines as received; splits them. */
  readFields(): Fields;
}

/** The connection that a plain head came on. A road of hits may keep there what it has found out about the peer. */
export interface PlainSource {
  readonly scheme: 'http' | 'https';
  readonly peer: Peer;
  /** As `ProxyRequest.takesMovable`. */
  readonly takesMovable: boolean;
  known?: object | undefined;
}

/** The fields that all hits of one stored response have, and what a listener has made of them, for the next hit. */
export interface KeptFields {
  /** Makes them: what a listener has made of them is kept instead. */
  lines(): Fields;
  /** As HTTP/1.1 and as HTTP/2 write them; `false` where they cannot be written, undefined as long as nothing was made of them. */
  text: { readonly text: string; readonly hasDate: boolean } | false | undefined;
  list: readonly string[] | false | undefined;
  /** As `lines` made them, where they are wanted again and again. */
  kept: Fields | undefined;
}

/** A response from memory that can be written at once. */
export interface Hit {
  readonly status: number;
  readonly fields: KeptFields;
  /** What differs from hit to hit: the values of Age and Cache-Status, and of Content-Range in a 206. */
  readonly ageSeconds: number;
  readonly cacheStatus: string;
  readonly contentRange: string | undefined;
  /** Fields that this client alone is told: of its limits. */
  readonly more: Fields;
  /** What Content-Length says; undefined in a 304. */
  readonly sizeBytes: number | undefined;
  /** The content; none for HEAD and in a 304. */
  readonly chunks: readonly Uint8Array[];
  /**
   * The content, where the system can send it from a file by itself; `chunks` are empty then. `owner` is asked for its signal where
   * some of it has to be read. Undefined where the content is `chunks`.
   */
  readonly file: ((owner: { readonly signal: AbortSignal }) => MovableBytes) | undefined;
  /** Called where it takes time until the client has it: before `onDelivered`, in the tick in which it was written. */
  begin(): void;
  /** The system has taken every byte of the content, or a copy of it: the memory is used again. To be called once at most. */
  giveBack(): void;
  /** Called once, when the response is over for the listener; `endedAt` in epoch milliseconds. Does not throw. */
  onDelivered(delivery: Delivery, endedAt: number): void;
}

/** Answers a plain head where memory has all that it takes; undefined where the request has to take the whole road. */
export type HitRoad = (head: PlainHead, source: PlainSource, receivedAt: number) => Hit | undefined;

/** Answers a request. What is ready in memory is answered in the same tick. Never throws and never rejects. */
export interface Handler {
  (request: ProxyRequest): ProxyResponse | Promise<ProxyResponse>;
  /** A shorter road to the same answers, for plain heads. */
  readonly hit?: HitRoad | undefined;
}

/** Problem details (RFC 9457 §3.1). The type is `about:blank`, which is left out (§4.2.1). */
export interface ProblemDetails {
  readonly status: number;
  /** The phrase of the status. */
  readonly title: string;
  /** A sentence for people, which says nothing that only operators should know. */
  readonly detail: string;
}

/** What may be another one. */
type RequestChanges = Partial<Omit<ProxyRequest, 'signal' | 'sendInterim'>>;

/** A copy with these changes. Its signal is made when it is first asked for, as that of the original. */
export function changedRequest(request: ProxyRequest, changes: RequestChanges): ProxyRequest {
  return new ChangedRequest(request, changes);
}

/** A class, because what a listener gives is an object of a class too: a spread would leave out its getters. */
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

  sendInterim(interim: Parameters<ProxyRequest['sendInterim']>[0]): void {
    this.#original.sendInterim(interim);
  }
}

/** Has content moved to where it goes; gives how many bytes, 0 where it has to be read. */
export interface Mover {
  move?(content: Pick<BodyStream, 'moveTo'>): number;
}

/**
 * What is read of a body that has just been moved, because its socket takes nothing more, in bytes: only who waits with a write
 * is told when there is room again.
 */
const betweenBytes = 8 * 1024;

/** Reads a body once. It is not closed by it. */
export class Chunks {
  readonly #body: BodyStream;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #hasMoved: boolean;

  constructor(body: BodyStream, hasMoved = false) {
    this.#body = body;
    this.#hasMoved = hasMoved;
  }

  /** Has content that comes next moved past this process: how many bytes; undefined where it has to be read. */
  move(outlet: Mover): number | undefined {
    const movedBytes = outlet.move?.(this.#body) ?? 0;
    if (movedBytes === 0) return undefined;
    this.#hasMoved = true;
    return movedBytes;
  }

  /** The next chunk; undefined after the last one. Throws or rejects as the body does. One call at a time. */
  next(): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    const taken = this.#body.take?.(this.#hasMoved ? betweenBytes : undefined) ?? 'later';
    // Where that does not help the moving on, the rest is read as ever.
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
