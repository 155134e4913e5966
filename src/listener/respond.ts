/**
 * Writes a response to a client, in either protocol, through a `ResponseOutlet`: head, body with backpressure, and the trailer
 * fields that may be sent (RFC 9110 §6.5).
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
import type { Pace } from './timeouts.ts';

/** The head of a response, before a protocol has given it its form. */
export interface ResponseHead {
  readonly status: number;
  /** End-to-end fields, without those that frame. */
  readonly fields: Fields;
  /** What Content-Length says; undefined when it is not there. */
  readonly contentLength: number | undefined;
  /** What comes after the head: nothing, all of it at once, or a stream whose length is `contentLength`. */
  readonly content: 'none' | 'bytes' | 'file' | 'stream';
  /** Whether trailer fields may follow the content. */
  readonly mayTrail: boolean;
  /** Whether the connection ends after the response. It may also end for reasons of its own. */
  readonly isLast: boolean;
  /** Epoch milliseconds, for a response without Date (RFC 9110 §6.6.1). */
  readonly now: number;
}

/** The side of an exchange that its response is written to. */
export interface ResponseOutlet extends Mover {
  readonly method: string;
  /** Whether the response is over: the client has all of it, or will not get more. */
  readonly isSettled: boolean;
  /** Whether the client has yet to take something that was written. */
  readonly isBehind: boolean;
  /** Bytes that the client has taken so far, with those of their framing; never fewer than before. */
  readonly takenBytes: number;
  /**
   * How many of the bytes that were written last have not left the process, at most: nothing reads the memory of those before
   * them any more. Infinity where that is not known.
   */
  readonly unsentBytes: number;
  /** Writes the head. Throws where a protocol cannot write it, and has written nothing of it then. */
  writeHead(head: ResponseHead): void;
  /** Sends the head, where it was held back to travel with content. */
  flushHead(): void;
  /** Writes content. Returns whether more may be written at once. */
  write(chunk: Uint8Array): boolean;
  /** Resolves when the client has taken enough for more to be written, or will take no more. */
  room(): Promise<void>;
  /**
   * Writes the rest of the content, and then the trailer fields, where the client can have them. `giveBack` is called when all
   * that was written has left the process: nothing reads its memory any more then. Not where the response breaks off.
   */
  end(chunks: readonly Uint8Array[], trailers: Fields, giveBack?: () => void): void;
  /** The response cannot become whole; the client must see that, once what was written is out as far as it goes. */
  breakOff(): void;
  /** Takes no further request on the connection. */
  finishConnection(): void;
  /** Calls back once, at once if it is over already, with whether the client was sent all of the response. */
  whenSettled(callback: (isWhole: boolean) => void): void;
}

/** What responses are written with. */
export interface ResponseContext {
  readonly handler: Handler;
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
  /** Sees to it that clients take their responses. */
  readonly pace: Pace;
}

/**
 * After so many bytes of one response others get their turn: a client that takes them as fast as they come would keep the
 * event loop to itself, for a connection that has room says so before anything else happens.
 */
const bytesInTurn = 1024 * 1024;

interface Progress {
  bytesSent: number;
  error: ProxyError | undefined;
}

type StreamedBody = Extract<Body, { kind: 'stream' }>;
type FileBody = Extract<Body, { kind: 'file' }>;

/** Has a request answered, and its response written. What a handler throws, against its promise, is answered too. */
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
 * Writes a response and sees to its end: the stream is closed and `onDelivered` called exactly once, whatever happens. A
 * response that cannot be written as it is becomes a 500. Never throws.
 */
export function respond(outlet: ResponseOutlet, response: ProxyResponse, { now, pace }: ResponseContext): void {
  const progress: Progress = { bytesSent: 0, error: undefined };
  const { body } = response;
  const release = outlet.isSettled ? undefined : pace.watch(outlet, (error) => giveUp(outlet, error, progress));
  outlet.whenSettled((isWhole) => {
    release?.();
    if (body.kind === 'stream') body.stream.close();
    response.onDelivered?.(deliveryOf(progress, isWhole));
  });
  if (outlet.isSettled) return;
  progress.error = writeHead(outlet, response, now());
  if (progress.error === undefined) writeBody(outlet, response, progress);
  else writeFailure(outlet, progress.error, now());
}

/** Returns why the head could not be written. */
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
    // Node refuses field values with characters that would split the response.
    return toProxyError(thrown);
  }
}

function responseFault({ status, body }: ProxyResponse): string | undefined {
  if (!Number.isInteger(status) || status < 200 || status > 999) return `a final response with status ${status}`;
  if (body.kind !== 'bytes') return undefined;
  const sizeBytes = body.chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return sizeBytes === body.sizeBytes ? undefined : `${sizeBytes} bytes of body where ${body.sizeBytes} were promised`;
}

/** RFC 9110 §8.6, RFC 9112 §6.3. HEAD says what GET would have, which a response without a body does not know. */
function lengthField(method: string, { status, body }: ProxyResponse): number | undefined {
  if (status === 204 || status === 304) return undefined;
  if (status === 205) return 0;
  if (body.kind === 'none') return method === 'HEAD' ? undefined : 0;
  return body.sizeBytes;
}

/** HEAD, 204 and 304 end with their head (RFC 9112 §6.3); 205 has nothing to say either (RFC 9110 §15.3.6). */
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

/** Has the system send what the client takes at once, and then the rest as the client takes it. */
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

/** `hasMoved` tells that the socket was filled by what was moved just now. */
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
      progress.bytesSent += sizeBytes;
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

/** Waits for content; the head does not wait long for it to travel with. */
async function withoutHoldingHead<T>(outlet: ResponseOutlet, content: Promise<T>): Promise<T> {
  const flush = setImmediate(() => outlet.flushHead());
  try {
    return await content;
  } finally {
    clearImmediate(flush);
  }
}

/** Chunks that were written, in their order, until they have left the process: their memory is used again then. */
class LentChunks {
  readonly #outlet: ResponseOutlet;
  readonly #stream: BodyStream;
  readonly #chunks: Uint8Array[] = [];
  #sizeBytes = 0;

  constructor(outlet: ResponseOutlet, stream: BodyStream) {
    this.#outlet = outlet;
    this.#stream = stream;
  }

  /** Notes a chunk; a number stands for bytes that were moved. */
  add(chunk: Uint8Array | number): void {
    if (typeof chunk === 'number' || this.#stream.giveBack === undefined) return;
    this.#chunks.push(chunk);
    this.#sizeBytes += chunk.length;
  }

  /** Gives back those that have left. */
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

/** The length of content; a number stands for bytes that were moved. */
function sizeOf(chunk: Uint8Array | number): number {
  return typeof chunk === 'number' ? chunk : chunk.length;
}

/** Writes content, unless it is what was moved, and so many bytes of it. Returns whether there can be more at once. */
function isTaken(outlet: ResponseOutlet, chunk: Uint8Array | number): boolean {
  return typeof chunk === 'number' || chunk.length === 0 || outlet.write(chunk);
}

/** The client was promised a length: a body that gives another one must not look whole (RFC 9112 §8). */
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

/** The client does not take its response in time. */
function giveUp(outlet: ResponseOutlet, error: ProxyError, progress: Progress): void {
  progress.error ??= error;
  outlet.breakOff();
}

function deliveryOf({ bytesSent, error }: Progress, isWhole: boolean): Delivery {
  if (error === undefined && isWhole) return { bytesSent, complete: true };
  return { bytesSent, complete: false, error: error ?? new ProxyError('client_gone') };
}

/**
 * Fields that mean something only before the content (RFC 9110 §6.5.1): those that frame, route, authenticate, modify a
 * request, control its response, or tell how the content is to be read.
 */
const neverTrailing: ReadonlySet<string> = new Set(
  ['age', 'authorization', 'cache-control', 'connection', 'cookie', 'date', 'etag', 'expect', 'expires', 'host']
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

/** Digests of content can be known only at its end (RFC 9530 §2), and are the one thing to say of it there. */
const neverTrailingFamilies = /^(?:content-(?!digest$)|if-|accept-|access-control-|cache-|:)/;

/** The trailer fields of a body that was read to its end, without those that must not trail or cannot be written. */
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

/** Fields that only a listener may write. A response that has them nevertheless must not frame itself twice. */
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

/** Whether only a listener may write a field, on any protocol (RFC 9112 §6, RFC 9113 §8.2.2). */
export function isFramingField(name: string): boolean {
  return framingFields.has(name);
}

/** What Upgrade says of a response that must have it over HTTP/1.1: a 426 (RFC 9110 §15.5.22); undefined for any other. */
export function requiredUpgrade(status: number, fields: Fields): string | undefined {
  return status === 426 ? fieldValue(fields, 'upgrade') : undefined;
}

/** The reason phrase of a status, empty for one without. */
export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? '';
}

/** Fields as Node's client and its proxies take them: by wire name, with the lines of one name in a list. */
export function wireFields(fields: Fields): NodeJS.Dict<string | string[]> {
  // Without a prototype, so that no name means anything to the object.
  const headers: NodeJS.Dict<string | string[]> = Object.create(null);
  for (const [name, value] of fields) {
    const wireName = wireFieldName(name);
    const earlier = headers[wireName];
    headers[wireName] = earlier === undefined ? value : [earlier, value].flat();
  }
  return headers;
}
