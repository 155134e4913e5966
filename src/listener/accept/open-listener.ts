/**
 * Opens a listener on a socket. For each accepted connection it reads the PROXY protocol header, makes the TLS handshake, and
 * chooses between HTTP/1 and HTTP/2; then it passes the connection to the `ConnectionServer`. Only a few refused connections per
 * window are reported one by one, so that a flood of them cannot fill the log.
 */

import { isIPv6, type Socket } from 'node:net';
import { type PeerList, plainAddress } from '../../guard/client.ts';
import type { Peer } from '../../http/message.ts';
import { type ErrorCode, errorKinds, ProxyError } from '../../http/proxy-error.ts';
import type { Emit } from '../../telemetry/events.ts';
import { createHttp1Server } from '../http1/server.ts';
import { createHttp2Server } from '../http2/server.ts';
import type { ConnectionServer, ProtocolOptions } from '../protocol.ts';
import { type After, unreferencedTimers } from '../timeouts.ts';
import type { ListenSocket } from './bind.ts';
import { type ConnectionLimits, type ConnectionSlot, unlimitedConnections } from './connection-limits.ts';
import { type ProxyHeaderReading, readProxyHeader } from './proxy-protocol.ts';
import { type Certificates, TlsHandshaker } from './tls.ts';

/** Where a listener can be reached. */
export interface ListenerAddress {
  /** Empty for a Unix socket, whose port is 0. */
  readonly host: string;
  readonly port: number;
  /** Such as `https://127.0.0.1:8443`, or `unix:/run/rangeway.sock`. */
  readonly url: string;
}

/** An open listener. */
export interface Listener {
  readonly address: ListenerAddress;
  /** Uses these certificates from the next handshake on, and closes the previous ones. Without TLS it does nothing. */
  renew(certificates: Certificates): void;
  /**
   * Gives up the socket, to another listener or to be closed, and lets each connection end after its running requests. An idle
   * HTTP/1 connection keeps its usual timeout and takes one further request, so that a request in transit is not lost. Resolves
   * when no connection is left.
   */
  retire(): Promise<void>;
  /**
   * Closes the socket unless the listener has retired, closes idle connections, lets running responses finish, and cuts the
   * remaining connections after `graceMs`. Resolves with the number of busy connections that were cut. A second call can
   * shorten the grace period, not lengthen it.
   */
  close(graceMs: number): Promise<{ readonly cut: number }>;
}

/** Options of a listener. */
export interface ListenerOptions extends Omit<ProtocolOptions, 'scheme'> {
  /** The listening socket. `close` closes it too, unless the listener was retired before. */
  readonly socket: ListenSocket;
  /** The address of a socket that has neither a port nor a known path. */
  readonly name?: string | undefined;
  /** Makes the listener speak TLS. It closes the certificates when it retires, closes, or cannot be opened. */
  readonly certificates?: Certificates | undefined;
  /** Serves HTTP/2 too: over TLS when ALPN selects it, in cleartext with prior knowledge (RFC 9113 §3.3). */
  readonly http2?: boolean | undefined;
  /** Requires the PROXY protocol, and refuses connections whose peer is not on this list. */
  readonly proxyProtocolFrom?: PeerList | undefined;
  /** Replaces the HTTP/1 server; for tests that compare it with a reference. */
  readonly createHttp1?: ((options: ProtocolOptions) => ConnectionServer) | undefined;
  /** Limits of concurrent connections; none when absent. */
  readonly connections?: ConnectionLimits | undefined;
}

/** Opens a listener. New connections of the socket go to it, and no longer to the previous listener. Rejects as `take` does. */
export async function openListener(options: ListenerOptions): Promise<Listener> {
  const listener = new SocketListener(options);
  await listener.open();
  return listener;
}

class SocketListener implements Listener, ArrivalOwner {
  readonly #options: ListenerOptions;
  readonly #http1: ConnectionServer;
  readonly #http2: ConnectionServer | undefined;
  readonly #tls: TlsHandshaker | undefined;
  readonly #refusals: RefusalLog;
  readonly #connections: ConnectionLimits;
  /** Connections in a step before HTTP: PROXY header, TLS handshake or protocol choice. */
  readonly #arriving = new Set<Arrival>();
  /** Number of open connections, in any step. */
  #count = 0;
  /** Called when the last connection is gone. */
  #onEmpty: (() => void) | undefined;
  #ended: Promise<void> | undefined;
  /** Resolves when no new connection comes: the socket belongs to another listener, or is closed. */
  #left: Promise<void> | undefined;
  #cut = 0;

  constructor(options: ListenerOptions) {
    const { certificates, http2 = false, limits, connections = unlimitedConnections } = options;
    const { createHttp1 = createHttp1Server } = options;
    this.#options = options;
    this.#connections = connections;
    this.#refusals = createRefusalLog(options.emit, options.after);
    const protocolOptions = { ...options, scheme: this.#scheme };
    this.#http1 = createHttp1(protocolOptions);
    this.#http2 = http2 ? createHttp2Server(protocolOptions) : undefined;
    this.#tls =
      certificates === undefined
        ? undefined
        : new TlsHandshaker({
            certificates,
            protocols: http2 ? ['h2', 'http/1.1'] : ['http/1.1'],
            handshakeTimeoutMs: limits.headersTimeoutMs,
          });
  }

  get #scheme(): 'http' | 'https' {
    return this.#options.certificates === undefined ? 'http' : 'https';
  }

  get #servers(): readonly ConnectionServer[] {
    return this.#http2 === undefined ? [this.#http1] : [this.#http1, this.#http2];
  }

  get address(): ListenerAddress {
    const { socket, name = '' } = this.#options;
    const { host, port, path } = socket.address;
    if (host === '') return { host, port, url: path === undefined ? name : `unix:${path}` };
    return { host, port, url: `${this.#scheme}://${isIPv6(host) ? `[${host}]` : host}:${port}` };
  }

  async open(): Promise<void> {
    try {
      await this.#options.socket.take(
        (socket) => this.#accept(socket),
        // A connection could not be accepted, for example for lack of file descriptors.
        ({ message }) => this.#refusals.tell(new ProxyError('internal', { detail: message }), undefined),
      );
    } catch (error) {
      await this.#release();
      throw error;
    }
  }

  renew(certificates: Certificates): void {
    this.#tls?.renew(certificates);
  }

  retire(): Promise<void> {
    this.#left ??= Promise.resolve();
    for (const server of this.#servers) server.retire();
    // Stops watching the certificate files. Running handshakes continue with the current certificates.
    this.#tls?.close();
    return this.#end();
  }

  async close(graceMs: number): Promise<{ readonly cut: number }> {
    for (const server of this.#servers) server.drain();
    this.#left ??= this.#options.socket.close();
    await this.#left;
    this.#dropUnused();
    const timer = setTimeout(() => this.#cutRest(), graceMs);
    await this.#end();
    clearTimeout(timer);
    return { cut: this.#cut };
  }

  leave(arrival: Arrival): void {
    arrival.place?.leave();
    this.#arriving.delete(arrival);
    this.#count -= 1;
    if (this.#count === 0) this.#onEmpty?.();
  }

  /** Destroys unused connections after one turn of the event loop, in which bytes that have already arrived are read. */
  #dropUnused(): void {
    setImmediate(() =>
      setImmediate(() => {
        for (const { socket, isUnused } of this.#arriving) if (isUnused) socket.destroy();
      }),
    );
  }

  /** Resolves when no connection is left. */
  #end(): Promise<void> {
    this.#ended ??= this.#waitForLast();
    return this.#ended;
  }

  async #waitForLast(): Promise<void> {
    const emptied = Promise.withResolvers<void>();
    this.#onEmpty = emptied.resolve;
    if (this.#count > 0) await emptied.promise;
    await this.#release();
  }

  async #release(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
    this.#tls?.close();
    this.#refusals.close();
  }

  #cutRest(): void {
    for (const { socket } of this.#arriving) socket.destroy();
    for (const server of this.#servers) this.#cut += server.cut();
  }

  #accept(socket: Socket): void {
    socket.on('error', ignore);
    // A client that ends its side during a TLS handshake gives up the connection.
    socket.allowHalfOpen = this.#tls === undefined;
    this.#count += 1;
    const isUnix = this.#options.socket.address.host === '';
    const { remoteAddress, remotePort = 0 } = socket;
    const peer = { address: plainAddress(remoteAddress ?? ''), port: remotePort };
    const arrival = new Arrival(socket, peer, this);
    if (remoteAddress === undefined && !isUnix) {
      // The peer is gone already. Without an address it would count as the peer of a Unix socket.
      socket.destroy();
      return;
    }
    if (isUnix) socket.resetAndDestroy = () => socket.destroy();
    arrival.place = this.#connections.enter();
    if (arrival.place === undefined) {
      this.#turnAway(socket, peer, 'too_many_connections', 'of all clients');
      return;
    }
    if (this.#options.proxyProtocolFrom === undefined) this.#admit(arrival);
    else this.#readProxyHeader(arrival, this.#options.proxyProtocolFrom);
  }

  #readProxyHeader(arrival: Arrival, isTrusted: PeerList): void {
    const { socket, peer: proxy } = arrival;
    if (!isTrusted(proxy.address)) {
      this.#turnAway(socket, proxy, 'proxy_header_refused', 'not one of trustedProxies');
      return;
    }
    const read = (bytes: Buffer) => {
      const value = readProxyHeader(bytes);
      if (value.kind === 'more') return value;
      return { kind: 'decided', value, usedBytes: value.kind === 'header' ? value.sizeBytes : 0 } as const;
    };
    this.#begin(arrival, read, (reading: Exclude<ProxyHeaderReading, { kind: 'more' }>) => {
      if (reading.kind === 'malformed') {
        this.#turnAway(socket, proxy, 'proxy_header_refused', reading.reason);
        return;
      }
      arrival.peer = reading.peer ?? proxy;
      this.#admit(arrival);
    });
  }

  /** Continues once the client's address is known. */
  #admit(arrival: Arrival): void {
    const { socket, peer, place } = arrival;
    const http2 = this.#http2;
    if (place?.takeFor(peer.address) !== true) this.#turnAway(socket, peer, 'too_many_connections', 'of one client');
    else if (this.#tls !== undefined) this.#shakeHands(arrival, this.#tls);
    else if (http2 === undefined) this.#http1.serve(socket, peer);
    else {
      this.#begin(arrival, readPreface, (protocol) => {
        (protocol === 'http2' ? http2 : this.#http1).serve(socket, peer);
      });
    }
  }

  #shakeHands(arrival: Arrival, tls: TlsHandshaker): void {
    const { socket, peer } = arrival;
    arrival.beginStep();
    this.#arriving.add(arrival);
    tls.accept(socket, {
      onSecure: (secure) => {
        this.#arriving.delete(arrival);
        secure.on('error', ignore);
        (secure.alpnProtocol === 'h2' ? (this.#http2 ?? this.#http1) : this.#http1).serve(secure, peer);
      },
      onFailed: ({ code, message }) => this.#giveUp(arrival, 'tls_handshake_failed', code ?? message),
    });
  }

  /** Reads the first bytes of a connection, within the time limit of a request head, and continues with the value read. */
  #begin<T>(arrival: Arrival, read: Parameters<typeof readBeginning<T>>[1], goOn: (value: T) => void): void {
    const { socket } = arrival;
    arrival.beginStep();
    this.#arriving.add(arrival);
    const { limits, after = unreferencedTimers } = this.#options;
    readBeginning(socket, read, limits.headersTimeoutMs, after, (beginning: Beginning<T>) => {
      this.#arriving.delete(arrival);
      if (beginning.kind === 'timeout') this.#giveUp(arrival, 'request_timeout', 'the first bytes of the connection');
      if (beginning.kind === 'read') goOn(beginning.value);
      else socket.destroy();
    });
  }

  /** Reports a connection that failed before HTTP, unless it sent nothing. */
  #giveUp({ peer, isUnused }: Arrival, code: ErrorCode, detail: string): void {
    if (!isUnused) this.#refusals.tell(new ProxyError(code, { detail }), peer.address);
  }

  #turnAway(socket: Socket, { address }: Peer, code: ErrorCode, detail: string): void {
    this.#refusals.tell(new ProxyError(code, { detail }), address);
    socket.resetAndDestroy();
  }
}

/** Every error is followed by `close`, which is handled. */
function ignore(): void {}

/** The listener of an arrival. */
interface ArrivalOwner {
  /** Called when the connection is closed. */
  leave(arrival: Arrival): void;
}

const arrivalOf = Symbol('arrival');
type ArrivedSocket = Socket & { [arrivalOf]?: Arrival };

/** An accepted connection: its client, its place in the limits, and whether it has sent bytes. Lives as long as the connection. */
class Arrival {
  readonly socket: Socket;
  readonly owner: ArrivalOwner;
  /** The connected peer, or the client that the PROXY protocol names. */
  peer: Peer;
  /** Undefined until the limits have counted the connection. */
  place: ConnectionSlot | undefined;
  /** Bytes that the steps before the current one have used. */
  #usedBytes = 0;

  /** Calls `owner.leave` on close, through a shared function: with many idle connections a closure for each costs memory. */
  constructor(socket: Socket, peer: Peer, owner: ArrivalOwner) {
    this.socket = socket;
    this.peer = peer;
    this.owner = owner;
    (socket as ArrivedSocket)[arrivalOf] = this;
    socket.on('close', onClose);
  }

  /** Begins a step. Bytes that were put back, and bytes that follow, belong to it. */
  beginStep(): void {
    this.#usedBytes = this.socket.bytesRead - this.socket.readableLength;
  }

  /** Whether the current step has received no byte, as with the TCP health checks of load balancers. */
  get isUnused(): boolean {
    return this.socket.bytesRead === this.#usedBytes;
  }
}

function onClose(this: ArrivedSocket): void {
  const arrival = this[arrivalOf];
  arrival?.owner.leave(arrival);
}

/** The result of reading the first bytes: undecided, or a value that was read from the first `usedBytes` bytes. */
type BeginningReading<T> =
  | { readonly kind: 'more' }
  | { readonly kind: 'decided'; readonly value: T; readonly usedBytes: number };

/** The outcome: a value, a timeout, or the client ended its side before. */
type Beginning<T> =
  | { readonly kind: 'read'; readonly value: T }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'ended' };

/**
 * Passes all received bytes to `read`, again with each chunk, until it decides. Puts unused bytes back. Calls back once, unless
 * the connection is destroyed before, and leaves the socket paused. `timeoutMs` 0 is no limit.
 */
function readBeginning<T>(
  socket: Socket,
  read: (bytes: Buffer) => BeginningReading<T>,
  timeoutMs: number,
  after: After,
  callback: (beginning: Beginning<T>) => void,
): void {
  let received: Buffer = Buffer.alloc(0);
  const callOff = timeoutMs > 0 ? after(timeoutMs, () => finish({ kind: 'timeout' })) : undefined;
  const finish = (beginning: Beginning<T>): void => {
    release();
    callback(beginning);
  };
  const onEnd = (): void => finish({ kind: 'ended' });
  const onData = (chunk: Buffer): void => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const reading = read(received);
    if (reading.kind === 'more') return;
    // Before `unshift`: a flowing socket would emit the bytes here again.
    release();
    if (reading.usedBytes < received.length) socket.unshift(received.subarray(reading.usedBytes));
    callback({ kind: 'read', value: reading.value });
  };
  const release = (): void => {
    callOff?.();
    socket.off('data', onData).off('end', onEnd).off('close', release);
    socket.pause();
  };
  socket.on('data', onData).once('end', onEnd).once('close', release);
  // An earlier step leaves the socket paused.
  socket.resume();
}

/** The connection preface of an HTTP/2 client (RFC 9113 §3.4). */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** The first line of the preface, which no request of HTTP/1 has: a preface that goes on otherwise is broken. In bytes. */
const prefaceLineBytes = 'PRI * HTTP/2.0\r\n'.length;

/** Decides for HTTP/2 once the first line of the preface has arrived, and for HTTP/1 at the first byte that differs. Uses no bytes. */
export function readPreface(bytes: Buffer): BeginningReading<'http1' | 'http2'> {
  const compared = Math.min(bytes.length, prefaceLineBytes);
  if (bytes.compare(preface, 0, compared, 0, compared) !== 0) return { kind: 'decided', value: 'http1', usedBytes: 0 };
  return compared < prefaceLineBytes ? { kind: 'more' } : { kind: 'decided', value: 'http2', usedBytes: 0 };
}

/** Maximum number of refusals with one code that are reported one by one in a window; further ones are only counted. */
const reportedPerWindow = 10;
const windowMs = 10_000;

/** Reports the connections that a listener has refused before a request. */
interface RefusalLog {
  /** Reports a refusal. `peer` is the refused address, where it is known. */
  tell(error: ProxyError, peer: string | undefined): void;
  /** Reports the number of refusals that were only counted. */
  close(): void;
}

interface Window {
  reported: number;
  unreported: number;
}

/** Creates a log. At the end of a window it reports the number of refusals beyond the first ones. */
export function createRefusalLog(emit: Emit, after: After = unreferencedTimers): RefusalLog {
  const windows = new Map<ErrorCode, Window>();
  let callOff: (() => void) | undefined;
  const flush = (): void => {
    callOff?.();
    callOff = undefined;
    for (const [error, { unreported }] of windows) {
      if (unreported === 0) continue;
      emitRefusal(error, undefined, `${unreported} more connections, in ${windowMs / 1000} seconds`, unreported);
    }
    windows.clear();
  };
  const emitRefusal = (
    error: ErrorCode,
    peer: string | undefined,
    detail: string | undefined,
    count?: number,
  ): void => {
    emit({ kind: 'refusal', peer, status: errorKinds[error].status, error, detail, count });
  };
  return {
    tell({ code, detail }, peer) {
      callOff ??= after(windowMs, flush);
      const window = windows.get(code) ?? { reported: 0, unreported: 0 };
      windows.set(code, window);
      if (window.reported >= reportedPerWindow) {
        window.unreported += 1;
        return;
      }
      window.reported += 1;
      emitRefusal(code, peer, detail);
    },
    close: flush,
  };
}
