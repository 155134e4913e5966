/** A strict HTTP/1.1 client on one connection: any bytes that a listener must not write are an error. */

import type { Socket } from 'node:net';
import type { Field } from '../../../src/http/fields.ts';
import { WireStream } from './wire-stream.ts';

/** A request to be written. */
export interface Http1Request {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly fields: readonly Field[];
}

type Expected =
  | { readonly kind: 'head' }
  | { readonly kind: 'length'; readonly missingBytes: number }
  | { readonly kind: 'chunk-size' }
  | { readonly kind: 'chunk'; readonly missingBytes: number }
  | { readonly kind: 'chunk-end' }
  | { readonly kind: 'trailer' }
  | { readonly kind: 'until-close' }
  | { readonly kind: 'nothing' };

const nothing: Expected = { kind: 'nothing' };

/** Sends one request after the other. Calls `onFault` with each fault of the listener. */
export class WireHttp1 {
  readonly #socket: Socket;
  readonly #onFault: (fault: Error) => void;
  #rest: Buffer = Buffer.alloc(0);
  #expected: Expected = nothing;
  #stream: WireStream | undefined;
  #latest: WireStream | undefined;
  #method = '';
  #isLast = false;
  #isEnded = false;

  /** Reads all bytes, even where no response is expected. */
  constructor(socket: Socket, onFault: (fault: Error) => void) {
    this.#socket = socket;
    this.#onFault = onFault;
    let code: string | undefined;
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
    socket.on('error', (error: NodeJS.ErrnoException) => (code = error.code));
    socket.on('end', () => this.#finish(code));
    socket.on('close', () => this.#finish(code ?? 'close'));
  }

  /** Whether another request can be sent. */
  get isFree(): boolean {
    return this.#stream === undefined && !this.#isLast && !this.#isEnded && !this.#socket.destroyed;
  }

  /** Sends a request. Throws where another exchange is running on the connection. */
  begin({ method, target, version, fields }: Http1Request): WireStream {
    if (!this.isFree) throw new Error('the connection is not free');
    const stream = new WireStream();
    // The response may be complete for the client and not for the listener; no other exchange is running then.
    stream.abandon = () => {
      if (this.#latest === stream) this.#socket.destroy();
    };
    this.#stream = stream;
    this.#latest = stream;
    this.#method = method;
    this.#expected = { kind: 'head' };
    this.#isLast = version === '1.0';
    const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    this.#socket.write(`${method} ${target} HTTP/${version}\r\n${lines}\r\n`, 'latin1');
    return stream;
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    try {
      while (this.#step());
      if (this.#expected.kind === 'nothing' && this.#rest.length > 0) throw new Error('bytes without a request');
    } catch (thrown) {
      const fault = new Error(`${(thrown as Error).message}: ${this.#rest.toString('latin1', 0, 200)}`);
      this.#onFault(fault);
      this.#stream?.end(fault);
      this.#stream = undefined;
      this.#socket.destroy();
    }
  }

  /** Reads one element. Returns false where it has not arrived yet. */
  #step(): boolean {
    const expected = this.#expected;
    switch (expected.kind) {
      case 'head':
        return this.#line('\r\n\r\n', (text) => this.#readHead(text));
      case 'length':
      case 'chunk':
        return this.#content(expected);
      case 'chunk-size':
        return this.#line('\r\n', (text) => this.#readChunkSize(text));
      case 'chunk-end':
        return this.#line('\r\n', (text) => this.#readChunkEnd(text));
      case 'trailer':
        return this.#line('\r\n', (text) => this.#readTrailer(text));
      case 'until-close':
        return this.#content({ kind: 'until-close', missingBytes: Number.POSITIVE_INFINITY });
      case 'nothing':
        return false;
    }
  }

  #line(delimiter: string, read: (text: string) => void): boolean {
    const at = this.#rest.indexOf(delimiter, 0, 'latin1');
    if (at < 0) return false;
    const text = this.#rest.toString('latin1', 0, at);
    this.#rest = this.#rest.subarray(at + delimiter.length);
    read(text);
    return true;
  }

  #content({ kind, missingBytes }: { kind: 'length' | 'chunk' | 'until-close'; missingBytes: number }): boolean {
    const bytes = this.#rest.subarray(0, missingBytes);
    this.#rest = this.#rest.subarray(bytes.length);
    if (bytes.length > 0) this.#stream?.put(Buffer.from(bytes));
    const left = missingBytes - bytes.length;
    if (kind === 'until-close') return false;
    if (left > 0) this.#expected = { kind, missingBytes: left };
    else if (kind === 'chunk') this.#expected = { kind: 'chunk-end' };
    else this.#end();
    return left === 0;
  }

  #readHead(text: string): void {
    const [statusLine = '', ...lines] = text.split('\r\n');
    const status = Number(/^HTTP\/1\.1 ([1-9]\d\d) [\t -~]*$/.exec(statusLine)?.[1] ?? fail('no status line'));
    const fields = lines.map(readField);
    const expected = status < 200 ? this.#expected : this.#framing(status, fields);
    this.#stream?.putHead({ status, fields, isJoined: false });
    if (expected.kind === 'nothing') this.#end();
    else this.#expected = expected;
  }

  /** Returns what must follow the head of a final response. */
  #framing(status: number, fields: readonly Field[]): Expected {
    const values = (name: string) => fields.filter(([each]) => each === name).map(([, value]) => value);
    const [coding, ...moreCodings] = values('transfer-encoding');
    const [length, ...moreLengths] = values('content-length');
    if (moreCodings.length + moreLengths.length > 0) fail('duplicate framing fields');
    if (values('connection').includes('close')) this.#isLast = true;
    const hasContent = this.#method !== 'HEAD' && status !== 204 && status !== 304;
    if (coding !== undefined && (coding !== 'chunked' || length !== undefined || !hasContent)) fail('a wrong coding');
    if (length !== undefined && !/^\d+$/.test(length)) fail('no length');
    if (!hasContent || length === '0') return nothing;
    if (coding !== undefined) return { kind: 'chunk-size' };
    if (length !== undefined) return { kind: 'length', missingBytes: Number(length) };
    return this.#isLast ? { kind: 'until-close' } : fail('no end of the body');
  }

  #readChunkSize(text: string): void {
    if (!/^[\da-f]{1,12}$/i.test(text)) fail('no size of a chunk');
    const missingBytes = Number.parseInt(text, 16);
    this.#expected = missingBytes === 0 ? { kind: 'trailer' } : { kind: 'chunk', missingBytes };
  }

  #readChunkEnd(text: string): void {
    if (text !== '') fail('no end of a chunk');
    this.#expected = { kind: 'chunk-size' };
  }

  #readTrailer(text: string): void {
    if (text === '') this.#end();
    else readField(text);
  }

  /** The response is whole. */
  #end(): void {
    const stream = this.#stream;
    this.#expected = nothing;
    this.#stream = undefined;
    stream?.end();
  }

  /** The connection has ended. */
  #finish(code: string | undefined): void {
    this.#isEnded = true;
    if (this.#expected.kind === 'until-close' && code === undefined) this.#end();
    this.#stream?.end(new Error(`the connection ended before the response (${code ?? 'end'})`));
    this.#stream = undefined;
  }
}

function readField(line: string): Field {
  const { name, value } = /^(?<name>[\w!#$%&'*+.^`|~-]+): (?<value>[\t -~\x80-\xff]*)$/.exec(line)?.groups ?? {};
  if (name === undefined || value === undefined || value !== value.trim()) return fail(`no field line ${line}`);
  return [name.toLowerCase(), value];
}

function fail(reason: string): never {
  throw new Error(reason);
}
