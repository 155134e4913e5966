/** A network between a client and a server that a test can cut. */

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';

/** A relay to a port of this machine. */
export interface TcpRelay extends AsyncDisposable {
  readonly port: number;
  /** Nothing passes any more, and no end notices it: as where a cable is cut. New connections get no answer. */
  cut(): void;
  /** Ends all connections; new ones pass. */
  heal(): void;
}

/** Opens a relay. */
export async function openTcpRelay(target: number): Promise<TcpRelay> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    if (isCut) socket.pause();
  };
  const server = createServer((inner) => {
    keep(inner);
    if (isCut) return;
    const outer = connect(target, '127.0.0.1');
    keep(outer);
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      from.on('data', (chunk) => {
        if (!isCut) to.write(chunk);
      });
      from.once('close', () => {
        if (!isCut) to.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut: () => {
      isCut = true;
    },
    heal: () => {
      endAll();
      isCut = false;
    },
    async [Symbol.asyncDispose]() {
      endAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
