/** An HTTP/2 client with one session for all requests, and small flow-control windows. */

import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import type { Socket } from 'node:net';
import type { Field } from '../../../src/http/fields.ts';
import type { Http1Request } from './wire-http1.ts';
import { WireStream } from './wire-stream.ts';

/** The initial window of a stream, in bytes: less than tests read at a time. */
const windowBytes = 1500;

/** Fields that HTTP/2 does not have (RFC 9113 §8.2.2). */
const connectionFields = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);

/** One session. Calls `onFault` with each fault of the listener. */
export class WireHttp2 {
  readonly #session: ClientHttp2Session;
  readonly #onFault: (fault: Error) => void;
  #isClosed = false;

  constructor(socket: Socket, onFault: (fault: Error) => void) {
    this.#onFault = onFault;
    const settings = { initialWindowSize: windowBytes, enablePush: false };
    this.#session = connect('https://localhost', { createConnection: () => socket, settings });
    this.#session.on('error', () => {});
  }

  /** Whether another request can be sent. */
  get isFree(): boolean {
    return !this.#isClosed && !this.#session.closed && !this.#session.destroyed;
  }

  /** Returns whether HTTP/2 can express a request. */
  static canSay({ version, fields }: Http1Request): boolean {
    return version !== '1.0' && !fields.some(([name]) => connectionFields.has(name));
  }

  begin({ method, target, fields }: Http1Request): WireStream {
    const headers: Record<string, string | string[]> = Object.create(null);
    for (const [name, value] of fields) if (name !== 'host') headers[name] = value;
    const authority = fields.find(([name]) => name === 'host')?.[1] ?? '';
    const sent = this.#session.request(
      { ':method': method, ':scheme': 'https', ':authority': authority, ':path': target, ...headers },
      { endStream: true },
    );
    const stream = new WireStream();
    stream.abandon = () => {
      if (!sent.closed) sent.close(constants.NGHTTP2_CANCEL);
    };
    this.#follow(sent, stream);
    return stream;
  }

  close(): void {
    this.#isClosed = true;
    this.#session.destroy();
  }

  #follow(sent: ClientHttp2Stream, stream: WireStream): void {
    let length: number | undefined;
    let hasEnded = false;
    const receive = (_headers: unknown, _flags: unknown, raw: readonly string[]) => {
      const { status, fields } = readHead(raw);
      const fault = fields.find(([name]) => connectionFields.has(name) || name !== name.toLowerCase())?.[0];
      if (fault !== undefined) this.#onFault(new Error(`a field that HTTP/2 does not have: ${fault}`));
      const value = fields.find(([name]) => name === 'content-length')?.[1];
      if (value !== undefined && status >= 200) length = Number(value);
      stream.putHead({ status, fields, isJoined: true });
    };
    sent.on('headers', receive);
    sent.on('response', receive);
    sent.on('data', (bytes: Buffer) => stream.put(bytes));
    sent.on('end', () => (hasEnded = true));
    sent.on('error', () => {});
    sent.on('close', () => {
      // Node ends the streams of a destroyed session like complete ones.
      const isCut = this.#isClosed || sent.aborted || sent.rstCode !== constants.NGHTTP2_NO_ERROR;
      const isWhole = hasEnded && !isCut;
      stream.end(isWhole ? undefined : new Error(`the stream ended before the response (${sent.rstCode})`));
      const isOther = length !== undefined && stream.receivedBytes > 0 && stream.receivedBytes !== length;
      if (isWhole && isOther) this.#onFault(new Error(`${stream.receivedBytes} bytes instead of ${length}`));
    });
  }
}

function readHead(raw: readonly string[]): { readonly status: number; readonly fields: readonly Field[] } {
  const fields: Field[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) fields.push([raw[at] ?? '', raw[at + 1] ?? '']);
  const status = Number(fields.find(([name]) => name === ':status')?.[1]);
  return { status, fields: fields.filter(([name]) => !name.startsWith(':')) };
}
