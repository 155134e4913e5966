/**
 * Writes the log of a server to standard output without ever waiting for its reader. Lines are gathered for some milliseconds
 * and written together. With a slow reader, a closed pipe or a full disk, lines beyond a bound are dropped. Only the end of the
 * process waits.
 */

import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { backgroundClock } from '../setup/system.ts';
import type { LogStream } from '../telemetry/log.ts';
import { wantsColors } from './terminal/abilities.ts';

const stdoutFd = 1;
/** PIPE_BUF: a pipe takes so many bytes whole or not at all, so lines of several processes do not mix. */
const pipePieceBytes = 4096;
const filePieceBytes = 65_536;

/** Opens the log on standard output. Lines held when the process exits, or ends by an uncaught exception, are written then. */
export function openProcessLog(): LogStream {
  const buffer = new LineBuffer(openTarget());
  process.on('exit', () => buffer.finish());
  const { stdout } = process;
  return Object.assign(buffer, { isTTY: stdout.isTTY, hasColors: () => wantsColors(stdout, process.env) });
}

function openTarget(): LineTarget {
  const kind = fstatSync(stdoutFd);
  const own = kind.isFIFO() || isatty(stdoutFd) ? reopen() : undefined;
  const fd = own ?? stdoutFd;
  const keepNonBlocking = own === undefined && (kind.isFIFO() || kind.isSocket()) ? setNonBlocking : () => {};
  return {
    pieceBytes: kind.isFile() ? filePieceBytes : pipePieceBytes,
    write(piece) {
      keepNonBlocking();
      return typeof piece === 'string' ? writeSync(fd, piece) : writeSync(fd, piece);
    },
    after: backgroundClock.after,
    sleep: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  };
}

/**
 * Opens the pipe or terminal again. All processes that inherited standard output share its O_NONBLOCK flag, and starting a worker
 * resets it; a descriptor of its own keeps the flag. Returns undefined where the system has no `/proc`, or does not allow this.
 */
function reopen(): number | undefined {
  try {
    return openSync(`/proc/self/fd/${stdoutFd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return undefined;
  }
}

/** A socket cannot be opened again. Node can make it non-blocking, but has no public function for it. */
function setNonBlocking(): void {
  const { _handle: handle } = process.stdout as { readonly _handle?: { setBlocking?(isBlocking: boolean): unknown } };
  handle?.setBlocking?.(false);
}

/** How long lines are gathered, in milliseconds. A line after a pause is written at once. */
const gatherMs = 50;
/** The most bytes that wait to be written; further lines are dropped. */
const heldBytesMax = 8 * 1024 * 1024;
/** How many bytes are written in one turn of the event loop, once a slow reader has caught up. */
const turnBytesMax = 256 * 1024;
/** Milliseconds until a write is retried: few at first, since a pipe has room again as soon as its reader runs. */
const retryMs = { first: 1, last: 100 };
/** How long the end of the process waits for a slow reader, in steps. */
const farewell = { steps: 100, stepMs: 10 };

/** The destination of lines, and its timers. */
interface LineTarget {
  /** Lines are written in pieces of at most so many bytes, each of whole lines; a longer line is a piece of its own. */
  readonly pieceBytes: number;
  /** Writes what fits without waiting; returns the number of bytes. Throws Node's error: EAGAIN where nothing fits. */
  write(piece: string | Uint8Array): number;
  /** Calls back once after some milliseconds, unless the returned function is called before. */
  after(delayMs: number, callback: () => void): () => void;
  /** Blocks the process. */
  sleep(ms: number): void;
}

/** Holds lines until they are written. */
export class LineBuffer {
  readonly #target: LineTarget;
  /** Whole lines that become the next piece. */
  #piece = '';
  #pieceBytes = 0;
  readonly #pieces: { data: string | Uint8Array; bytes: number }[] = [];
  #heldBytes = 0;
  /** Lines dropped in total, and since the last line that was taken. */
  #dropped = 0;
  #gap = 0;
  #tellGap: (lines: number) => void = () => {};
  /** Why the last write failed. */
  #fault: unknown;
  #retryMs = retryMs.first;
  #cancelTimer: (() => void) | undefined;
  #isOver = false;

  constructor(target: LineTarget) {
    this.#target = target;
  }

  /** How many lines were dropped in total. */
  get droppedLines(): number {
    return this.#dropped;
  }

  /** Sets the function that is called with the number of dropped lines when lines are taken again. It may write a line. */
  onGap(callback: (lines: number) => void): void {
    this.#tellGap = callback;
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.#gap > 0 || this.#heldBytes + bytes > heldBytesMax) {
      this.#dropped += 1;
      this.#gap += 1;
      return;
    }
    if (this.#pieceBytes + bytes > this.#target.pieceBytes) {
      this.#endPiece();
      if (this.#fault === undefined) this.#drain();
    }
    this.#piece += line;
    this.#pieceBytes += bytes;
    this.#heldBytes += bytes;
    if (this.#cancelTimer === undefined) this.#flush();
  }

  /** Writes the lines held now, as far as possible without waiting. */
  flush(): void {
    if (this.#fault === undefined && this.#heldBytes > 0) this.#flush();
  }

  /** Writes the lines held at the end of the process. A slow reader gets one second; lines that fail otherwise are lost. */
  finish(): void {
    this.#isOver = true;
    this.#flush();
    for (let step = 0; this.#heldBytes > 0 && step < farewell.steps; step += 1) {
      if (this.#fault !== undefined) {
        if ((this.#fault as NodeJS.ErrnoException).code !== 'EAGAIN') return;
        this.#target.sleep(farewell.stepMs);
      }
      this.#flush();
    }
  }

  #flush(): void {
    this.#endPiece();
    this.#drain();
    if (this.#fault === undefined) this.#wake(this.#pieces.length > 0 ? 0 : gatherMs);
  }

  #endPiece(): void {
    if (this.#pieceBytes === 0) return;
    this.#pieces.push({ data: this.#piece, bytes: this.#pieceBytes });
    this.#piece = '';
    this.#pieceBytes = 0;
  }

  /** Writes whole pieces as long as the target takes them. */
  #drain(): void {
    this.#fault = undefined;
    const end = this.#heldBytes - turnBytesMax;
    try {
      for (let next = this.#pieces[0]; next !== undefined && this.#heldBytes > end; next = this.#pieces[0]) {
        const written = this.#target.write(next.data);
        this.#heldBytes -= written;
        this.#retryMs = retryMs.first;
        if (written === next.bytes) this.#pieces.shift();
        else this.#pieces[0] = restOf(next.data, written);
      }
    } catch (error) {
      this.#fault = error;
      this.#wake(this.#retryMs);
      this.#retryMs = Math.min(2 * this.#retryMs, retryMs.last);
    }
    if (this.#gap > 0 && this.#heldBytes <= heldBytesMax / 2) {
      const lines = this.#gap;
      this.#gap = 0;
      this.#tellGap(lines);
    }
  }

  #wake(afterMs: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#isOver) return;
    this.#cancelTimer = this.#target.after(afterMs, () => {
      this.#cancelTimer = undefined;
      if (this.#heldBytes > 0) this.#flush();
    });
  }
}

function restOf(data: string | Uint8Array, written: number): { data: Uint8Array; bytes: number } {
  const rest = (typeof data === 'string' ? Buffer.from(data) : data).subarray(written);
  return { data: rest, bytes: rest.length };
}
