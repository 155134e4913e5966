/** Clients that cost a server resources: idle connections, slow readers, and clients that leave early. */

import { once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { testAuthority } from '../values/tls-certificate.ts';

/** The ports of a server, without and with TLS. */
export interface Ports {
  readonly http: number;
  readonly https: number;
}

/** Connections that are opened at a time: more than the backlog of a listener would be refused. */
const atOnce = 100;

/** Slow streams per session. */
const streamsPerSession = 10;

/** Clients that do nothing until a method is called. Disposing closes them all. */
export class Crowd implements Disposable {
  readonly #ports: Ports;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<ClientHttp2Session>();
  readonly #slow: Socket[] = [];

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#sockets.size + this.#sessions.size;
  }

  /** Adds connections that send `text` and nothing more. With `isAnswered`, waits for a response to each. */
  async addIdle(count: number, text: string, isAnswered: boolean): Promise<void> {
    await inGroups(count, async () => {
      const socket = await this.#connect();
      socket.write(text);
      if (isAnswered) await once(socket, 'data');
    });
  }

  /** Adds readers of a large body that read its first bytes, and one chunk whenever `readOn` is called. */
  async addSlow(count: number, path: string): Promise<void> {
    await inGroups(count, async () => {
      const socket = await this.#connect();
      socket.write(`GET ${path} HTTP/1.1\r\nHost: files.example\r\n\r\n`);
      await once(socket, 'data');
      socket.pause();
      this.#slow.push(socket);
    });
  }

  /** Adds HTTP/2 streams whose windows are full and stay full. */
  async addStalledStreams(count: number, path: string): Promise<void> {
    for (let added = 0; added < count; added += streamsPerSession) {
      const session = this.#session();
      await inGroups(Math.min(streamsPerSession, count - added), async () => {
        const stream = session.request({ ':path': path });
        // Destroying the session raises it.
        stream.on('error', () => {});
        await once(stream, 'response');
      });
    }
  }

  /** Sends requests and closes or resets each connection, before the head or in the body. `pathOf` gives the path of each. */
  async comeAndGo(count: number, pathOf: (at: number) => string): Promise<void> {
    await inGroups(count, async (at) => {
      const socket = await this.#connect();
      socket.write(`GET ${pathOf(at)} HTTP/1.1\r\nHost: files.example\r\n\r\n`);
      if (at % 4 > 0) await once(socket, 'data');
      if (at % 2 === 0) socket.resetAndDestroy();
      else socket.destroy();
    });
  }

  /** Sends requests on one session, and cancels each of them. */
  async cancelStreams(count: number, pathOf: (at: number) => string): Promise<void> {
    const session = this.#session();
    await inGroups(count, async (at) => {
      const stream: ClientHttp2Stream = session.request({ ':path': pathOf(at) });
      stream.on('error', () => {});
      if (at % 3 > 0) await once(stream, 'response');
      stream.close(constants.NGHTTP2_CANCEL);
      await once(stream, 'close');
    });
  }

  /** Lets each slow reader read one chunk. */
  readOn(): void {
    for (const socket of this.#slow) socket.read();
  }

  /** Closes all connections. */
  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.destroy();
    for (const session of this.#sessions) session.destroy();
  }

  async #connect(): Promise<Socket> {
    const socket = connect({ port: this.#ports.http, host: '127.0.0.1', noDelay: true });
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => this.#sockets.delete(socket));
    await once(socket, 'connect');
    return socket;
  }

  #session(): ClientHttp2Session {
    const session = connectHttp2(`https://localhost:${this.#ports.https}`, {
      ca: testAuthority,
      settings: { initialWindowSize: 16 * 1024 },
    });
    this.#sessions.add(session);
    session.on('error', () => {});
    session.once('close', () => this.#sessions.delete(session));
    return session;
  }
}

async function inGroups(count: number, each: (at: number) => Promise<void>): Promise<void> {
  for (let start = 0; start < count; start += atOnce) {
    await Promise.all(Array.from({ length: Math.min(atOnce, count - start) }, (_, at) => each(start + at)));
  }
}
