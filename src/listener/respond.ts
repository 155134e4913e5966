/**
 * Writes a response to a client through a `ResponseOutlet`, in either protocol: the head, the body with backpressure, and the
 * permitted trailer fields (RFC 9110 §6.5).
 */

import { STATUS_CODES, validateHeaderName, validateHeaderValue } from 'node:http';
import { setImmediate as setImmediateTurn } from 'node:timers/promises';
import { errorResponse } from '../delivery/problem.ts';
import { type Field, type Fields, fieldValue, wireFieldName } from '../http/fields.ts';
import {
  type Body,
  type BodyStream,
  Chunks,
  type Delivery,
  type Handler,
  type Mover,
  type ProxyRequest,
  type ProxyResponse,
} from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { progressStepBytes } from '../telemetry/events.ts';
import type { RateLimits } from './timeouts.ts';

/** The head of a response, independent of the protocol. */
export interface ResponseHead {
  readonly status: number;
  /** End-to-end fields. The outlet leaves out framing fields (`isFramingField`). */
  readonly fields: Fields;
  /** The value of Content-Length; undefined when the response has none. */
  readonly contentLength: number | undefined;
  /** What follows the head: nothing, bytes in one call, a file, or a stream whose length is `contentLength`. */
  readonly content: 'none' | 'bytes' | 'file' | 'stream';
  /** Whether trailer fields may follow the content. */
  readonly mayTrail: boolean;
  /** Whether the response requires that the connection ends after it. The connection may also end for other reasons. */
  readonly isLast: boolean;
  /** The time for Date in a response without one (RFC 9110 §6.6.1), in epoch milliseconds. */
  readonly now: number;
}

/** The destination of a response: its exchange on an HTTP/1 or HTTP/2 connection. */
export interface ResponseOutlet extends Mover {
  readonly method: string;
  /** Whether the response is over: completely sent, or broken off. */
  readonly isSettled: boolean;
  /** Whether some written bytes still wait for the client to take them. */
  readonly isBehind: boolean;
  /** Bytes taken so far; HTTP/1 counts all bytes of the connection. Never decreases. */
  readonly takenBytes: number;
  /**
   * Upper bound of the written bytes that have not left the process. The memory of all bytes before them is no longer read.
   * Infinity where the number is not known.
   */
  readonly unsentBytes: number;
  /** Writes the head. Throws where the protocol cannot write it; nothing has been written then. */
  writeHead(head: ResponseHead): void;
  /** Sends the head if it waits to be sent together with content. */
  flushHead(): void;
  /** Writes content. Returns whether more may be written at once. */
  write(chunk: Uint8Array): boolean;
  /** Resolves when more may be written, or the response is over. */
  room(): Promise<void>;
  /**
   * Writes the rest of the content, and the trailer fields where the client accepts them. `giveBack` is called when all written
   * bytes have left the process and their memory is no longer read. It is not called when the response breaks off.
   */
  end(chunks: readonly Uint8Array[], trailers: Fields, giveBack?: () => void): void;
  /** Breaks off the response, so that the client sees that it is incomplete. Bytes written before may still be sent. */
  breakOff(): void;
  /** Breaks off in place of a response, and tells the client to ask over HTTP/1.1. Absent where the connection speaks that. */
  readonly requireHttp1?: (() => void) | undefined;
  /** Takes no further request on the connection. */
  finishConnection(): void;
  /** Calls back once, with whether the response was sent completely; immediately with false if the response is already over. */
  whenSettled(callback: (isWhole: boolean) => void): void;
}

/** The parts that write responses. */
export interface ResponseContext {
  readonly handler: Handler;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  /** Breaks off responses that clients read too slowly. */
  readonly pace: RateLimits;
}

/**
 * After this many bytes of one response, other connections get a turn of the event loop. Without it a fast client would occupy
 * the loop, because a socket with room reports that before any other event. In bytes.
 */
const bytesInTurn = 1024 * 1024;

interface Progress {
  bytesSent: number;
  reportedBytes: number;
  error: ProxyError | undefined;
  readonly onProgress: ProxyResponse['onProgress'];
}

type StreamedBody = Extract<Body, { kind: 'stream' }>;
type FileBody = Extract<Body, { kind: 'file' }>;

/** Calls the handler and writes its response. An error that a handler throws, though it must not, becomes an error response. */
export function answer(outlet: ResponseOutlet, request: ProxyRequest, context: ResponseContext): void {
  const write = (response: ProxyResponse): void => respond(outlet, response, context);
  const fail = (thrown: unknown): void => write(errorResponse(toProxyError(thrown)));
  try {
    const response = context.handler(request);
    if ('then' in response) response.then(write, fail);
    else write(response);
  } catch (thrown) {
    fail(thrown);
  }
}

/**
 * Writes a response. In every case the body stream is closed, and `onDelivered` is called exactly once. A response that cannot be
 * written becomes a 500. Never throws.
 */
export function respond(outlet: ResponseOutlet, response: ProxyResponse, { now, pace }: ResponseContext): void {
  const progress: Progress = { bytesSent: 0, reportedBytes: 0, error: undefined, onProgress: response.onProgress };
  const { body } = response;
  const release = outlet.isSettled ? undefined : pace.watch(outlet, (error) => giveUp(outlet, error, progress));
  outlet.whenSettled((isWhole) => {
    release?.();
    if (body.kind === 'stream') body.stream.close();
    response.onDelivered?.(deliveryOf(progress, isWhole));
  });
  if (outlet.isSettled) return;
  if (response.requiresHttp1 === true && outlet.requireHttp1 !== undefined) {
    outlet.requireHttp1();
    return;
  }
  progress.error = writeHead(outlet, response, now());
  if (progress.error === undefined) writeBody(outlet, response, progress);
  else writeFailure(outlet, progress.error, now());
}

/** Writes the head. Returns the error when it cannot be written. */
function writeHead(outlet: ResponseOutlet, response: ProxyResponse, now: number): ProxyError | undefined {
  const fault = responseFault(response);
  if (fault !== undefined) return new ProxyError('internal', { detail: fault });
  const { status, fields, body, closeConnection: isLast = false } = response;
  if (isLast) outlet.finishConnection();
  const content = hasContent(outlet.method, status) ? body.kind : 'none';
  const mayTrail = body.kind === 'stream' && content === 'stream' && body.stream.trailers !== undefined;
  const contentLength = lengthField(outlet.method, response);
  try {
    outlet.writeHead({ status, fields, contentLength, content, mayTrail, isLast, now });
    return undefined;
  } catch (thrown) {
    // For example a field value with a line break, which would split the response.
    return toProxyError(thrown);
  }
}

function responseFault({ status, body }: ProxyResponse): string | undefined {
  if (!Number.isInteger(status) || status < 200 || status > 999) return `the status ${status} is not a final one`;
  if (body.kind !== 'bytes') return undefined;
  const sizeBytes = body.chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return sizeBytes === body.sizeBytes ? undefined : `${sizeBytes} bytes of body where ${body.sizeBytes} were promised`;
}

/** The value of Content-Length (RFC 9110 §8.6, RFC 9112 §6.3). For HEAD it is that of GET, which a response without a body lacks. */
function lengthField(method: string, { status, body }: ProxyResponse): number | undefined {
  if (status === 204 || status === 304) return undefined;
  if (status === 205) return 0;
  if (body.kind === 'none') return method === 'HEAD' ? undefined : 0;
  return body.sizeBytes;
}

/** HEAD, 204 and 304 end with their head (RFC 9112 §6.3); 205 has no content either (RFC 9110 §15.3.6). */
function hasContent(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 205 && status !== 304;
}

function writeBody(outlet: ResponseOutlet, { status, body }: ProxyResponse, progress: Progress): void {
  if (body.kind === 'none' || !hasContent(outlet.method, status)) {
    outlet.end([], []);
  } else if (body.kind === 'bytes') {
    progress.bytesSent = body.sizeBytes;
    outlet.end(body.chunks, [], body.giveBack);
  } else if (body.kind === 'file') {
    sendFile(outlet, body, progress);
  } else {
    void pump(outlet, body, progress);
  }
}

/** Sends with sendfile as much as the socket takes at once, and the rest as a stream. */
function sendFile(outlet: ResponseOutlet, { sizeBytes, bytes }: FileBody, progress: Progress): void {
  const movedBytes = outlet.move?.(bytes) ?? 0;
  progress.bytesSent = movedBytes;
  if (movedBytes === sizeBytes) {
    outlet.end([], []);
    return;
  }
  bytes.rest(movedBytes).then(
    (stream) => pump(outlet, { kind: 'stream', sizeBytes, stream }, progress, movedBytes > 0),
    (thrown) => {
      progress.error ??= toProxyError(thrown);
      outlet.breakOff();
    },
  );
}

/** Writes a stream with backpressure. `hasMoved`: sendfile has just filled the socket. */
async function pump(outlet: ResponseOutlet, body: StreamedBody, progress: Progress, hasMoved = false): Promise<void> {
  const chunks = new Chunks(body.stream, hasMoved);
  const lent = new LentChunks(outlet, body.stream);
  let turnBytes = 0;
  try {
    for (;;) {
      const next = chunks.move(outlet) ?? chunks.next();
      const chunk = next instanceof Promise ? await withoutHoldingHead(outlet, next) : next;
      if (outlet.isSettled) return;
      if (chunk === undefined) break;
      const sizeBytes = sizeOf(chunk);
      checkLength(progress.bytesSent + sizeBytes, body, 'more');
      addSent(progress, sizeBytes);
      turnBytes += sizeBytes;
      lent.add(chunk);
      if (!isTaken(outlet, chunk)) await outlet.room();
      if (turnBytes >= bytesInTurn && progress.bytesSent !== body.sizeBytes) {
        await setImmediateTurn();
        turnBytes = 0;
      }
      if (outlet.isSettled) return;
      lent.giveBackLeft();
    }
    checkLength(progress.bytesSent, body, 'fewer');
    outlet.end([], selectTrailers(body.stream), () => lent.giveBackAll());
  } catch (thrown) {
    progress.error ??= toProxyError(thrown);
    outlet.breakOff();
  } finally {
    body.stream.close();
  }
}

function addSent(progress: Progress, sizeBytes: number): void {
  progress.bytesSent += sizeBytes;
  const bytes = progress.bytesSent - progress.reportedBytes;
  if (bytes <= progressStepBytes) return;
  progress.onProgress?.(bytes);
  progress.reportedBytes = progress.bytesSent;
}

/** Waits for content. If it does not come within this turn of the event loop, the head is sent without it. */
async function withoutHoldingHead<T>(outlet: ResponseOutlet, content: Promise<T>): Promise<T> {
  const flush = setImmediate(() => outlet.flushHead());
  try {
    return await content;
  } finally {
    clearImmediate(flush);
  }
}

/** Written chunks of lent memory, in order. Each is given back to the body when it has left the process. */
class LentChunks {
  readonly #outlet: ResponseOutlet;
  readonly #stream: BodyStream;
  readonly #chunks: Uint8Array[] = [];
  #sizeBytes = 0;

  constructor(outlet: ResponseOutlet, stream: BodyStream) {
    this.#outlet = outlet;
    this.#stream = stream;
  }

  /** Adds a chunk. A number is the length of moved bytes, which have no memory to give back. */
  add(chunk: Uint8Array | number): void {
    if (typeof chunk === 'number' || this.#stream.giveBack === undefined) return;
    this.#chunks.push(chunk);
    this.#sizeBytes += chunk.length;
  }

  /** Gives back the chunks that have left the process. */
  giveBackLeft(): void {
    if (this.#chunks.length > 0) this.#giveBackBefore(this.#outlet.unsentBytes);
  }

  giveBackAll(): void {
    this.#giveBackBefore(0);
  }

  #giveBackBefore(unsentBytes: number): void {
    for (;;) {
      const [first] = this.#chunks;
      if (first === undefined || this.#sizeBytes - first.length < unsentBytes) return;
      this.#chunks.shift();
      this.#sizeBytes -= first.length;
      this.#stream.giveBack?.(first);
    }
  }
}

/** The length of a chunk. A number is the length of moved bytes. */
function sizeOf(chunk: Uint8Array | number): number {
  return typeof chunk === 'number' ? chunk : chunk.length;
}

/** Writes a chunk; a number is the length of bytes that were already moved. Returns whether more may be written at once. */
function isTaken(outlet: ResponseOutlet, chunk: Uint8Array | number): boolean {
  return typeof chunk === 'number' || chunk.length === 0 || outlet.write(chunk);
}

/** Throws when the body differs from the stated length: it must not look complete to the client (RFC 9112 §8). */
function checkLength(bytes: number, { sizeBytes = bytes }: StreamedBody, which: 'more' | 'fewer'): void {
  if (which === 'more' ? bytes <= sizeBytes : bytes >= sizeBytes) return;
  throw new ProxyError('internal', { detail: `the body has ${which} bytes than the ${sizeBytes} that were promised` });
}

function writeFailure(outlet: ResponseOutlet, error: ProxyError, now: number): void {
  const { status, fields, body } = errorResponse(error);
  outlet.finishConnection();
  const content = hasContent(outlet.method, status) ? 'bytes' : 'none';
  const contentLength = body.kind === 'none' ? 0 : body.sizeBytes;
  outlet.writeHead({ status, fields, contentLength, content, mayTrail: false, isLast: true, now });
  outlet.end(content === 'bytes' && body.kind === 'bytes' ? body.chunks : [], []);
}

/** Breaks off a response that the client reads too slowly. */
function giveUp(outlet: ResponseOutlet, error: ProxyError, progress: Progress): void {
  progress.error ??= error;
  outlet.breakOff();
}

function deliveryOf({ bytesSent, error }: Progress, isWhole: boolean): Delivery {
  if (error === undefined && isWhole) return { bytesSent, complete: true };
  return { bytesSent, complete: false, error: error ?? new ProxyError('client_gone') };
}

/**
 * Fields that must not be trailers (RFC 9110 §6.5.1): those for framing, routing, authentication, request modifiers, response
 * control, and the content format.
 */
const neverTrailing: ReadonlySet<string> = new Set(
  [
    'age',
    'alt-svc',
    'authorization',
    'cache-control',
    'connection',
    'cookie',
    'date',
    'etag',
    'expect',
    'expires',
    'host',
  ]
    .concat(['keep-alive', 'last-modified', 'location', 'max-forwards', 'pragma', 'proxy-authenticate'])
    .concat([
      'proxy-authentication-info',
      'proxy-authorization',
      'proxy-connection',
      'range',
      'retry-after',
      'set-cookie',
    ])
    .concat(['te', 'trailer', 'transfer-encoding', 'upgrade', 'vary', 'via', 'warning', 'www-authenticate']),
);

/** Name families that must not be trailers. Content-Digest may: a digest can be known only after the content (RFC 9530 §2). */
const neverTrailingFamilies = /^(?:content-(?!digest$)|if-|accept-|access-control-|cache-|:)/;

/** Returns the trailer fields of a fully read body, without those that must not be trailers or cannot be written. */
export function selectTrailers({ trailers }: BodyStream): Fields {
  const fields = trailers?.() ?? [];
  return fields.length === 0 ? fields : fields.filter(mayTrail);
}

function mayTrail([name, value]: Field): boolean {
  if (neverTrailing.has(name) || neverTrailingFamilies.test(name)) return false;
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}

/** Fields that only the listener writes. They are dropped from responses, which would be framed twice otherwise. */
const framingFields: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Checks whether only the listener may write a field, in any protocol (RFC 9112 §6, RFC 9113 §8.2.2). */
export function isFramingField(name: string): boolean {
  return framingFields.has(name);
}

/** Returns the value of Upgrade that a 426 must carry over HTTP/1.1 (RFC 9110 §15.5.22); undefined for any other status. */
export function requiredUpgrade(status: number, fields: Fields): string | undefined {
  return status === 426 ? fieldValue(fields, 'upgrade') : undefined;
}

/** Returns the reason phrase of a status; empty for an unknown status. */
export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? '';
}

/** Converts fields into the header object of Node's HTTP client: keyed by wire name, repeated lines as an array. */
export function wireFields(fields: Fields): NodeJS.Dict<string | string[]> {
  // No prototype, so that a name such as `__proto__` is an ordinary key.
  const headers: NodeJS.Dict<string | string[]> = Object.create(null);
  for (const [name, value] of fields) {
    const wireName = wireFieldName(name);
    const earlier = headers[wireName];
    headers[wireName] = earlier === undefined ? value : [earlier, value].flat();
  }
  return headers;
}
