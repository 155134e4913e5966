/** Sockets that this process binds by itself, or has got bound, and takes the connections of. */

import { createServer, type Server, type Socket } from 'node:net';
import { bind, type SocketAddress } from './bind.ts';
import type { ListenSocket, OpenSocket } from './listen-socket.ts';

/** Binds a place in this process. */
export const openSocket: OpenSocket = async (place) => {
  const server = createSocketServer();
  // What comes from the first moment on waits until somebody takes it.
  const waiting = createServerSocket(server, () => address);
  const address = await bind(server, place);
  return waiting;
};

/** A server as `createServerSocket` wants it: that does not listen yet. */
export function createSocketServer(): Server {
  return createServer({ allowHalfOpen: true, noDelay: true, keepAlive: true });
}

/** The socket that a server listens on, or is going to: `address` is called once it does. */
export function createServerSocket(server: Server, address: () => SocketAddress): ListenSocket {
  return new ServerSocket(server, address);
}

class ServerSocket implements ListenSocket {
  readonly #server: Server;
  readonly #address: () => SocketAddress;
  /** Those that nobody has taken yet. */
  readonly #waiting: Socket[] = [];
  #accept: ((socket: Socket) => void) | undefined;
  #onError: (error: Error) => void = () => undefined;
  #closed: Promise<void> | undefined;

  constructor(server: Server, address: () => SocketAddress) {
    this.#server = server;
    this.#address = address;
    server.on('connection', (socket) => {
      if (this.#accept === undefined) this.#keep(socket);
      else this.#accept(socket);
    });
    server.on('error', (error) => this.#onError(error));
  }

  get address(): SocketAddress {
    return this.#address();
  }

  async take(accept: (socket: Socket) => void, onError: (error: Error) => void): Promise<void> {
    this.#accept = accept;
    this.#onError = onError;
    for (const socket of this.#waiting.splice(0)) {
      socket.off('error', ignore);
      if (!socket.destroyed) accept(socket);
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** What the system has accepted for us already is taken before: one turn of the event loop. */
  async #close(): Promise<void> {
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    // The server's own callback would wait for all connections that came of it.
    this.#server.close();
    for (const socket of this.#waiting.splice(0)) socket.destroy();
  }

  #keep(socket: Socket): void {
    socket.on('error', ignore);
    this.#waiting.push(socket);
  }
}

/** The close that follows an error says enough. */
function ignore(): void {}
