/** Connections that have had one answer each, and are kept open. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { BenchFault } from './fault.ts';
import type { SampleFile } from './sample-file.ts';

/** So many are opened at once. */
const batch = 100;

/** Opens connections one batch after the other; each asks for the file once. They stay until they are disposed. */
export class IdleConnections implements Disposable {
  readonly #sockets: Socket[] = [];

  /** Opens so many more. Throws `BenchFault` when one of them gets no answer. */
  async open(port: number, file: SampleFile, count: number): Promise<void> {
    for (let opened = 0; opened < count; opened += batch) {
      const sockets = Array.from({ length: Math.min(batch, count - opened) }, () =>
        connect({ host: '127.0.0.1', port }),
      );
      this.#sockets.push(...sockets);
      await Promise.all(sockets.map((socket) => askOnce(socket, port, file))).catch((error: unknown) => {
        throw new BenchFault(`of ${this.#sockets.length} connections one gets no answer: ${error}`);
      });
      for (const socket of sockets) socket.on('error', () => {});
    }
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** The answer is over when as many bytes have come as the file has, which is more than a head takes. */
async function askOnce(socket: Socket, port: number, { path, window }: SampleFile): Promise<void> {
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  let missing = window.end - window.start;
  while (missing > 0) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    missing -= chunk.length;
  }
}
