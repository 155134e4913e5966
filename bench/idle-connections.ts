/** Connections that have received one response each and stay open. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { BenchFault } from './fault.ts';
import type { SampleFile } from './sample-file.ts';

/** Number of connections that are opened at the same time. */
const batch = 100;

/** Opens connections in batches. Each connection requests the file once, and stays open until disposal. */
export class IdleConnections implements Disposable {
  readonly #sockets: Socket[] = [];

  /** Opens `count` further connections. Throws `BenchFault` when one of them gets no response. */
  async open(port: number, file: SampleFile, count: number): Promise<void> {
    for (let opened = 0; opened < count; opened += batch) {
      const sockets = Array.from({ length: Math.min(batch, count - opened) }, () =>
        connect({ host: '127.0.0.1', port }),
      );
      this.#sockets.push(...sockets);
      await Promise.all(sockets.map((socket) => askOnce(socket, port, file))).catch((error: unknown) => {
        throw new BenchFault(`one of ${this.#sockets.length} connections got no answer: ${error}`);
      });
      for (const socket of sockets) socket.on('error', () => {});
    }
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/**
 * Sends one request, and waits for as many bytes as the file has. The head counts too, so that the last bytes of the body
 * may still be missing; a file larger than a head makes sure that the body has begun.
 */
async function askOnce(socket: Socket, port: number, { path, window }: SampleFile): Promise<void> {
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  let missing = window.end - window.start;
  while (missing > 0) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    missing -= chunk.length;
  }
}
