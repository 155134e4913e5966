/**
 * Opens a listener on a socket. Each accepted connection passes the PROXY protocol header, TLS, and the choice between HTTP/1
 * and HTTP/2, and is then given to its `ConnectionServer`. Refused connections are logged, a few in each window, so that a
 * flood of them cannot fill the log.
 */

import { isIPv6, type Socket } from 'node:net';
import { type PeerList, plainAddress } from '../../guard/client.ts';
import type { Peer } from '../../http/message.ts';
import { type ErrorCode, errorKinds, ProxyError } from '../../http/proxy-error.ts';
import type { Emit } from '../../telemetry/events.ts';
import { createHttp1Server } from '../http1/server.ts';
import { createHttp2Server } from '../http2/server.ts';
import type { Listener, ListenerAddress } from '../listener.ts';
import type { ConnectionServer, ProtocolOptions } from '../protocol.ts';
import { type After, unreferencedTimers } from '../timeouts.ts';
import type { ListenSocket } from './bind.ts';
import { type ConnectionLimits, type ConnectionPlace, noConnectionLimits } from './connection-limits.ts';
import { type ProxyHeaderReading, readProxyHeader } from './proxy-protocol.ts';
import { type Certificates, TlsFront } from './tls.ts';

/** What a listener is opened with. */
export interface ListenerOptions extends Omit<ProtocolOptions, 'scheme'> {
  /** Where connections come from. The listener closes it when it is closed, unless it was retired before. */
  readonly socket: ListenSocket;
  /** What a socket is called in addresses that has neither a port nor a path that is known. */
  readonly name?: string | undefined;
  /** Speaks TLS with these. The listener closes them when it is closed, or cannot be opened. */
  readonly certificates?: Certificates | undefined;
  /** Speaks HTTP/2 too: with TLS where the client chooses it, without TLS where it begins with it (RFC 9113 §3.3). */
  readonly http2?: boolean | undefined;
  /** Connections begin with the PROXY protocol; only those whose peer is on this list are taken. */
  readonly proxyProtocolFrom?: PeerList | undefined;
  /** Speaks HTTP/1 in place of our own server: for tests, which hold one against another. */
  readonly createHttp1?: ((options: ProtocolOptions) => ConnectionServer) | undefined;
  /** How many connections there may be. */
  readonly connections?: ConnectionLimits | undefined;
}

/** Opens a listener: from now on the connections of the socket are its own, and no longer those of a listener before it. */
export async function openListener(options: ListenerOptions): Promise<Listener> {
  const listener = new SocketListener(options);
  await listener.open();
  return listener;
}

class SocketListener implements Listener, ArrivalOwner {
  readonly #options: ListenerOptions;
  readonly #http1: ConnectionServer;
  readonly #http2: ConnectionServer | undefined;
  readonly #tls: TlsFront | undefined;
  readonly #refusals: RefusalLog;
  readonly #connections: ConnectionLimits;
  /** Connections that no protocol is spoken on yet. */
  readonly #arriving = new Set<Arrival>();
  /** All connections that are there, whatever became of them. */
  #count = 0;
  /** Called when the last one is gone. */
  #onEmpty: (() => void) | undefined;
  #ended: Promise<void> | undefined;
  /** Resolved once no connection comes any more: the socket is another listener's, or closed. */
  #left: Promise<void> | undefined;
  #cut = 0;

  constructor(options: ListenerOptions) {
    const { certificates, http2 = false, limits, connections = noConnectionLimits } = options;
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
        : new TlsFront({
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
        // A connection that could not be accepted, for want of file descriptors for example.
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
    // Handshakes that have begun go on with what there is.
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

  /** What has arrived already is read before a connection counts as unused: one turn of the event loop. */
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
    // A client that ends its side in the middle of a handshake has ended it all.
    socket.allowHalfOpen = this.#tls === undefined;
    this.#count += 1;
    const isUnix = this.#options.socket.address.host === '';
    const { remoteAddress, remotePort = 0 } = socket;
    const peer = { address: plainAddress(remoteAddress ?? ''), port: remotePort };
    const arrival = new Arrival(socket, peer, this);
    if (remoteAddress === undefined && !isUnix) {
      // It is gone already. Without an address it would be taken for the peer of a Unix socket.
      socket.destroy();
      return;
    }
    if (isUnix) socket.resetAndDestroy = () => socket.destroy();
    arrival.place = this.#connections.enter();
    if (arrival.place === undefined) {
      this.#turnAway(socket, peer, 'too_many_connections', 'all together');
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

  /** It is known who the client is. */
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

  #shakeHands(arrival: Arrival, tls: TlsFront): void {
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

  /** Reads what a connection begins with, within the time for the head of a request, and goes on with what it is. */
  #begin<T>(arrival: Arrival, read: Parameters<typeof readBeginning<T>>[1], goOn: (value: T) => void): void {
    const { socket } = arrival;
    arrival.beginStep();
    this.#arriving.add(arrival);
    readBeginning(socket, read, this.#options.limits.headersTimeoutMs, (beginning: Beginning<T>) => {
      this.#arriving.delete(arrival);
      if (beginning.kind === 'timeout') this.#giveUp(arrival, 'request_timeout', 'what a connection begins with');
      if (beginning.kind === 'read') goOn(beginning.value);
      else socket.destroy();
    });
  }

  /** Tells of one that came to nothing, unless it was never used. */
  #giveUp({ peer, isUnused }: Arrival, code: ErrorCode, detail: string): void {
    if (!isUnused) this.#refusals.tell(new ProxyError(code, { detail }), peer.address);
  }

  #turnAway(socket: Socket, { address }: Peer, code: ErrorCode, detail: string): void {
    this.#refusals.tell(new ProxyError(code, { detail }), address);
    socket.resetAndDestroy();
  }
}

/** The close that follows an error says enough. */
function ignore(): void {}

/** Who has accepted connections. */
interface ArrivalOwner {
  /** A connection is gone. */
  leave(arrival: Arrival): void;
}

const arrivalOf = Symbol('arrival');
type ArrivedSocket = Socket & { [arrivalOf]?: Arrival };

/** Knows who the client is, and whether anything came of it yet. There is one for as long as the connection is there. */
class Arrival {
  readonly socket: Socket;
  readonly owner: ArrivalOwner;
  /** Who has connected, or the client that a proxy tells. */
  peer: Peer;
  /** Undefined as long as it has none. */
  place: ConnectionPlace | undefined;
  /** What had been read and used up when the present step began. */
  #usedBytes = 0;

  /** The owner is told when the socket is closed, without a function of its own for each: idle connections are many. */
  constructor(socket: Socket, peer: Peer, owner: ArrivalOwner) {
    this.socket = socket;
    this.peer = peer;
    this.owner = owner;
    (socket as ArrivedSocket)[arrivalOf] = this;
    socket.on('close', onClose);
  }

  /** Begins a step: what comes from now on, and what was put back, is for that. */
  beginStep(): void {
    this.#usedBytes = this.socket.bytesRead - this.socket.readableLength;
  }

  /** Whether nothing has come for the present step, as from balancers that only look whether we are there. */
  get isUnused(): boolean {
    return this.socket.bytesRead === this.#usedBytes;
  }
}

function onClose(this: ArrivedSocket): void {
  const arrival = this[arrivalOf];
  arrival?.owner.leave(arrival);
}

/** What the bytes so far say: nothing yet, or something, the first `usedBytes` of them being its own. */
type BeginningReading<T> =
  | { readonly kind: 'more' }
  | { readonly kind: 'decided'; readonly value: T; readonly usedBytes: number };

/** How it went: read, or not within the time, or the connection came to its end before. */
type Beginning<T> =
  | { readonly kind: 'read'; readonly value: T }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'ended' };

/**
 * Gives `read` all that has come, whenever more comes, until it has decided. What it did not use is put back. Calls back
 * once, unless the connection is destroyed before, and leaves the socket paused. `timeoutMs` 0 is no limit.
 */
function readBeginning<T>(
  socket: Socket,
  read: (bytes: Buffer) => BeginningReading<T>,
  timeoutMs: number,
  callback: (beginning: Beginning<T>) => void,
): void {
  let received: Buffer = Buffer.alloc(0);
  const timer = timeoutMs > 0 ? setTimeout(() => finish({ kind: 'timeout' }), timeoutMs).unref() : undefined;
  const finish = (beginning: Beginning<T>): void => {
    release();
    callback(beginning);
  };
  const onEnd = (): void => finish({ kind: 'ended' });
  const onData = (chunk: Buffer): void => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const reading = read(received);
    if (reading.kind === 'more') return;
    // Before anything is put back: what flows would come here again.
    release();
    if (reading.usedBytes < received.length) socket.unshift(received.subarray(reading.usedBytes));
    callback({ kind: 'read', value: reading.value });
  };
  const release = (): void => {
    clearTimeout(timer);
    socket.off('data', onData).off('end', onEnd).off('close', release);
    socket.pause();
  };
  socket.on('data', onData).once('end', onEnd).once('close', release);
  // It is paused where something was read from it before.
  socket.resume();
}

/** What a client of HTTP/2 sends first (RFC 9113 §3.4). */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** HTTP/2 as soon as the whole preface is there, and HTTP/1 as soon as it cannot be. Nothing is used up. */
export function readPreface(bytes: Buffer): BeginningReading<'http1' | 'http2'> {
  const compared = Math.min(bytes.length, preface.length);
  if (bytes.compare(preface, 0, compared, 0, compared) !== 0) return { kind: 'decided', value: 'http1', usedBytes: 0 };
  return compared < preface.length ? { kind: 'more' } : { kind: 'decided', value: 'http2', usedBytes: 0 };
}

/** So many refusals with one code are told in a window; the others are counted. */
const toldPerWindow = 10;
const windowMs = 10_000;

/** Where a listener tells what it refused before there was a request. */
interface RefusalLog {
  /** `peer` is the address of who was refused, where there is one. */
  tell(error: ProxyError, peer: string | undefined): void;
  /** Tells how many were not told yet. */
  close(): void;
}

interface Window {
  told: number;
  untold: number;
}

/** Creates a log; the refusals beyond the first ones are told as a number when their window ends. */
export function createRefusalLog(emit: Emit, after: After = unreferencedTimers): RefusalLog {
  const windows = new Map<ErrorCode, Window>();
  let callOff: (() => void) | undefined;
  const flush = (): void => {
    callOff?.();
    callOff = undefined;
    for (const [error, { untold }] of windows) {
      if (untold === 0) continue;
      emitRefusal(error, undefined, `${untold} more connections, in ${windowMs / 1000} seconds`, untold);
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
      const window = windows.get(code) ?? { told: 0, untold: 0 };
      windows.set(code, window);
      if (window.told >= toldPerWindow) {
        window.untold += 1;
        return;
      }
      window.told += 1;
      emitRefusal(code, peer, detail);
    },
    close: flush,
  };
}
