/**
 * A connection between two workers over a Unix socket: frames, cut out of the bytes as they come, and awaited by the worker
 * that asks no faster than it takes them.
 */

import { connect, type Socket } from 'node:net';
import { deserialize, serialize } from 'node:v8';
import type { Clock } from '../http/clock.ts';

/** The kinds of frames: those of the one who asks, then those of the one who answers. */
export const frameKinds = {
  /** The request; the first frame, and the only one of its kind. */
  ask: 1,
  /** Spans to be read. */
  open: 2,
  /** Up to where bytes are to be there. */
  present: 3,
  /** It is there still. Nothing follows from it but that. */
  beat: 16,
  interim: 17,
  answer: 18,
  opened: 19,
  presence: 20,
  /** Bytes. */
  data: 21,
  end: 22,
  failed: 23,
} as const;

/** The number of a kind. */
export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

/** A frame that has come; its bytes are its own. */
export interface Frame {
  readonly kind: number;
  readonly bytes: Buffer;
}

/** The kind, and the length of what follows. */
const HEAD_BYTES = 5;
/** A longer frame is none: what speaks at the other end is no peer. Heads of requests and responses are far smaller. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;
/** The place of the first byte, and how many bytes the origin has sent: doubles, which hold every length exactly. */
const DATA_HEAD_BYTES = 16;

/** A frame with a value in it: plain data, `undefined` and Infinity included. */
export function formatFrame(kind: FrameKind, value?: unknown): Buffer {
  const bytes = value === undefined ? nothing : serialize(value);
  const frame = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
  writeHead(frame, kind, bytes.length);
  bytes.copy(frame, HEAD_BYTES);
  return frame;
}

const nothing = Buffer.alloc(0);

/** What goes before bytes: where they lie, and how many bytes the origin has sent for the request until now. */
export function formatDataHead(sizeBytes: number, offset: number, originBytes: number): Buffer {
  const head = Buffer.allocUnsafe(HEAD_BYTES + DATA_HEAD_BYTES);
  writeHead(head, frameKinds.data, DATA_HEAD_BYTES + sizeBytes);
  head.writeDoubleBE(offset, HEAD_BYTES);
  head.writeDoubleBE(originBytes, HEAD_BYTES + 8);
  return head;
}

/** Bytes that have come, and what is told with them. */
export interface DataFrame {
  readonly offset: number;
  readonly originBytes: number;
  readonly bytes: Buffer;
}

/** What is in a frame of bytes. Throws `RangeError` where it is too short. */
export function readData({ bytes }: Frame): DataFrame {
  return {
    offset: bytes.readDoubleBE(0),
    originBytes: bytes.readDoubleBE(8),
    bytes: bytes.subarray(DATA_HEAD_BYTES),
  };
}

/** The value in a frame. Throws `Error` where it is none. */
export function readValue<T>({ bytes }: Frame): T {
  return deserialize(bytes) as T;
}

/** Cuts frames out of bytes. */
export class FrameReader {
  #parts: Buffer[] = [];
  #size = 0;

  /** The frames that are whole now. Throws `RangeError` where what comes is none. */
  read(chunk: Buffer): Frame[] {
    this.#parts.push(chunk);
    this.#size += chunk.length;
    const frames: Frame[] = [];
    while (this.#size >= HEAD_BYTES) {
      const head = this.#joined(HEAD_BYTES);
      const length = head.readUInt32BE(1);
      if (length > MAX_FRAME_BYTES) throw new RangeError(`A frame of ${length} bytes.`);
      if (this.#size < HEAD_BYTES + length) break;
      const all = this.#joined(HEAD_BYTES + length);
      frames.push({ kind: all.readUInt8(0), bytes: all.subarray(HEAD_BYTES, HEAD_BYTES + length) });
      this.#take(all, HEAD_BYTES + length);
    }
    return frames;
  }

  /** What has come, with the first so many bytes in one piece. */
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

/** Frames that nobody has taken: from the first number of bytes on nothing is read, below the second one it is again. */
const FULL_BYTES = 1024 * 1024;
const LOW_BYTES = 256 * 1024;
/** Who says nothing for so long while it is waited for has died or hangs: it says every few seconds that it is there. */
const PATIENCE_MS = 15_000;

interface Waiter {
  readonly resolve: (frame: Frame) => void;
  readonly reject: (error: unknown) => void;
}

/** What a line is made with. */
interface PeerLineOptions {
  /** Of the Unix socket. */
  readonly path: string;
  readonly clock: Pick<Clock, 'after'>;
  /** Makes the error of a line that is broken. */
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
  #loss: Error | undefined;

  constructor({ path, clock, createLoss }: PeerLineOptions) {
    this.#clock = clock;
    this.#createLoss = createLoss;
    this.#socket = connect(path);
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    // What has come before the end is still to be had.
    this.#socket.on('error', () => this.#break());
    this.#socket.on('close', () => this.#break());
  }

  send(kind: FrameKind, value: unknown): void {
    this.#socket.write(formatFrame(kind, value));
  }

  /** The next frame, if it is there already; it stays the next one. */
  peek(): Frame | undefined {
    return this.#frames[0];
  }

  /** Takes the next frame, waiting for it. One at a time waits. Rejects with the loss of the line, or the signal's reason. */
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

  /** Ends it; who answers learns it. */
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

  /** Gives up where nothing comes for too long. */
  #watch(): void {
    this.#stopWatching();
    this.#stopWatching = this.#clock.after(PATIENCE_MS, () => {
      this.#break();
      this.#socket.destroy();
    });
  }

  /** The other end is gone, does not react, or is no peer. */
  #break(): void {
    this.#loss ??= this.#createLoss();
    this.#waiter?.reject(this.#loss);
  }
}
