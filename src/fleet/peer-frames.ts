/** What two processes say to each other over a socket: frames, cut out of the bytes as they come. */

import { deserialize, serialize } from 'node:v8';

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
