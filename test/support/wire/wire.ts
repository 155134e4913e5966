/** The wire between clients and a handler: its selection for a run of the tests, its listener and its connections. */

import type { ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { type Client, type Completed, completed, type Sent } from '../clients/direct-client.ts';
import { createWireClient } from './wire-client.ts';
import { exchangeField, WireExchange } from './wire-exchange.ts';
import { type Http1Request, WireHttp1 } from './wire-http1.ts';
import { WireHttp2 } from './wire-http2.ts';
import { connectWire, isPlain, openWireListener, type WireListener, type WireOptions } from './wire-listener.ts';
import { type WireName, wireNames } from './wire-names.ts';
import { beginMove, endMove, watchConnections } from './wire-quiet.ts';
import type { WireStream } from './wire-stream.ts';

/** Returns the wire of this run; undefined where handlers are called without a wire. */
export function selectedWire({ RANGEWAY_WIRE: name = '' } = process.env): WireName | undefined {
  if (name === '') return undefined;
  const found = wireNames.find((each) => each === name);
  if (found === undefined) throw new Error(`RANGEWAY_WIRE: expected one of ${wireNames.join(', ')}, found ${name}`);
  return found;
}

/** Trims values: surrounding white space is not part of a value (RFC 9110 §5.5), and HTTP/2 forbids it (RFC 9113 §8.2.1). */
function trimmed(request: Completed): Completed {
  return { ...request, fields: request.fields.map(([name, value]) => [name, value.trim()]) };
}

/** A listener, opened at the first request, and the clients connected to it. */
export class Wire {
  readonly #name: WireName;
  readonly #options: WireOptions;
  readonly #exchanges = new Map<string, WireExchange>();
  readonly #connections = new Map<WireHttp1, WireExchange>();
  readonly #faults: Error[] = [];
  #session: WireHttp2 | undefined;
  #listener: Promise<WireListener> | undefined;
  /** Settles when the last sent request has arrived. Requests arrive in the order in which they were sent. */
  #lastArrival: Promise<unknown> = Promise.resolve();
  #count = 0;
  #isClosed = false;

  constructor(name: WireName, options: WireOptions) {
    this.#name = name;
    this.#options = options;
    watchConnections();
  }

  send(sent: Sent): Client {
    const request = trimmed(completed(sent));
    const exchange = new WireExchange(request, this.#options.now);
    const id = String(this.#count);
    this.#count += 1;
    this.#exchanges.set(id, exchange);
    const fields = [...request.fields, [exchangeField, id] as const];
    beginMove();
    const stream = this.#lastArrival.then(() => this.#begin({ ...request, fields }, exchange));
    const arrival = Promise.race([exchange.arrived.promise, stream.then((begun) => begun.head)]);
    this.#lastArrival = arrival.then(endMove, endMove);
    return createWireClient(exchange, stream, this.#options.now, this.#note);
  }

  /** Ends all connections. Throws the first fault of the listener. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#session?.close();
    for (const connection of this.#connections.keys()) connection.close();
    const listener = await this.#listener;
    await listener?.close(0);
    const [fault] = this.#faults;
    if (fault !== undefined) throw fault;
  }

  readonly #note = (fault: Error): void => {
    this.#faults.push(fault);
  };

  async #begin(request: Http1Request, exchange: WireExchange): Promise<WireStream> {
    if (this.#isClosed) throw new Error('the wire is closed');
    if (this.#name === 'http2' && WireHttp2.canSay(request)) return (await this.#openSession()).begin(request);
    const connection = this.#freeConnection() ?? new WireHttp1(await this.#connect('http/1.1'), this.#note);
    this.#connections.set(connection, exchange);
    return connection.begin(request);
  }

  /** All requests share one session. */
  async #openSession(): Promise<WireHttp2> {
    if (this.#session?.isFree !== true) this.#session = new WireHttp2(await this.#connect('h2'), this.#note);
    return this.#session;
  }

  /** Returns an idle connection for every other request; the others get new connections. */
  #freeConnection(): WireHttp1 | undefined {
    if (this.#count % 2 === 1) return undefined;
    const [free] = [...this.#connections].find(([connection, { isOver }]) => connection.isFree && isOver) ?? [];
    return free;
  }

  async #connect(protocol: 'http/1.1' | 'h2') {
    this.#listener ??= openWireListener(this.#name, {
      ...this.#options,
      handler: (request) => this.#answer(request),
    });
    return await connectWire(this.#name, await this.#listener, protocol);
  }

  #answer(request: ProxyRequest): ProxyResponse | Promise<ProxyResponse> {
    const id = request.fields.find(([name]) => name === exchangeField)?.[1] ?? '';
    const exchange = this.#exchanges.get(id);
    if (exchange === undefined) throw new Error(`a request without an exchange: ${request.method} ${request.target}`);
    const scheme = isPlain(this.#name) ? 'http' : 'https';
    if (request.scheme !== scheme) this.#note(new Error(`the scheme became ${request.scheme}`));
    return exchange.answer(this.#options.handler, request, this.#note);
  }
}
