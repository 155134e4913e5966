/** TLS on accepted connections (RFC 8446), on Node's server. */

import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import type { Certificates } from './certificates.ts';

/** What TLS is spoken with. */
export interface TlsOptions {
  readonly certificates: Certificates;
  /** What is offered to clients, the best first (ALPN, RFC 7301). */
  readonly protocols: readonly string[];
  /** How long a handshake may take. 0 leaves that to Node, which waits for two minutes. */
  readonly handshakeTimeoutMs: number;
}

/** What a handshake comes to: one of the two is called, once. */
export interface HandshakeEnd {
  onSecure(secure: TLSSocket): void;
  /** It has failed, or did not come to its end; the connection is ended after this. */
  onFailed(error: Error & { readonly code?: string }): void;
}

/** Node keeps the connection that TLS runs on there. */
type Carried = TLSSocket & { readonly _parent: Socket };

/**
 * Makes handshakes. The certificate is that of the name that a client asks for, or the first one. A client that offers only
 * protocols that are not offered here gets the alert no_application_protocol; one that offers none is spoken HTTP/1.1 with.
 */
export class TlsFront {
  /** Owns no port: it is given connections. */
  readonly #server: Server;
  #certificates: Certificates;
  readonly #ends = new WeakMap<Socket, HandshakeEnd>();

  constructor({ certificates, protocols, handshakeTimeoutMs }: TlsOptions) {
    this.#certificates = certificates;
    this.#server = createServer({
      ...certificates.defaultOptions,
      ALPNProtocols: [...protocols],
      SNICallback: (name, callback) => callback(null, this.#certificates.contextFor(name)),
      handshakeTimeout: handshakeTimeoutMs,
    });
    this.#follow(certificates);
    this.#server.on('secureConnection', (secure) => this.#succeed(secure));
    this.#server.on('tlsClientError', (error, secure) => {
      this.#ends.get((secure as Carried)._parent)?.onFailed(error);
      secure.destroy();
    });
  }

  /** Begins a handshake. What was read of the socket before was put back. */
  accept(socket: Socket, end: HandshakeEnd): void {
    this.#ends.set(socket, end);
    this.#server.emit('connection', socket);
  }

  /** Uses these from the next handshake on, and closes those before. */
  renew(certificates: Certificates): void {
    this.#certificates.close();
    this.#certificates = certificates;
    this.#server.setSecureContext(certificates.defaultOptions);
    this.#follow(certificates);
  }

  close(): void {
    this.#certificates.close();
  }

  #follow(certificates: Certificates): void {
    certificates.whenChanged(() => this.#server.setSecureContext(certificates.defaultOptions));
  }

  #succeed(secure: TLSSocket): void {
    const { _parent: socket } = secure as Carried;
    const end = this.#ends.get(socket);
    if (end === undefined) {
      secure.destroy();
      return;
    }
    // Node has it for TCP only. What was broken off must not look whole here either (RFC 9112 §9.8).
    secure.resetAndDestroy = () => {
      socket.resetAndDestroy();
      return secure;
    };
    end.onSecure(secure);
  }
}
