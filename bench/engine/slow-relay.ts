/** A relay in front of an engine that holds up its answers: what nodes see of an engine that is slow. */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type After, unreferencedTimers } from '../../src/listener/timeouts.ts';

/** A relay to a port of loopback. */
export interface SlowRelay extends AsyncDisposable {
  readonly port: number;
  /** How long each answer is held up from now on, in milliseconds. Answers keep their order. */
  delayMs: number;
}

/** Opens a relay that delays nothing yet. */
export async function openSlowRelay(target: number, after: After = unreferencedTimers): Promise<SlowRelay> {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket, other: Socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((inner) => {
    const outer = connect(target, '127.0.0.1');
    keep(inner, outer);
    keep(outer, inner);
    inner.on('data', (chunk) => outer.write(chunk));
    const heldUp: Buffer[] = [];
    const passOn = () => inner.write(heldUp.shift() ?? '');
    outer.on('data', (chunk: Buffer) => {
      if (relay.delayMs === 0 && heldUp.length === 0) return inner.write(chunk);
      // Each timer passes on what is first: answers keep their order, whichever timer fires first.
      heldUp.push(chunk);
      return after(relay.delayMs, passOn);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay: SlowRelay = {
    port: (server.address() as AddressInfo).port,
    delayMs: 0,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return relay;
}
