/** Clients of the soak: one way to ask over HTTP/1 (kept, closed or over TLS) and over HTTP/2. */

import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { request as requestHttps, Agent as TlsAgent } from 'node:https';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { testAuthority } from '../support/values/tls-certificate.ts';
import type { Transport } from './plan.ts';

/** The name of the site, which each client uses on each transport. */
export const siteName = 'localhost';

/** A request. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** The head of a response, and its body. */
export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
  /** Whether the body has ended as its framing says; asked once the stream is closed. */
  isComplete(): boolean;
  /** Leaves in the middle. */
  abort(): void;
}

/** Time after which an HTTP/2 connection is replaced by a new one, in milliseconds. */
const sessionLifeMs = 20_000;

/** The connections of all clients. */
export class Clients {
  readonly #plain: URL;
  readonly #tls: URL;
  readonly #agents = {
    keep: new Agent({ keepAlive: true, maxSockets: 16 }),
    close: new Agent({ keepAlive: false }),
    tls: new TlsAgent({ keepAlive: true, maxSockets: 8, ca: testAuthority }),
  };
  /** TLS over new connections. */
  readonly #newTls = new TlsAgent({ keepAlive: false, ca: testAuthority });
  #session: Http2Connection | undefined;

  constructor(plain: string, tls: string) {
    this.#plain = new URL(plain);
    this.#tls = new URL(tls);
  }

  /** The port of the listener without TLS. */
  get plainPort(): number {
    return Number(this.#plain.port);
  }

  /** Sends a request, and waits for the head. Rejects where the connection ends before that. */
  async ask(transport: Transport, asked: Asked, agent?: Agent): Promise<Answered> {
    if (transport === 'http2') return this.#askHttp2(asked);
    try {
      return await this.#askHttp1(transport, asked, agent);
    } catch (error) {
      // A kept connection that ends just when it is used again says nothing: every client tries again (RFC 9112 §9.3.1). Over
      // the same scheme: the other one has another resource at this path, whose response may be older.
      if (!(error instanceof UnusedConnection)) throw error;
      return this.#askHttp1(transport, asked, transport === 'tls' ? this.#newTls : this.#agents.close);
    }
  }

  /** Closes all connections. */
  close(): void {
    this.#session?.retire();
    for (const agent of [...Object.values(this.#agents), this.#newTls]) agent.destroy();
  }

  async #askHttp1(transport: Exclude<Transport, 'http2'>, asked: Asked, agent?: Agent): Promise<Answered> {
    const { method, path, fields } = asked;
    const isTls = transport === 'tls';
    const { port, hostname } = isTls ? this.#tls : this.#plain;
    const options = { host: hostname, port, method, path, headers: { host: siteName, ...fields } };
    const request = isTls
      ? requestHttps({ ...options, agent: agent ?? this.#agents.tls, servername: siteName })
      : requestHttp({ ...options, agent: agent ?? this.#agents[transport] });
    request.on('error', () => {});
    request.end();
    let response: IncomingMessage;
    try {
      [response] = (await once(request, 'response')) as [IncomingMessage];
    } catch (error) {
      throw request.reusedSocket && method !== 'POST' ? new UnusedConnection() : error;
    }
    response.on('error', () => {});
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      body: response,
      isComplete: () => response.complete,
      abort: () => void response.destroy(),
    };
  }

  async #askHttp2({ method, path, fields }: Asked): Promise<Answered> {
    const stream = this.#openSession().request({
      ':method': method,
      ':path': path,
      ':scheme': 'https',
      ':authority': siteName,
      ...fields,
    });
    const [headers] = (await Promise.race([
      once(stream, 'response'),
      // A session that is gone closes its streams, which emits no error.
      once(stream, 'close').then(() => Promise.reject(new Error('the stream closed before its head'))),
    ])) as [IncomingHttpHeaders & { readonly ':status': number }];
    return {
      status: headers[':status'],
      headers,
      body: stream,
      isComplete: () => stream.rstCode === 0 && stream.readableEnded,
      abort: () => stream.close(8),
    };
  }

  #openSession(): Http2Connection {
    const known = this.#session;
    if (known?.isUsable(Date.now() - sessionLifeMs)) return known;
    known?.retire();
    this.#session = new Http2Connection(`https://${siteName}:${this.#tls.port}`);
    return this.#session;
  }
}

/** A connection of HTTP/2, which is closed once it is retired and its last stream is read. */
class Http2Connection {
  readonly #session: ClientHttp2Session;
  readonly #begunAt = Date.now();
  #streams = 0;
  #isRetired = false;

  constructor(url: string) {
    this.#session = connectHttp2(url, { ca: testAuthority, family: 4 } as object);
    this.#session.on('error', () => {});
  }

  /** Whether it is open, and was begun after a time. */
  isUsable(earliest: number): boolean {
    return !this.#session.closed && !this.#session.destroyed && this.#begunAt > earliest;
  }

  /** Opens a stream without a body. */
  request(headers: OutgoingHttpHeaders): ClientHttp2Stream {
    const stream = this.#session.request(headers, { endStream: true });
    this.#streams += 1;
    stream.on('error', () => {});
    stream.once('close', () => {
      this.#streams -= 1;
      this.#closeIfUnused();
    });
    return stream;
  }

  /** Has it closed after its last stream: Node's client loses what is unread when the server ends a connection with GOAWAY. */
  retire(): void {
    this.#isRetired = true;
    this.#closeIfUnused();
  }

  #closeIfUnused(): void {
    if (this.#isRetired && this.#streams === 0) this.#session.close();
  }
}

/** A kept connection was closed before the request reached the server. */
class UnusedConnection extends Error {}

/** Makes an agent with one connection, which its client keeps idle. */
export function idleAgent(): Agent {
  return new Agent({ keepAlive: true, maxSockets: 1 });
}

/** Reads a body at a pace: `pauseMs` between two chunks. Calls `take` with each, and `enough` after it, which may end it. */
export async function readBody(
  { body, isComplete, abort }: Answered,
  take: (chunk: Buffer) => void,
  { pauseMs = 0, enough = () => false }: { readonly pauseMs?: number; readonly enough?: () => boolean } = {},
): Promise<boolean> {
  const closed = body.closed ? Promise.resolve() : new Promise<void>((resolve) => body.once('close', () => resolve()));
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      take(chunk);
      if (enough()) {
        abort();
        return false;
      }
      if (pauseMs > 0) await delay(pauseMs);
    }
  } catch (error) {
    if (error instanceof WrongBytes) {
      abort();
      throw error;
    }
    // The connection ended early.
    return false;
  }
  await closed;
  return isComplete();
}

/** Thrown by `take` where a byte is wrong, which is no end of a connection. */
export class WrongBytes extends Error {}
