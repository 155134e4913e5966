/** An origin without sockets: a test takes each request as it arrives, and sends the response byte by byte. */

import type { Field, Fields } from '../../../src/http/fields.ts';
import type { BodyStream, NextChunk } from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { Framing, Origin, OriginRequest, OriginResponse } from '../../../src/origin/origin.ts';

export interface FakeHead {
  readonly status?: number;
  readonly fields?: Readonly<Record<string, string>>;
  readonly framing?: Framing;
}

/** One request that arrived at the origin, to be answered. */
export interface FakeExchange {
  readonly request: OriginRequest;
  /** Sends the head. Without `content-length` the body is chunked, unless `framing` says otherwise. */
  head(head?: FakeHead): void;
  /** Sends bytes of the body. Resolves when they have been read. */
  send(bytes: Uint8Array): Promise<void>;
  /** Ends the body. */
  end(): void;
  /** Fails the exchange, before or after the head. */
  fail(error: ProxyError): void;
  /** Sends a whole response. */
  respond(head: FakeHead, body: Uint8Array): void;
  /** Whether the body was closed by its reader. */
  readonly isClosed: boolean;
}

export interface FakeOrigin extends Origin {
  /** Waits for an untaken request, and takes it. Of several, takes the `at`-th (modulo their number). */
  next(at?: number): Promise<FakeExchange>;
  /** Number of all requests so far. */
  readonly requests: number;
  /** Number of untaken requests. */
  readonly untaken: number;
  /** The untaken requests. */
  readonly waiting: readonly FakeExchange[];
}

/** Creates the origin. `arrivals` resolves when the proxy has everything that clients have sent so far. */
export function createFakeOrigin(arrivals?: () => Promise<void>): FakeOrigin {
  const arrived: FakeExchange[] = [];
  const takers: ((exchange: FakeExchange) => void)[] = [];
  let requests = 0;
  return {
    fetch(request) {
      requests += 1;
      return new Promise<OriginResponse>((resolve, reject) => {
        const exchange = createExchange(request, resolve, reject);
        const taker = takers.shift();
        if (taker === undefined) arrived.push(exchange);
        else taker(exchange);
      });
    },
    close: async () => {},
    async next(at = 0) {
      if (arrivals !== undefined) await arrivals();
      return await new Promise((resolve) => {
        const [exchange] = arrived.splice(at % Math.max(1, arrived.length), 1);
        if (exchange === undefined) takers.push(resolve);
        else resolve(exchange);
      });
    },
    get requests() {
      return requests;
    },
    get untaken() {
      return arrived.length;
    },
    get waiting() {
      return arrived;
    },
  };
}

function createExchange(
  request: OriginRequest,
  resolve: (response: OriginResponse) => void,
  reject: (error: ProxyError) => void,
): FakeExchange {
  const body = new FakeBody();
  const fail = (error: ProxyError) => {
    reject(error);
    body.fail(error);
  };
  const abort = () => fail(new ProxyError('client_gone'));
  if (request.signal.aborted) abort();
  request.signal.addEventListener('abort', abort, { once: true });
  const exchange: FakeExchange = {
    request,
    head({ status = 200, fields = {}, framing } = {}) {
      const list: Fields = Object.entries(fields).map(([name, value]): Field => [name.toLowerCase(), value]);
      const length = list.find(([name]) => name === 'content-length')?.[1];
      resolve({
        status,
        fields: list,
        version: '1.1',
        framing: framing ?? (length === undefined ? 'chunked' : 'length'),
        sizeBytes: length === undefined ? undefined : Number(length),
        body,
      });
    },
    send: (bytes) => body.push(bytes),
    end: () => body.end(),
    fail,
    respond(head, bytes) {
      exchange.head({ ...head, fields: { 'content-length': String(bytes.length), ...head.fields } });
      void body.push(bytes);
      body.end();
    },
    get isClosed() {
      return body.isClosed;
    },
  };
  return exchange;
}

/** A body that a test pushes and a reader pulls. */
class FakeBody implements BodyStream {
  readonly #queue: { bytes: Uint8Array; taken: () => void }[] = [];
  /** The last chunk that was handed out: it counts as read when the reader asks for more. */
  #latest: { taken: () => void } | undefined;
  #wake: () => void = () => {};
  #isEnded = false;
  #error: ProxyError | undefined;
  isClosed = false;

  push(bytes: Uint8Array): Promise<void> {
    return new Promise((taken) => {
      this.#queue.push({ bytes, taken });
      this.#wake();
    });
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  fail(error: ProxyError): void {
    this.#error = error;
    this.#wake();
  }

  close(): void {
    this.isClosed = true;
    this.#wake();
  }

  take(): NextChunk {
    this.#latest?.taken();
    this.#latest = undefined;
    if (this.isClosed) return 'later';
    const next = this.#queue.shift();
    this.#latest = next;
    return next?.bytes ?? (this.#isEnded && this.#error === undefined ? 'end' : 'later');
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const taken = this.take();
      if (taken === 'end') return;
      if (taken !== 'later') {
        yield taken;
        continue;
      }
      if (this.isClosed) throw new ProxyError('client_gone', { detail: 'the body was closed' });
      if (this.#error !== undefined) throw this.#error;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
