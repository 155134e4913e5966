/** Composes a Rangeway without listeners, which the program around it passes requests to. Several in one process share no state. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { Duplex } from 'node:stream';
import type { Operations } from '../admin/operations.ts';
import type { Config } from '../config/schema.ts';
import { identify } from '../guard/client.ts';
import type { Handler } from '../http/message.ts';
import { type ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { ListenerLimits, RequestHead, Tunnel } from '../listener/listener.ts';
import { ReceivedRequest, type RequestOwner } from '../listener/receive.ts';
import { unreferencedTimers } from '../listener/timeouts.ts';
import { routeRequest } from '../routing/inquiry.ts';
import { createSiteTunnel, listenerLimits } from '../setup/listeners.ts';
import { createOperations, createServingParts } from '../setup/operations.ts';
import { createReloads, type Reloads } from '../setup/reload.ts';
import { describeOrigins } from '../setup/running-server.ts';
import { openServer, type Server } from '../setup/server.ts';
import type { Site } from '../setup/site.ts';
import { choosePseudonym, secondsToMs, systemClock } from '../setup/system.ts';
import { openTelemetry, type Telemetry } from '../setup/telemetry.ts';
import type { Emit } from '../telemetry/events.ts';
import { type EmbeddedConfig, readEmbeddedConfig } from './embedded-config.ts';
import { answerFetch } from './fetch-exchange.ts';
import { type Next, NodeAdapter } from './node-adapter.ts';
import { RunningExchanges } from './running-exchanges.ts';

/** The options of an embedded Rangeway besides its configuration. */
export interface RangewayOptions {
  /** Gets all events: one of the kind `request` for each request. Without it nothing is logged. Secrets are not in events. */
  readonly emit?: Emit;
  /** The directory that relative paths of the configuration start from; by default the working directory. */
  readonly directory?: string;
}

/** What a program knows about the client of a `Request`. */
export interface FetchClient {
  /** The IP address of the client, for access rules, limits, X-Forwarded-For and `trustedProxies`. Unknown when absent. */
  readonly clientAddress?: string | undefined;
}

/** A Rangeway within a program. All its functions may be passed on without the object. */
export interface Rangeway extends AsyncDisposable {
  /** Answers every request of a server of `node:http`, `node:https` or `node:http2` (compatibility API). */
  readonly handler: (
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
  ) => void;
  /**
   * Answers the requests that a route serves, and calls `next` for others; for Express, connect, Vite and webpack-dev-server. The
   * routes match the whole URL that the client sent, also where the framework has mounted the middleware under a path. Calls
   * `next` with an error where another middleware has read the body of a request before.
   */
  readonly middleware: (
    request: IncomingMessage & { originalUrl?: string | undefined },
    response: ServerResponse,
    next: (error?: unknown) => void,
  ) => void;
  /**
   * For the event `upgrade` of a server: opens WebSocket tunnels. Returns false, and leaves the socket to other listeners, where no
   * route serves the request.
   */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, firstBytes: Buffer) => boolean;
  /**
   * Answers a `Request`. Redirects are returned, not followed. Rejects with the reason of `request.signal` when it is aborted, and
   * with `TypeError` where the body was read before.
   */
  readonly fetch: (request: Request, client?: FetchClient) => Promise<Response>;
  /** The operations of the admin API: stored entries, purge, warm, explain, transfers, metrics. */
  readonly operations: Operations;
  /**
   * Takes no further request, lets running ones finish for `graceMs` milliseconds (by default the configuration's
   * `shutdownGraceSeconds`), cuts the rest, and closes the store. A second call waits for the first.
   */
  readonly close: (options?: { readonly graceMs?: number }) => Promise<void>;
}

/**
 * Creates a Rangeway from the URL of an origin, or from the options of a configuration file without its listeners. Resolves when
 * it is ready. Rejects with `EmbeddedConfigFault` for invalid options, with Node's error when a file that they name cannot be
 * read, and with `StoreFault` when the store's directory cannot be used. Nothing is left open then.
 */
export async function createRangeway(
  config: string | EmbeddedConfig,
  { emit = () => {}, directory = process.cwd() }: RangewayOptions = {},
): Promise<Rangeway> {
  const complete = readEmbeddedConfig(config, directory);
  const telemetry = openTelemetry({ log: emit, readDroppedLines: () => 0, role: { kind: 'alone' } });
  // `openServer` opens no listener for an empty list.
  const server = await openServer(
    { ...complete, listen: [] },
    { emit: telemetry.emit, pseudonym: choosePseudonym(complete), passed: [] },
  );
  return new Embedded(complete, server, telemetry);
}

/** The owner of a request that is only asked for its route. */
const unowned: RequestOwner = { signal: new AbortController().signal, sendInterim: () => {} };

class Embedded implements Rangeway {
  readonly operations: Operations;
  readonly #server: Server;
  readonly #emit: Emit;
  readonly #reloads: Reloads;
  readonly #adapter: NodeAdapter;
  readonly #limits: ListenerLimits;
  readonly #running = new RunningExchanges(unreferencedTimers);
  /** The tunnels of the active site. */
  #tunnels: { readonly site: Site; readonly tunnel: Tunnel } | undefined;
  #closing: Promise<void> | undefined;

  constructor(config: Config, server: Server, telemetry: Telemetry) {
    this.#server = server;
    this.#emit = telemetry.emit;
    this.#limits = listenerLimits(config);
    telemetry.measure(server);
    const addresses = () => [];
    this.#reloads = createReloads({ emit: telemetry.emit, addresses, perform: () => this.#reload() });
    const serving = createServingParts(server);
    this.operations = createOperations({
      pid: process.pid,
      worker: 1,
      serving: () => serving,
      now: systemClock.now,
      log: undefined,
      counted: telemetry,
      isStopping: () => this.#closing !== undefined,
      addresses,
      reload: () => this.#reloads.reload(),
    });
    this.#adapter = new NodeAdapter({
      handler: this.#handle,
      isServed: (head) => this.#isServed(head),
      tunnel: { open: (head, client) => this.#tunnel.open(head, client) },
      running: this.#running,
      emit: telemetry.emit,
      now: systemClock.now,
      after: unreferencedTimers,
      limits: this.#limits,
    });
    const message = `ready, in front of ${describeOrigins(config)}, storing in ${server.place}`;
    this.#emit({ kind: 'life', stage: 'ready', addresses: [], message });
  }

  readonly handler: Rangeway['handler'] = (request, response) => this.#adapter.handle(request, response);

  readonly middleware: Rangeway['middleware'] = (request, response, next: Next) =>
    this.#adapter.pass(request, response, next);

  readonly upgrade: Rangeway['upgrade'] = (request, socket, firstBytes) =>
    this.#adapter.upgrade(request, socket, firstBytes);

  readonly fetch: Rangeway['fetch'] = async (request, { clientAddress } = {}) => {
    if (this.#closing !== undefined) throw new TypeError('this Rangeway is closed');
    const peer = { address: clientAddress ?? '', port: 0 };
    const onRefused = ({ code, detail, status }: ProxyError): void =>
      this.#emit({ kind: 'refusal', peer: clientAddress, status, error: code, detail });
    const context = {
      handler: this.#handle,
      now: systemClock.now,
      limits: this.#limits,
      onRefused,
      running: this.#running,
    };
    return await answerFetch(request, peer, context);
  };

  readonly close: Rangeway['close'] = ({ graceMs } = {}) => {
    const { shutdownGraceSeconds } = this.#server.site.config;
    this.#closing ??= this.#close(graceMs ?? secondsToMs(shutdownGraceSeconds));
    return this.#closing;
  };

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  readonly #handle: Handler = (request) => {
    this.#emit({ kind: 'begun', what: 'request' });
    return this.#server.site.handler(request);
  };

  get #tunnel(): Tunnel {
    const { site } = this.#server;
    if (this.#tunnels?.site !== site) this.#tunnels = { site, tunnel: createSiteTunnel(site, this.#emit) };
    return this.#tunnels.tunnel;
  }

  /** A request that only its route could explain is served, and refused with a reason. */
  #isServed(head: RequestHead): boolean {
    const { trust, router } = this.#server.site.admission;
    try {
      const { request } = identify(new ReceivedRequest(head, undefined, undefined, unowned), trust);
      routeRequest(request, router);
      return true;
    } catch (thrown) {
      return toProxyError(thrown).code !== 'no_route';
    }
  }

  async #reload(): Promise<void> {
    const prepared = await this.#server.prepareReload(this.#server.site.config);
    await prepared.commit();
  }

  async #close(graceMs: number): Promise<void> {
    this.#reloads.end();
    this.#emit({ kind: 'life', stage: 'stopping', addresses: [], message: 'stopping: no new requests' });
    const cut = await this.#running.close(graceMs);
    if (cut > 0) {
      const message = `cut ${cut} ${cut === 1 ? 'request' : 'requests'} that did not end in time`;
      this.#emit({ kind: 'life', stage: 'cut', addresses: [], message });
    }
    await this.#server.close(0);
  }
}
