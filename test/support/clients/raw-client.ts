/** A client that sends arbitrary bytes over a real connection, and reads responses strictly. */

import { connect, type Socket } from 'node:net';
import type { Field } from '../../../src/http/fields.ts';

/** A received response; names have the case of the wire. */
export interface RawResponse {
  readonly status: number;
  readonly reason: string;
  readonly lines: readonly Field[];
  readonly body: Buffer;
  /** Whether the body is complete by its framing. A close-delimited body is, unless the connection was reset. */
  readonly isWhole: boolean;
}

/** Returns the values of all lines of a field; the name is case-insensitive. */
export function rawValues(response: Pick<RawResponse, 'lines'>, name: string): string[] {
  return response.lines.filter(([lineName]) => lineName.toLowerCase() === name.toLowerCase()).map(([, value]) => value);
}

/** One connection. Text is sent and read as latin1, so that a character is a byte. */
export class RawClient implements AsyncDisposable {
  readonly socket: Socket;
  /** The TCP or Unix connection: `socket`, or the connection below TLS. */
  readonly #carrier: Socket;
  /** Resolves when the connection is closed, with the code of its error, if any. */
  readonly closed: Promise<string | undefined>;
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);
  #errorCode: string | undefined;

  private constructor(socket: Socket, carrier: Socket) {
    this.socket = socket;
    this.#carrier = carrier;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.closed = promise;
    const note = (error: NodeJS.ErrnoException) => {
      this.#errorCode = error.code ?? error.message;
    };
    if (socket.errored !== null) note(socket.errored);
    socket.on('error', note);
    if (socket.closed) resolve(this.#errorCode);
    socket.on('close', () => resolve(this.#errorCode));
    this.#chunks = socket.iterator({ destroyOnReturn: false });
  }

  /** Connects to a port of 127.0.0.1, or to a Unix socket. `begin` may wrap the connection, as in TLS. */
  static async open(
    place: number | string,
    begin: (socket: Socket) => Socket | Promise<Socket> = (socket) => socket,
  ): Promise<RawClient> {
    const carrier =
      typeof place === 'number' ? connect({ port: place, host: '127.0.0.1', noDelay: true }) : connect({ path: place });
    await new Promise<void>((resolve, reject) => {
      carrier.once('connect', resolve);
      // The server may reset the connection before Node reports that it is connected.
      carrier.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'ECONNRESET' ? resolve() : reject(error),
      );
    });
    return new RawClient(await begin(carrier), carrier);
  }

  send(bytes: string | Uint8Array): void {
    if (typeof bytes === 'string') this.socket.write(bytes, 'latin1');
    else this.socket.write(bytes);
  }

  /** Bytes sent by `pour`. */
  pouredBytes = 0;

  /** Sends a part `count` times, each after the previous one was written, until the connection is closed. */
  async pour(part: Uint8Array, count: number): Promise<void> {
    for (let sent = 0; sent < count && !this.socket.destroyed; sent += 1) {
      await new Promise<void>((resolve) => this.socket.write(part, () => resolve()));
      this.pouredBytes += part.length;
    }
  }

  /** Ends the client's side (FIN); it can still read. */
  end(): void {
    this.socket.end();
  }

  /** Resets the connection (RST). */
  reset(): void {
    // Unix sockets have no reset: closes them.
    if (this.#carrier.remoteAddress === undefined) this.#carrier.destroy();
    else this.#carrier.resetAndDestroy();
  }

  /** Reads `sizeBytes` bytes; fewer only where the connection ends. */
  async take(sizeBytes: number): Promise<Buffer> {
    const chunks = [this.#rest];
    let takenBytes = this.#rest.length;
    while (takenBytes < sizeBytes) {
      const chunk = await this.#next();
      if (chunk === undefined) break;
      chunks.push(chunk);
      takenBytes += chunk.length;
    }
    const bytes = Buffer.concat(chunks, takenBytes);
    this.#rest = bytes.subarray(sizeBytes);
    return bytes.subarray(0, sizeBytes);
  }

  /** Reads until the connection ends. */
  async rest(): Promise<string> {
    return (await this.take(Number.MAX_SAFE_INTEGER)).toString('latin1');
  }

  /** Reads a head. Returns undefined when the connection ends first. */
  async head(): Promise<Omit<RawResponse, 'body' | 'isWhole'> | undefined> {
    const text = await this.#until('\r\n\r\n');
    if (text === undefined) return undefined;
    const [statusLine = '', ...fieldLines] = text.split('\r\n');
    const parts = /^HTTP\/1\.1 (?<status>\d{3}) (?<reason>.*)$/.exec(statusLine)?.groups;
    if (parts === undefined) throw new Error(`no status line: ${JSON.stringify(statusLine)}`);
    const { status, reason = '' } = parts;
    const lines = fieldLines.map((line): Field => {
      const colon = line.indexOf(': ');
      if (colon < 1) throw new Error(`no field line: ${JSON.stringify(line)}`);
      return [line.slice(0, colon), line.slice(colon + 2)];
    });
    return { status: Number(status), reason, lines };
  }

  /** Reads a response to a request of this method. Returns undefined when the connection ends before its head does. */
  async response(method = 'GET'): Promise<RawResponse | undefined> {
    const head = await this.head();
    if (head === undefined) return undefined;
    const [length] = rawValues(head, 'content-length');
    const isChunked = rawValues(head, 'transfer-encoding').includes('chunked');
    if (isChunked && length !== undefined) throw new Error('Content-Length beside Transfer-Encoding');
    if (method === 'HEAD' || head.status < 200 || head.status === 204 || head.status === 304) {
      return { ...head, body: Buffer.alloc(0), isWhole: true };
    }
    if (isChunked) return { ...head, ...(await this.#chunkedBody()) };
    if (length === undefined) {
      const body = await this.take(Number.MAX_SAFE_INTEGER);
      return { ...head, body, isWhole: this.#errorCode === undefined };
    }
    const body = await this.take(Number(length));
    return { ...head, body, isWhole: body.length === Number(length) };
  }

  /** Sends a request, and reads its response. Throws where there is none. */
  async exchange(request: string): Promise<RawResponse> {
    this.send(request);
    const response = await this.response(request.slice(0, request.indexOf(' ')));
    if (response === undefined) throw new Error(`no response to ${JSON.stringify(request.slice(0, 80))}`);
    return response;
  }

  /** Reads the text before a delimiter, and consumes it. Returns undefined when the connection ends first. */
  async #until(delimiter: string): Promise<string | undefined> {
    for (;;) {
      const at = this.#rest.indexOf(delimiter, 0, 'latin1');
      if (at >= 0) {
        const text = this.#rest.toString('latin1', 0, at);
        this.#rest = this.#rest.subarray(at + delimiter.length);
        return text;
      }
      const chunk = await this.#next();
      if (chunk === undefined) return undefined;
      this.#rest = Buffer.concat([this.#rest, chunk]);
    }
  }

  /** Reads the next chunk; undefined at a close or a reset. `closed` tells one from the other. */
  async #next(): Promise<Buffer | undefined> {
    try {
      const next = await this.#chunks.next();
      return next.done === true ? undefined : next.value;
    } catch {
      return undefined;
    }
  }

  async #chunkedBody(): Promise<{ body: Buffer; isWhole: boolean }> {
    const chunks: Buffer[] = [];
    for (;;) {
      const size = await this.#until('\r\n');
      if (size === undefined) return { body: Buffer.concat(chunks), isWhole: false };
      if (!/^[0-9a-f]+$/i.test(size)) throw new Error(`no chunk size: ${JSON.stringify(size)}`);
      const sizeBytes = Number.parseInt(size, 16);
      const chunk = await this.take(sizeBytes);
      chunks.push(chunk);
      const end = await this.take(2);
      if (chunk.length < sizeBytes || end.length < 2) return { body: Buffer.concat(chunks), isWhole: false };
      if (end.toString('latin1') !== '\r\n') throw new Error('no CRLF after a chunk');
      if (sizeBytes === 0) return { body: Buffer.concat(chunks), isWhole: true };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed;
  }
}
