/** One request and its response in the form of the Fetch standard: a `Request`, and a `Response` whose body is read by a stream. */

import { errorResponse } from '../delivery/problem.ts';
import type { Field, Fields } from '../http/fields.ts';
import type { BodyStream, Handler, Peer } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { ListenerLimits } from '../listener/listener.ts';
import { ReceivedRequest, type Reception, type RequestOwner, receiveHead } from '../listener/receive.ts';
import { answer, isFramingField, type ResponseHead, type ResponseOutlet, respond } from '../listener/respond.ts';
import { formatHttpDate } from '../semantics/http-date.ts';
import type { RunningExchanges } from './running-exchanges.ts';

/** The parts that answer requests. */
export interface FetchContext {
  readonly handler: Handler;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  readonly limits: ListenerLimits;
  /** Gets each refusal of a request that is malformed or exceeds a limit. */
  readonly onRefused: (error: ProxyError) => void;
  readonly running: RunningExchanges;
}

/** How much of a body waits for its reader, in bytes. */
const bufferBytes = 64 * 1024;

/** The program reads the response, not a client: the program decides how slowly. */
const unlimited = { watch: () => (): void => {} };

/**
 * Answers a request. Rejects with the reason of `request.signal` where it is aborted before the response, and with `TypeError`
 * for a body that was read before, or a URL that is not http or https.
 */
export async function answerFetch(request: Request, peer: Peer, context: FetchContext): Promise<Response> {
  if (request.bodyUsed) throw new TypeError('Rangeway cannot forward a request whose body was read before');
  request.signal.throwIfAborted();
  const { handler, now, running } = context;
  const reception = receive(request, peer, context);
  const exchange = new FetchExchange(request, running);
  const responding = { handler, now, pace: unlimited };
  if (reception.kind === 'refused') {
    context.onRefused(reception.error);
    respond(exchange, errorResponse(reception.error), responding);
  } else {
    const { head, framing } = reception;
    const body = request.body === null ? undefined : new FetchBody(request.body);
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    answer(exchange, new ReceivedRequest(head, body, body && sizeBytes, exchange), responding);
  }
  return await exchange.response;
}

function receive(request: Request, peer: Peer, { now, limits }: FetchContext): Reception {
  const { protocol, host, pathname, search } = new URL(request.url);
  if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError(`Rangeway serves no ${protocol} URLs`);
  const fields: Field[] = [['host', host]];
  for (const [name, value] of request.headers) if (isPassed(name, value, request)) fields.push([name, value]);
  const head = { method: request.method, target: `${pathname}${search}`, version: '1.1', fields } as const;
  const scheme = protocol === 'http:' ? 'http' : 'https';
  return receiveHead(head, { scheme, peer, receivedAt: now(), limits });
}

/** The URL has the authority. A `Request` has no framing of its own, except that Content-Length may state the length of its body. */
function isPassed(name: string, value: string, { body }: Request): boolean {
  if (name === 'content-length') return body !== null || value === '0';
  return name !== 'host' && name !== 'transfer-encoding' && name !== 'expect';
}

/** Lives from the request until the response is read, cancelled or broken off. */
class FetchExchange implements RequestOwner, ResponseOutlet {
  readonly method: string;
  readonly unsentBytes = 0;
  readonly #request: Request;
  readonly #running: RunningExchanges;
  readonly #response = Promise.withResolvers<Response>();
  readonly #onAborted = (): void => this.#leave(this.#request.signal.reason);
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #takenBytes = 0;
  #isSettled = false;
  #isWhole = false;
  #onSettled: ((isWhole: boolean) => void) | undefined;
  #onRoom: (() => void) | undefined;
  #abort: AbortController | undefined;

  constructor(request: Request, running: RunningExchanges) {
    this.method = request.method;
    this.#request = request;
    this.#running = running;
    running.add(this);
    request.signal.addEventListener('abort', this.#onAborted, { once: true });
  }

  get response(): Promise<Response> {
    return this.#response.promise;
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  get isBehind(): boolean {
    return (this.#controller?.desiredSize ?? 1) <= 0;
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Aborted when the reader is gone before the response is complete. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isSettled && !this.#isWhole) this.#abort.abort(new ProxyError('client_gone'));
    }
    return this.#abort.signal;
  }

  /** A `Response` is final: interim responses are left out. */
  sendInterim(): void {}

  writeHead({ status, fields, contentLength, content, now }: ResponseHead): void {
    if (status > 599) throw new ProxyError('internal', { detail: `a Response cannot have the status ${status}` });
    const headers = new Headers();
    for (const [name, value] of fields) if (!isFramingField(name)) headers.append(name, value);
    if (!headers.has('date')) headers.append('date', formatHttpDate(now));
    if (contentLength !== undefined) headers.append('content-length', String(contentLength));
    const body = content === 'none' ? null : this.#openBody();
    this.#response.resolve(new Response(body, { status, headers }));
  }

  flushHead(): void {}

  /** Copies the chunk, because its memory is used again and a reader may keep, change or transfer what it gets. */
  write(chunk: Uint8Array): boolean {
    this.#controller?.enqueue(new Uint8Array(chunk));
    this.#takenBytes += chunk.length;
    return !this.isBehind;
  }

  room(): Promise<void> {
    if (this.#isSettled || !this.isBehind) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  end(chunks: readonly Uint8Array[], _trailers: Fields, giveBack?: () => void): void {
    for (const chunk of chunks) if (chunk.length > 0) this.write(chunk);
    giveBack?.();
    this.#controller?.close();
    this.#settle(true);
  }

  whenSettled(callback: (isWhole: boolean) => void): void {
    if (this.#isSettled) callback(false);
    else this.#onSettled = callback;
  }

  breakOff(): void {
    this.#leave(new TypeError('the response broke off'));
  }

  finishConnection(): void {}

  #openBody(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#makeRoom(),
        cancel: () => this.#settle(false),
      },
      { highWaterMark: bufferBytes, size: (chunk) => chunk.length },
    );
  }

  #leave(reason: unknown): void {
    if (this.#isSettled) return;
    this.#response.reject(reason);
    this.#controller?.error(reason);
    this.#settle(false);
  }

  #makeRoom(): void {
    this.#onRoom?.();
    this.#onRoom = undefined;
  }

  #settle(isWhole: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#isWhole = isWhole;
    this.#request.signal.removeEventListener('abort', this.#onAborted);
    if (!isWhole) this.#abort?.abort(new ProxyError('client_gone'));
    this.#makeRoom();
    this.#onSettled?.(isWhole);
    this.#running.delete(this);
  }
}

/** The body of a `Request`. */
class FetchBody implements BodyStream {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #isOver = false;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, undefined> {
    for (let chunk = await this.#read(); chunk !== undefined; chunk = await this.#read()) {
      if (chunk.length > 0) yield chunk;
    }
  }

  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    void this.#reader.cancel().catch(() => {});
  }

  async #read(): Promise<Uint8Array | undefined> {
    if (this.#isOver) throw new ProxyError('request_body_incomplete', { detail: 'the body was closed before its end' });
    try {
      const { done, value } = await this.#reader.read();
      this.#isOver = done;
      return value;
    } catch (cause) {
      throw new ProxyError('request_body_incomplete', { detail: 'the body of the Request failed', cause });
    }
  }
}
