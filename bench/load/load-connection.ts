/** One HTTP/1.1 connection of the load: sends a request, reads the response to its end, and can send the next one. */

import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { connect as connectSecurely } from 'node:tls';
import { testAuthority } from '../../test/support/values/tls-certificate.ts';

/** Cipher suite for all servers: by default they choose different ones. */
export const commonCipher = 'TLS_AES_128_GCM_SHA256';

/** The requests of a connection and the expected responses. */
export interface ConnectionPlan<Connection> {
  readonly nextRequest: () => string;
  readonly status: number;
  /** Expected Content-Length. */
  readonly bodyBytes: number;
  /** Whether requests are HEAD: responses have no body, whatever their Content-Length. */
  readonly isHead: boolean;
  readonly isSecure: boolean;
  /** Called when the connection can send a request: once connected, and after each response. */
  readonly onReady: (connection: Connection) => void;
  readonly onAnswer: (durationMs: number) => void;
}

/**
 * All connections read into this buffer: each read is processed before the next one. The bytes do reach this process,
 * unlike with a client that lets the kernel discard them.
 */
const buffer = Buffer.allocUnsafeSlow(256 * 1024);

const headEnd = Buffer.from('\r\n\r\n');

/** An unexpected response, and a connection that breaks, counts as a failure and ends the connection. */
export class LoadConnection {
  answers = 0;
  bytes = 0;
  failures = 0;
  readonly #plan: ConnectionPlan<LoadConnection>;
  readonly #socket: Socket;
  #askedAt = 0;
  /** The beginning of a head that is not complete. */
  #head = '';
  #missingBytes = 0;

  constructor(port: number, plan: ConnectionPlan<LoadConnection>) {
    this.#plan = plan;
    this.#socket = plan.isSecure ? this.#connectSecurely(port) : this.#connect(port);
    this.#socket.once('error', () => {
      this.failures += 1;
    });
    this.#socket.once('end', () => this.#fail());
  }

  #connect(port: number): Socket {
    const onread = { buffer, callback: (size: number) => this.#read(buffer.subarray(0, size)) };
    return connect({ host: '127.0.0.1', port, noDelay: true, onread }, () => this.#plan.onReady(this));
  }

  #connectSecurely(port: number): Socket {
    const place = { host: '127.0.0.1', port, noDelay: true, ca: testAuthority, ciphers: commonCipher };
    const socket = connectSecurely(place, () => this.#plan.onReady(this));
    return socket.on('data', (bytes: Buffer) => this.#read(bytes));
  }

  /** Sends the next request, on a ready connection. `dueAt` is the time when it was due, in the milliseconds of `performance.now`. */
  ask(dueAt: number = performance.now()): void {
    this.#askedAt = dueAt;
    this.#socket.write(this.#plan.nextRequest(), 'latin1');
  }

  /** Processes received bytes. Returns whether to go on reading. */
  #read(received: Buffer): boolean {
    const size = received.length;
    if (this.#missingBytes > 0) {
      this.#take(size);
      return true;
    }
    // A head mostly arrives in one piece. Only otherwise its parts are joined and searched as text.
    const end = this.#head === '' ? received.indexOf(headEnd) : -1;
    if (end >= 0) return this.#receiveHead(received.toString('latin1', 0, end), size - end - headEnd.length);
    this.#head += received.toString('latin1');
    const joined = this.#head.indexOf('\r\n\r\n');
    if (joined < 0) return true;
    const head = this.#head;
    this.#head = '';
    return this.#receiveHead(head.slice(0, joined), head.length - joined - headEnd.length);
  }

  #receiveHead(head: string, bodyBytes: number): boolean {
    const length = /\r\ncontent-length: *([0-9]+)/i.exec(head)?.[1];
    const { status, bodyBytes: wantedBytes, isHead } = this.#plan;
    if (Number(head.slice(9, 12)) !== status || (!isHead && Number(length) !== wantedBytes)) {
      this.#fail();
      return false;
    }
    this.#missingBytes = isHead ? 0 : wantedBytes;
    this.#take(bodyBytes);
    return true;
  }

  #take(size: number): void {
    this.bytes += size;
    this.#missingBytes -= size;
    if (this.#missingBytes > 0) return;
    if (this.#missingBytes < 0) {
      this.#fail();
      return;
    }
    this.answers += 1;
    this.#plan.onAnswer(performance.now() - this.#askedAt);
    this.#plan.onReady(this);
  }

  #fail(): void {
    this.failures += 1;
    this.#socket.destroy();
  }
}
