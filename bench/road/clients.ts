/** Minimal clients with one connection each. Their code is outside `src`, so a road does not count it. */

import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';

export interface Client extends Disposable {
  /** Sends a GET, reads the whole response, and resolves with its status. */
  ask(path: string, fields: Readonly<Record<string, string>>): Promise<number>;
}

/** Opens an HTTP/1.1 client at 127.0.0.1. Responses must have Content-Length, except a 304. */
export async function openHttp1Client(port: number): Promise<Client> {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true });
  await once(socket, 'connect');
  let received = '';
  let resolve: ((status: number) => void) | undefined;
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text;
    const end = received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const status = Number(received.slice(9, 12));
    const length = status === 304 ? 0 : Number(/\r\ncontent-length: *(\d+)/i.exec(received)?.[1]);
    if (received.length < end + 4 + length) return;
    received = '';
    resolve?.(status);
  });
  return {
    ask(path, fields) {
      const lines = Object.entries({ host: `127.0.0.1:${port}`, ...fields }).map(
        ([name, value]) => `${name}: ${value}`,
      );
      socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      return new Promise((done) => {
        resolve = done;
      });
    },
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

/** Opens a client for HTTP/2 in cleartext at 127.0.0.1. */
export async function openHttp2Client(port: number): Promise<Client> {
  const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 1024 * 1024 } });
  await once(session, 'connect');
  session.setLocalWindowSize(64 * 1024 * 1024);
  return {
    async ask(path, fields) {
      const stream = session.request({ ':path': path, ...fields }).resume();
      const ended = once(stream, 'end');
      const [head] = (await once(stream, 'response')) as [Record<string, unknown>];
      await ended;
      return Number(head[':status']);
    },
    [Symbol.dispose]: () => session.destroy(),
  };
}
