/** One connection of the load: asks, reads the answer to its end, and can ask again. */

import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';

/** What a connection asks and expects. */
export interface ConnectionPlan {
  readonly nextRequest: () => string;
  readonly status: number;
  /** What Content-Length has to say. */
  readonly bodyBytes: number;
  /** It is connected, or has had its answer: it can ask. */
  readonly onReady: (connection: LoadConnection) => void;
  readonly onAnswer: (durationMs: number) => void;
}

/**
 * All connections read into this one: what was read is looked at before the next read. The bytes do arrive in this
 * process, unlike with a client that lets the kernel discard them.
 */
const buffer = Buffer.allocUnsafeSlow(256 * 1024);

const headEnd = Buffer.from('\r\n\r\n');

/** An answer that is not what was expected ends the connection and counts as a failure, as does a connection that breaks. */
export class LoadConnection {
  answers = 0;
  bytes = 0;
  failures = 0;
  readonly #plan: ConnectionPlan;
  readonly #socket: Socket;
  #askedAt = 0;
  /** What has come of a head that is not complete. */
  #head = '';
  #missingBytes = 0;

  constructor(port: number, plan: ConnectionPlan) {
    this.#plan = plan;
    const onread = { buffer, callback: (size: number) => this.#read(size) };
    this.#socket = connect({ host: '127.0.0.1', port, noDelay: true, onread }, () => plan.onReady(this));
    this.#socket.once('error', () => {
      this.failures += 1;
    });
    this.#socket.once('end', () => this.#fail());
  }

  /** Asks, once it is ready. `dueAt` is when it should have asked, in the milliseconds of `performance.now`. */
  ask(dueAt: number = performance.now()): void {
    this.#askedAt = dueAt;
    this.#socket.write(this.#plan.nextRequest(), 'latin1');
  }

  /** Looks at the first bytes of the buffer. Returns whether to go on reading. */
  #read(size: number): boolean {
    if (this.#missingBytes > 0) {
      this.#take(size);
      return true;
    }
    const received = buffer.subarray(0, size);
    // A head mostly comes in one piece; only what is left of that is worth a search in a text.
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
    if (Number(head.slice(9, 12)) !== this.#plan.status || Number(length) !== this.#plan.bodyBytes) {
      this.#fail();
      return false;
    }
    this.#missingBytes = this.#plan.bodyBytes;
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
