/** One request and its response on a server of Node. */

import { type ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http';
import type { Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import { type ClientConnection, endOwners } from '../http/client-connection.ts';
import { type Fields, listMembers, wireFieldName } from '../http/fields.ts';
import type { InterimResponse, ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { RequestHead } from '../listener/listener.ts';
import { MessageBody } from '../listener/message-body.ts';
import { ReceivedRequest, type RequestFraming, type RequestOwner } from '../listener/receive.ts';
import {
  isFramingField,
  type ResponseHead,
  type ResponseOutlet,
  requiredUpgrade,
  wireFields,
} from '../listener/respond.ts';
import type { RateLimits } from '../listener/timeouts.ts';
import { formatHttpDate } from '../semantics/http-date.ts';
import { isHttp2, type NodeRequest } from './node-reception.ts';

/** A response of `node:http`, `node:https` or the compatibility API of `node:http2`. */
export type NodeResponse = ServerResponse | Http2ServerResponse;

/** INTERNAL_ERROR and HTTP_1_1_REQUIRED (RFC 9113 §7). */
const http2InternalError = 2;
const http2Http1Required = 13;

/** Fields of a representation or its framing: what another middleware has set for its own response must not describe ours. */
const representationFields = [
  'content-encoding',
  'content-language',
  'content-length',
  'content-location',
  'content-range',
  'content-type',
  'etag',
  'last-modified',
  'trailer',
  'transfer-encoding',
];

const ignore = (): void => {};

const connections = new WeakMap<Socket, ClientConnection>();

function connectionOf(socket: Socket): ClientConnection {
  const known = connections.get(socket);
  if (known !== undefined) return known;
  const connection: ClientConnection = { owners: undefined };
  connections.set(socket, connection);
  socket.once('close', () => endOwners(connection));
  return connection;
}

/** Lives from the request head until the response has left the process, or the client is gone. */
export class NodeExchange implements RequestOwner, ResponseOutlet {
  readonly #request: NodeRequest;
  readonly #response: NodeResponse;
  #body: MessageBody | undefined;
  #endUploadPace: (() => void) | undefined;
  #isLast = false;
  #isCloseDelimited = false;
  #writtenBytes = 0;
  #takenBytes = 0;
  #isSettled = false;
  #isWhole = false;
  #onSettled: ((isWhole: boolean) => void) | undefined;
  #onRoom: (() => void) | undefined;
  #abort: AbortController | undefined;

  /** `onOver` is called once, when the response is over. */
  constructor(request: NodeRequest, response: NodeResponse, onOver: (exchange: NodeExchange) => void) {
    this.#request = request;
    this.#response = response;
    // Without a listener, the error of a client that has left would end the process.
    request.on('error', ignore);
    response.on('error', ignore);
    const settle = (isWhole: boolean): void => {
      if (this.#isSettled) return;
      this.#settle(isWhole);
      onOver(this);
    };
    response.once('finish', () => settle(true));
    response.once('close', () => settle(false));
    response.on('drain', () => this.#makeRoom());
    if (isGone(response)) settle(false);
  }

  get method(): string {
    return this.#request.method ?? '';
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  get isBehind(): boolean {
    return !this.#isSettled && this.#waitingBytes > 0;
  }

  get takenBytes(): number {
    this.#takenBytes = Math.max(this.#takenBytes, this.#writtenBytes - this.#waitingBytes);
    return this.#takenBytes;
  }

  /** Not known, where a middleware stands before the response. */
  get unsentBytes(): number {
    return Number.POSITIVE_INFINITY;
  }

  /** Aborted when the client is gone before the response is complete. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isSettled && !this.#isWhole) this.#abort.abort(new ProxyError('client_gone'));
    }
    return this.#abort.signal;
  }

  /** The connection of the client; undefined over HTTP/2, whose requests share one. */
  get connection(): ClientConnection | undefined {
    return isHttp2(this.#request) ? undefined : connectionOf(this.#request.socket);
  }

  /** Whether the program has read from the body of the request, or taken it away. */
  get hasLostBody(): boolean {
    return this.#request.readableDidRead || this.#request.readableEnded || this.#request.readableFlowing === true;
  }

  /** Whether a body comes with the request. */
  hasBody(framing: RequestFraming): boolean {
    if (framing.kind === 'length') return framing.sizeBytes > 0;
    return framing.kind === 'chunked' || (isHttp2(this.#request) && !this.#request.stream.endAfterHeaders);
  }

  /** Returns the request for the handler. */
  receive(head: RequestHead, framing: RequestFraming, uploadPace: RateLimits): ProxyRequest {
    const sizeBytes = framing.kind === 'length' ? framing.sizeBytes : undefined;
    if (this.hasBody(framing)) {
      const message = this.#request;
      const isWhole = () => message.complete;
      const body = new MessageBody(message, { sizeBytes, brokenOff: 'request_body_incomplete', isWhole });
      this.#body = body;
      this.#endUploadPace = uploadPace.watch(body, (error) => body.fail(error));
    }
    return new ReceivedRequest(head, this.#body, sizeBytes, this);
  }

  /** Sends an interim response (RFC 9110 §15.2), except to an HTTP/1.0 client. */
  sendInterim({ status, fields }: InterimResponse): void {
    const response = this.#response;
    if (this.#request.httpVersion === '1.0' || status < 102 || status > 199) return;
    if (this.#isSettled || response.headersSent) return;
    try {
      const sent = wireFields(fields.filter(([name]) => !isFramingField(name)));
      if (isHttp2Response(response)) response.stream.additionalHeaders({ ...sent, ':status': status });
      else writeInterim(response, status, sent);
    } catch {
      // A field cannot be written: the interim response is left out.
    }
  }

  writeHead({ status, fields, contentLength, content, isLast, now }: ResponseHead): void {
    const response = this.#response;
    if (response.headersSent) throw new ProxyError('internal', { detail: 'the program has sent a response before' });
    const lines = checkedLines(fields);
    if (!fields.some(([name]) => name === 'date')) lines.push(['date', formatHttpDate(now)]);
    if (contentLength !== undefined) lines.push(['content-length', String(contentLength)]);
    for (const name of representationFields) response.removeHeader(name);
    if (isHttp2Response(response)) {
      response.writeHead(status, wireFields(lines));
      return;
    }
    const isDelimited = content !== 'stream' || contentLength !== undefined;
    this.#isCloseDelimited = !isDelimited && this.#request.httpVersion === '1.0';
    // Stated, because Node no longer chunks by itself once `removeHeader` was called for this field.
    if (!isDelimited && !this.#isCloseDelimited) lines.push(['transfer-encoding', 'chunked']);
    const upgrade = requiredUpgrade(status, fields);
    const isEnding = isLast || this.#isLast || this.#isCloseDelimited;
    const options = [...(upgrade === undefined ? [] : ['upgrade']), ...(isEnding ? ['close'] : [])];
    if (upgrade !== undefined) lines.push(['upgrade', upgrade]);
    if (options.length > 0) lines.push(['connection', options.join(', ')]);
    response.writeHead(
      status,
      lines.flatMap(([name, value]) => [wireFieldName(name), value]),
    );
  }

  flushHead(): void {
    // The types of HTTP/2 leave out this method.
    (this.#response as ServerResponse).flushHeaders();
  }

  write(chunk: Uint8Array): boolean {
    this.#writtenBytes += chunk.length;
    // The two kinds of a response have the same method, with different overloads.
    return (this.#response as ServerResponse).write(chunk);
  }

  room(): Promise<void> {
    if (this.#isSettled || !this.#response.writableNeedDrain) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  end(chunks: readonly Uint8Array[], trailers: Fields): void {
    const response = this.#response;
    response.cork();
    for (const chunk of chunks) if (chunk.length > 0) this.write(chunk);
    // Only for a client that sends `TE: trailers`.
    if (trailers.length > 0 && this.#acceptsTrailers) addTrailers(response, trailers);
    response.uncork();
    response.end();
  }

  whenSettled(callback: (isWhole: boolean) => void): void {
    if (this.#isSettled) callback(false);
    else this.#onSettled = callback;
  }

  breakOff(): void {
    if (this.#isSettled) return;
    const response = this.#response;
    this.flushHead();
    setImmediate(() => {
      if (this.#isSettled) return;
      if (isHttp2Response(response)) response.stream.close(http2InternalError);
      // An end without a reset would look like the end of the body.
      else if (this.#isCloseDelimited) response.socket?.resetAndDestroy();
      else response.destroy();
    });
  }

  get requireHttp1(): (() => void) | undefined {
    const response = this.#response;
    return isHttp2Response(response) ? () => response.stream.close(http2Http1Required) : undefined;
  }

  finishConnection(): void {
    this.#isLast = true;
  }

  /** Whether TE contains `trailers` (RFC 9110 §10.1.4). */
  get #acceptsTrailers(): boolean {
    const { te } = this.#request.headers;
    return listMembers(typeof te === 'string' ? te : undefined).some((coding) => coding.toLowerCase() === 'trailers');
  }

  get #waitingBytes(): number {
    return this.#response.writableLength;
  }

  #makeRoom(): void {
    this.#onRoom?.();
    this.#onRoom = undefined;
  }

  #settle(isWhole: boolean): void {
    this.#isSettled = true;
    this.#isWhole = isWhole;
    this.#endUploadPace?.();
    if (!isWhole) this.#abort?.abort(new ProxyError('client_gone'));
    this.#makeRoom();
    this.#onSettled?.(isWhole);
  }
}

function isHttp2Response(response: NodeResponse): response is Http2ServerResponse {
  return 'createPushResponse' in response;
}

function isGone(response: NodeResponse): boolean {
  if (isHttp2Response(response)) return response.stream === undefined || response.stream.destroyed;
  return response.destroyed || response.writableEnded;
}

function writeInterim(response: ServerResponse, status: number, fields: NodeJS.Dict<string | string[]>): void {
  const { Link: link, ...others } = fields;
  // Node 26 writes any interim response, Node 24 only these two.
  const general: unknown = Reflect.get(response, 'writeInformation');
  if (typeof general === 'function') general.call(response, status, { ...fields });
  else if (status === 103 && link !== undefined) response.writeEarlyHints({ ...others, link });
  else if (status === 102) response.writeProcessing();
}

/** Returns the lines without those for framing. Throws `ProxyError` `internal` for a line that cannot be written. */
function checkedLines(fields: Fields): [string, string][] {
  const lines: [string, string][] = [];
  for (const [name, value] of fields) {
    if (isFramingField(name)) continue;
    try {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    } catch (cause) {
      throw new ProxyError('internal', { detail: `the field ${JSON.stringify(name)} cannot be written`, cause });
    }
    lines.push([name, value]);
  }
  return lines;
}

function addTrailers(response: NodeResponse, trailers: Fields): void {
  if (isHttp2Response(response)) response.addTrailers(wireFields(trailers));
  else response.addTrailers(trailers.map(([name, value]) => [wireFieldName(name), value] as const));
}
