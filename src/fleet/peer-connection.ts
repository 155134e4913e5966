/**
 * The connection between two workers, over a Unix socket or between machines over TLS: the frames that are sent, and `PeerLine`, the end of the worker that
 * asks. It receives no faster than its reader takes the frames.
 */

import type { Socket } from 'node:net';
import { deserialize, serialize } from 'node:v8';
import type { Clock } from '../http/clock.ts';

/** The kinds of frames. The worker that asks sends the first four, the worker that answers all others. */
export const frameKinds = {
  /** The request. The first frame of a connection, and the only one of its kind. */
  ask: 1,
  /** The spans to read. */
  open: 2,
  /** Asks for a `presence` frame about the bytes before an offset. */
  present: 3,
  /** Asks for a `storedTo` frame about the bytes of a span. */
  stored: 4,
  /** Shows that the worker is alive, and nothing else. */
  beat: 16,
  interim: 17,
  answer: 18,
  opened: 19,
  presence: 20,
  /** Bytes of a body. */
  data: 21,
  end: 22,
  failed: 23,
  storedTo: 24,
} as const;

/** The number of a frame kind. */
export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

/** A received frame, whose bytes are not reused. */
export interface Frame {
  readonly kind: number;
  readonly bytes: Buffer;
}

/** Bytes of a frame's head: the kind (1), and the length of the content (4). */
const HEAD_BYTES = 5;
/** Maximum content of a frame. A peer sends no larger one: heads of requests and responses are far smaller. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;
/** Head of the content of a data frame: the offset of its bytes, and the bytes that the origin has sent. Doubles, exact for any length. */
const DATA_HEAD_BYTES = 16;

/** Returns a frame that holds a value: plain data, `undefined` and Infinity included. */
export function formatFrame(kind: FrameKind, value?: unknown): Buffer {
  const bytes = value === undefined ? nothing : serialize(value);
  const frame = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
  writeHead(frame, kind, bytes.length);
  bytes.copy(frame, HEAD_BYTES);
  return frame;
}

const nothing = Buffer.alloc(0);

/** Returns the heads of a data frame: the offset of its bytes, and how many bytes the origin has sent for the request so far. */
export function formatDataHead(sizeBytes: number, offset: number, originBytes: number): Buffer {
  const head = Buffer.allocUnsafe(HEAD_BYTES + DATA_HEAD_BYTES);
  writeHead(head, frameKinds.data, DATA_HEAD_BYTES + sizeBytes);
  head.writeDoubleBE(offset, HEAD_BYTES);
  head.writeDoubleBE(originBytes, HEAD_BYTES + 8);
  return head;
}

/** The content of a data frame. */
export interface DataFrame {
  readonly offset: number;
  readonly originBytes: number;
  readonly bytes: Buffer;
}

/** Parses a data frame. Throws `RangeError` where it is too short. */
export function readData({ bytes }: Frame): DataFrame {
  return {
    offset: bytes.readDoubleBE(0),
    originBytes: bytes.readDoubleBE(8),
    bytes: bytes.subarray(DATA_HEAD_BYTES),
  };
}

/** Parses the value in a frame. Throws `Error` where there is none. */
export function readValue<T>({ bytes }: Frame): T {
  return deserialize(bytes) as T;
}

/** Splits received bytes into frames. */
export class FrameReader {
  #parts: Buffer[] = [];
  #size = 0;

  /** Adds received bytes, and returns the frames that are complete now. Throws `RangeError` where a frame is too long. */
  read(chunk: Buffer): Frame[] {
    this.#parts.push(chunk);
    this.#size += chunk.length;
    const frames: Frame[] = [];
    while (this.#size >= HEAD_BYTES) {
      const head = this.#joined(HEAD_BYTES);
      const length = head.readUInt32BE(1);
      if (length > MAX_FRAME_BYTES) throw new RangeError(`A frame of ${length} bytes is too long.`);
      if (this.#size < HEAD_BYTES + length) break;
      const all = this.#joined(HEAD_BYTES + length);
      frames.push({ kind: all.readUInt8(0), bytes: all.subarray(HEAD_BYTES, HEAD_BYTES + length) });
      this.#take(all, HEAD_BYTES + length);
    }
    return frames;
  }

  /** Returns the bytes that have arrived, at least the first `count` of them in one buffer. */
  #joined(count: number): Buffer {
    const [first] = this.#parts;
    if (first !== undefined && first.length >= count) return first;
    const all = Buffer.concat(this.#parts);
    this.#parts = [all];
    return all;
  }

  #take(first: Buffer, count: number): void {
    this.#size -= count;
    if (first.length > count) this.#parts[0] = first.subarray(count);
    else this.#parts.shift();
  }
}

function writeHead(frame: Buffer, kind: FrameKind, size: number): void {
  frame.writeUInt8(kind, 0);
  frame.writeUInt32BE(size, 1);
}

/** Bytes of frames that wait for the reader: above the first number the socket is paused, below the second it resumes. */
const FULL_BYTES = 1024 * 1024;
const LOW_BYTES = 256 * 1024;
/** A worker that sends nothing for so long while it is waited for has died or hangs: it sends a beat every few seconds. */
const PATIENCE_MS = 15_000;

interface Waiter {
  readonly resolve: (frame: Frame) => void;
  readonly reject: (error: unknown) => void;
}

/** Options of a line. */
export interface PeerLineOptions {
  /** Begins to connect to the other worker. */
  readonly connect: () => Socket;
  readonly clock: Pick<Clock, 'after'>;
  /** How long the other worker may be silent while it is waited for; 15 s by default. In milliseconds. */
  readonly patienceMs?: number;
  /** Creates the error of a broken line. */
  readonly createLoss: () => Error;
}

/** One connection, for one answer. */
export class PeerLine {
  readonly #socket: Socket;
  readonly #clock: Pick<Clock, 'after'>;
  readonly #reader = new FrameReader();
  readonly #frames: Frame[] = [];
  #queuedBytes = 0;
  #waiter: Waiter | undefined;
  #stopWatching: () => void = () => {};
  readonly #createLoss: () => Error;
  readonly #patienceMs: number;
  #loss: Error | undefined;

  constructor({ connect, clock, patienceMs = PATIENCE_MS, createLoss }: PeerLineOptions) {
    this.#clock = clock;
    this.#createLoss = createLoss;
    this.#patienceMs = patienceMs;
    this.#socket = connect();
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    // Frames that arrived before the end can still be read.
    this.#socket.on('error', () => this.#break());
    this.#socket.on('close', () => this.#break());
  }

  send(kind: FrameKind, value: unknown): void {
    this.#socket.write(formatFrame(kind, value));
  }

  /** Takes the next frame, and waits for it. One call at a time. Rejects with the error of a broken line, or the signal's reason. */
  async next(signal: AbortSignal): Promise<Frame> {
    signal.throwIfAborted();
    const frame = this.#frames.shift();
    if (frame !== undefined) {
      this.#queuedBytes -= frame.bytes.length;
      if (this.#queuedBytes < LOW_BYTES) this.#socket.resume();
      return frame;
    }
    if (this.#loss !== undefined) throw this.#loss;
    return await this.#wait(signal);
  }

  /** Closes the connection; the worker that answers notices it. */
  close(): void {
    this.#socket.destroy();
  }

  #wait(signal: AbortSignal): Promise<Frame> {
    return new Promise((resolve, reject) => {
      const leave = () => waiter.reject(signal.reason);
      const settle = () => {
        this.#waiter = undefined;
        this.#stopWatching();
        signal.removeEventListener('abort', leave);
      };
      const waiter: Waiter = {
        resolve: (frame) => {
          settle();
          resolve(frame);
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      };
      this.#waiter = waiter;
      signal.addEventListener('abort', leave, { once: true });
      this.#watch();
    });
  }

  #receive(chunk: Buffer): void {
    let frames: Frame[];
    try {
      frames = this.#reader.read(chunk);
    } catch {
      this.#break();
      this.#socket.destroy();
      return;
    }
    for (const frame of frames) if (frame.kind !== frameKinds.beat) this.#take(frame);
    if (this.#waiter !== undefined) this.#watch();
    if (this.#queuedBytes > FULL_BYTES) this.#socket.pause();
  }

  #take(frame: Frame): void {
    if (this.#waiter !== undefined) {
      this.#waiter.resolve(frame);
    } else {
      this.#frames.push(frame);
      this.#queuedBytes += frame.bytes.length;
    }
  }

  /** Breaks the line where nothing arrives for `#patienceMs`. */
  #watch(): void {
    this.#stopWatching();
    this.#stopWatching = this.#clock.after(this.#patienceMs, () => {
      this.#break();
      this.#socket.destroy();
    });
  }

  /** Notes that the other worker is gone or hangs, or that the other end is no peer. */
  #break(): void {
    this.#loss ??= this.#createLoss();
    this.#waiter?.reject(this.#loss);
  }
}
