/** A connection to another process, as the one who asks uses it: frames that are waited for, no faster than they are taken. */

import { connect, type Socket } from 'node:net';
import type { Clock } from '../http/clock.ts';
import { type Frame, type FrameKind, FrameReader, formatFrame, frameKinds } from './peer-frames.ts';

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
export interface PeerLineOptions {
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
