/**
 * HTTP/2 frames (RFC 9113 §4, §6): their constants, their formats as text of one character per byte, and the output of a connection. It
 * writes all frames of one turn together, no more than the client takes soon, and tells the owners of content when it has left the
 * process.
 */

import type { Socket } from 'node:net';
import { hasTaken, joinedBytes, type WriteBuffer } from '../write-buffer.ts';

/** The bytes that a client sends first (RFC 9113 §3.4). */
export const clientPreface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** The size of the head of each frame, in bytes. */
export const frameHeadBytes = 9;

/** The types of frames (RFC 9113 §6). */
export const frameType = {
  data: 0x00,
  headers: 0x01,
  priority: 0x02,
  reset: 0x03,
  settings: 0x04,
  pushPromise: 0x05,
  ping: 0x06,
  goAway: 0x07,
  windowUpdate: 0x08,
  continuation: 0x09,
} as const;

/** Flags of frames. `ack` and `endStream` are the same bit in frames of different types. */
export const frameFlag = { ack: 0x01, endStream: 0x01, endHeaders: 0x04, padded: 0x08, priority: 0x20 } as const;

/** Error codes of RST_STREAM and GOAWAY (RFC 9113 §7). */
export const errorCode = {
  none: 0x00,
  protocol: 0x01,
  internal: 0x02,
  flowControl: 0x03,
  streamClosed: 0x05,
  frameSize: 0x06,
  refusedStream: 0x07,
  compression: 0x09,
  calm: 0x0b,
  http1Required: 0x0d,
} as const;

/** Identifiers of settings (RFC 9113 §6.5.2). */
export const setting = {
  headerTableSize: 0x01,
  enablePush: 0x02,
  maxConcurrentStreams: 0x03,
  initialWindowSize: 0x04,
  maxFrameSize: 0x05,
  maxHeaderListSize: 0x06,
} as const;

/** The largest payload of a frame that a receiver has to accept without having said so, in bytes (RFC 9113 §4.2). */
export const leastMaxFrameBytes = 16_384;

/** The largest value of SETTINGS_MAX_FRAME_SIZE, in bytes. */
export const mostMaxFrameBytes = 2 ** 24 - 1;

/** The initial window of a connection and of each stream, in bytes (RFC 9113 §6.9.2). */
export const initialWindowBytes = 65_535;

/** The largest window, in bytes (RFC 9113 §6.9.1). */
export const largestWindowBytes = 2 ** 31 - 1;

/** Formats the head of a frame. `sizeBytes` is the length of its payload. */
export function formatFrameHead(sizeBytes: number, type: number, flags: number, stream: number): string {
  return String.fromCharCode(
    (sizeBytes >>> 16) & 0xff,
    (sizeBytes >>> 8) & 0xff,
    sizeBytes & 0xff,
    type,
    flags,
    (stream >>> 24) & 0x7f,
    (stream >>> 16) & 0xff,
    (stream >>> 8) & 0xff,
    stream & 0xff,
  );
}

/**
 * Formats a field section as one HEADERS frame, or as HEADERS and CONTINUATION where it is larger than `maxFrameBytes` (RFC 9113
 * §6.10).
 */
export function formatHeaders(stream: number, section: string, endsStream: boolean, maxFrameBytes: number): string {
  const ending = endsStream ? frameFlag.endStream : 0;
  const { length } = section;
  if (length <= maxFrameBytes) {
    return formatFrameHead(length, frameType.headers, frameFlag.endHeaders | ending, stream) + section;
  }
  let text = formatFrameHead(maxFrameBytes, frameType.headers, ending, stream) + section.slice(0, maxFrameBytes);
  for (let at = maxFrameBytes; at < length; at += maxFrameBytes) {
    const part = section.slice(at, at + maxFrameBytes);
    const flags = at + maxFrameBytes >= length ? frameFlag.endHeaders : 0;
    text += formatFrameHead(part.length, frameType.continuation, flags, stream) + part;
  }
  return text;
}

/** Formats the head of a DATA frame. */
export function formatDataFrameHead(stream: number, sizeBytes: number, endsStream: boolean): string {
  return formatFrameHead(sizeBytes, frameType.data, endsStream ? frameFlag.endStream : 0, stream);
}

/** Formats a RST_STREAM frame. */
export function formatReset(stream: number, code: number): string {
  return formatFrameHead(4, frameType.reset, 0, stream) + formatNumber(code);
}

/** Formats a SETTINGS frame. */
export function formatSettings(values: readonly (readonly [identifier: number, value: number])[]): string {
  let text = formatFrameHead(values.length * 6, frameType.settings, 0, 0);
  for (const [identifier, value] of values) {
    text += String.fromCharCode(identifier >>> 8, identifier & 0xff) + formatNumber(value);
  }
  return text;
}

/** The acknowledgement of a SETTINGS frame (RFC 9113 §6.5.3). */
export const settingsAck = formatFrameHead(0, frameType.settings, frameFlag.ack, 0);

/** Formats the answer to a PING frame; `payload` has 8 characters. */
export function formatPingAck(payload: string): string {
  return formatFrameHead(8, frameType.ping, frameFlag.ack, 0) + payload;
}

/** Formats a GOAWAY frame. `last` is the highest stream that was or may be processed. */
export function formatGoAway(last: number, code: number): string {
  return formatFrameHead(8, frameType.goAway, 0, 0) + formatNumber(last) + formatNumber(code);
}

/** Formats a WINDOW_UPDATE frame; stream 0 is the connection. */
export function formatWindowUpdate(stream: number, increment: number): string {
  return formatFrameHead(4, frameType.windowUpdate, 0, stream) + formatNumber(increment);
}

/** Formats 32 bits. */
function formatNumber(value: number): string {
  return String.fromCharCode((value >>> 24) & 0xff, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

/** Reads 32 bits without the first one, which is reserved in stream identifiers and increments. */
export function readNumber(bytes: Uint8Array, at: number): number {
  return (((bytes[at] as number) & 0x7f) << 24) | readLow(bytes, at);
}

/** Reads all 32 bits. */
export function readUnsigned(bytes: Uint8Array, at: number): number {
  return (bytes[at] as number) * 2 ** 24 + readLow(bytes, at);
}

function readLow(bytes: Uint8Array, at: number): number {
  return ((bytes[at + 1] as number) << 16) | ((bytes[at + 2] as number) << 8) | (bytes[at + 3] as number);
}

/** A part of a frame: text of one character per byte, or content. */
type Piece = string | Uint8Array;

/** The owner of content in frames. */
export interface ContentOwner {
  /** The frames could not be written at once. Called at most once for each `note`, in the tick of the write. */
  noteWaiting?(): void;
  /** All content of a `note` has left the process, and its memory is no longer read. In the order of the notes. */
  noteTaken(sizeBytes: number): void;
  /** The connection is closed, and the content of a `note` is lost. */
  noteLost(): void;
}

/** What one write to the socket contains. */
interface Batch {
  readonly sizeBytes: number;
  readonly sentAt: number;
  readonly owners: readonly ContentOwner[];
  /** The content of each owner, in bytes. */
  readonly contentBytes: readonly number[];
  /** The number of writes with a callback up to this one. */
  readonly write: number;
}

/** How many batches of the present size may be on their way, so that the connection is never idle. */
const batchesAhead = 2;

/** The parts that an output is made of. */
interface OutputOptions {
  readonly socket: Socket;
  readonly buffer: WriteBuffer;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  /** Called when a batch has left the process, but not within `flush`. */
  readonly onRoom: () => void;
}

/** Collects frames, and writes them. */
export class Http2Output {
  readonly #socket: Socket;
  readonly #buffer: WriteBuffer;
  readonly #now: () => number;
  readonly #onRoom: () => void;
  readonly #sizer = new BatchSizer();
  #pieces: Piece[] = [];
  #sizeBytes = 0;
  #owners: ContentOwner[] = [];
  #contentBytes: number[] = [];
  readonly #batches: Batch[] = [];
  #waitingBytes = 0;
  #writes = 0;
  #finishedWrites = 0;

  constructor({ socket, buffer, now, onRoom }: OutputOptions) {
    this.#socket = socket;
    this.#buffer = buffer;
    this.#now = now;
    this.#onRoom = onRoom;
  }

  /** Bytes that have not left the process. */
  get unsentBytes(): number {
    return this.#sizeBytes + this.#waitingBytes;
  }

  /** Whether more content should be put. Frames without content may be put at any time. */
  get hasRoom(): boolean {
    return this.unsentBytes < batchesAhead * this.#sizer.bytes;
  }

  /** Whether nothing waits to be written or taken. */
  get isEmpty(): boolean {
    return this.#sizeBytes === 0 && this.#batches.length === 0;
  }

  /** Adds a part of a frame to the next write. */
  put(piece: Piece): void {
    this.#pieces.push(piece);
    this.#sizeBytes += piece.length;
  }

  /** Has `owner` told when everything that was put so far has left the process. `sizeBytes` of it is the owner's content. */
  note(owner: ContentOwner, sizeBytes: number): void {
    this.#owners.push(owner);
    this.#contentBytes.push(sizeBytes);
  }

  /** Writes what was put. */
  flush(): void {
    if (this.#sizeBytes === 0) return;
    const pieces = this.#pieces;
    const batch: Batch = {
      sizeBytes: this.#sizeBytes,
      sentAt: this.#now(),
      owners: this.#owners,
      contentBytes: this.#contentBytes,
      write: this.#writes + 1,
    };
    this.#pieces = [];
    this.#sizeBytes = 0;
    this.#owners = [];
    this.#contentBytes = [];
    if (!this.#socket.writable) {
      for (const owner of batch.owners) owner.noteLost();
      return;
    }
    this.#writes = batch.write;
    this.#batches.push(batch);
    this.#waitingBytes += batch.sizeBytes;
    this.#write(pieces, batch.sizeBytes);
    // Without TLS it is known at once that the kernel has taken everything.
    if (hasTaken(this.#socket)) this.#finish(batch.write);
    else for (const owner of batch.owners) owner.noteWaiting?.();
  }

  /** The connection is closed: everything that waits is lost. */
  close(): void {
    const owners = [...this.#batches.splice(0).flatMap((batch) => batch.owners), ...this.#owners.splice(0)];
    this.#pieces = [];
    this.#sizeBytes = 0;
    this.#waitingBytes = 0;
    for (const owner of owners) owner.noteLost();
  }

  #write(pieces: readonly Piece[], sizeBytes: number): void {
    const socket = this.#socket;
    if (sizeBytes <= joinedBytes) {
      const joined = this.#buffer.join('', pieces, sizeBytes);
      socket.write(joined, this.#noteWritten);
      if (hasTaken(socket)) this.#buffer.takeBack(joined);
      return;
    }
    socket.cork();
    const last = pieces.length - 1;
    for (const [at, piece] of pieces.entries()) {
      const bytes = typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece;
      socket.write(bytes, at === last ? this.#noteWritten : undefined);
    }
    socket.uncork();
  }

  /** The callback of each write. An error is followed by the end of the socket, which closes the output. */
  readonly #noteWritten = (error?: Error | null): void => {
    this.#finishedWrites += 1;
    if (error !== undefined && error !== null) return;
    if (this.#finish(this.#finishedWrites)) this.#onRoom();
  };

  /** Tells the owners of all batches up to a write. Returns whether there were any. */
  #finish(write: number): boolean {
    let isAny = false;
    for (let batch = this.#batches[0]; batch !== undefined && batch.write <= write; batch = this.#batches[0]) {
      isAny = true;
      this.#batches.shift();
      this.#waitingBytes -= batch.sizeBytes;
      this.#sizer.note(batch.sizeBytes, this.#now() - batch.sentAt);
      for (const [at, owner] of batch.owners.entries()) owner.noteTaken(batch.contentBytes[at] as number);
    }
    return isAny;
  }
}

/** The initial size of a batch and its bounds, in bytes. */
const firstBytes = 16 * 1024;
const leastBytes = 4 * 1024;
const mostBytes = 128 * 1024;

/** A batch that leaves within `soonMs` makes the next ones larger; one that takes longer than `lateMs` makes them smaller. */
const soonMs = 250;
const lateMs = 1_000;

/**
 * Adapts the size of batches to the client. Node reports a write only when all of it has left. Small batches show how fast a slow
 * client is; large ones cost less for a fast client.
 */
export class BatchSizer {
  #bytes = firstBytes;

  /** The size of the next batch, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Records that `sizeBytes` have left within `elapsedMs` milliseconds. */
  note(sizeBytes: number, elapsedMs: number): void {
    if (elapsedMs > lateMs) this.#bytes = Math.max(leastBytes, this.#bytes / 4);
    else if (elapsedMs <= soonMs && sizeBytes >= this.#bytes) this.#bytes = Math.min(mostBytes, 2 * this.#bytes);
  }
}
