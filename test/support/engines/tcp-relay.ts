/** A network between a client and a server that a test can cut, in both directions or in one, and slow down. */

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';

/** A relay to a port of this machine. */
export interface TcpRelay extends AsyncDisposable {
  readonly port: number;
  /**
   * Nothing passes any more, and no end notices it: as where a cable is cut. New connections get no answer. With a direction, only that
   * one is cut: to the server, or back.
   */
  cut(direction?: 'both' | 'to' | 'back'): void;
  /** What passes from now on takes so many milliseconds longer. */
  slow(delayMs: number): void;
  /** Ends all connections; new ones pass, and at once. */
  heal(): void;
}

/** Opens a relay. */
export async function openTcpRelay(target: number): Promise<TcpRelay> {
  const sockets = new Set<Socket>();
  let isCut = false;
  let oneWay: 'to' | 'back' | undefined;
  let delayMs = 0;
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
    for (const [from, to, direction] of [
      [inner, outer, 'to'],
      [outer, inner, 'back'],
    ] as const) {
      const pass = (chunk: Buffer) => {
        if (!isCut && oneWay !== direction && to.writable) to.write(chunk);
      };
      from.on('data', (chunk: Buffer) => {
        if (delayMs === 0) pass(chunk);
        else setTimeout(pass, delayMs, chunk);
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
    cut: (direction = 'both') => {
      if (direction === 'both') isCut = true;
      else oneWay = direction;
    },
    slow: (ms) => {
      delayMs = ms;
    },
    heal: () => {
      endAll();
      isCut = false;
      oneWay = undefined;
      delayMs = 0;
    },
    async [Symbol.asyncDispose]() {
      endAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
