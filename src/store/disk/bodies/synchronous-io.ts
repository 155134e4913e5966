/**
 * Reads and writes in the same tick. The system has the bytes in memory almost certainly, or only copies them there, and handing
 * such a call to the thread pool and back takes several times as long as the call.
 *
 * No system call of Node says beforehand whether bytes are in memory, and a slow disk makes a write wait; so what a wrong guess
 * may cost is bounded (`TimeDebt`), and beyond that the thread pool does the work. Of a block that this process has neither
 * written nor read before, all is read, because only the whole can be checked; of other blocks only the pieces that are wanted.
 * `CheckedPieces` remembers which pieces were found sound lately; `LentBuffers` uses buffers again.
 */

import type { writeFileSync } from 'node:fs';
import type { Span } from '../../../bytes/span.ts';
import type { MoveToSocket, ReadFileInto, ReadSync } from './file-system.ts';

/** What quick reads are made with. */
export interface QuickReadOptions {
  /** Milliseconds, in fractions, that never go back. */
  readonly elapsed: () => number;
  readonly readSync: ReadSync;
  readonly readFileInto: ReadFileInto;
  /** Waits without keeping the process alive; gives what ends the wait. For the files that stay open for reads to come. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  /** How often the process has waited for a disk to read: see `TimeDebt`. */
  readonly diskReads?: (() => number) | undefined;
  /** With it, what was checked lately is moved into sockets by the system, where those take that. */
  readonly move?: MoveToSocket | undefined;
  /** Whether what was found sound within the last minute is not checked again when it is read again. */
  readonly trustsLateChecks?: boolean | undefined;
}

/** A read that takes no longer comes from memory, and is cheaper than one by the thread pool, in milliseconds. */
const quickMs = 0.1;
/** Of so many blocks it is remembered how their pieces are checked, which takes about 300 bytes for each. */
const maxTraces = 32_768;
/** A generation has its traces under numbers of its own; blocks beyond so many are not read like this. */
const blocksOfGeneration = 2 ** 26;
/** Of so many generations the traces are found again when their files are opened anew. */
const maxGenerations = 4096;

/** The quick reads of a store. */
export class QuickReads {
  /** What is read into. */
  readonly buffers = new LentBuffers();
  /** What need not be checked again before it is moved, and where `trustsLateChecks` is set, before it is read. */
  readonly checked: CheckedPieces;
  readonly move: MoveToSocket | undefined;
  readonly trustsLateChecks: boolean;
  readonly #readSync: ReadSync;
  readonly #readFileInto: ReadFileInto;
  readonly #debt: TimeDebt;
  /** By generation and block; the one that came first goes first. */
  readonly #traces = new Map<number, Uint32Array>();
  /** The numbers of generations; the one that was opened first goes first. */
  readonly #numbers = new Map<string, number>();
  #count = 0;

  constructor({ elapsed, readSync, readFileInto, diskReads, move, trustsLateChecks = false }: QuickReadOptions) {
    this.move = move;
    this.trustsLateChecks = trustsLateChecks;
    this.checked = new CheckedPieces(elapsed);
    this.#readSync = readSync;
    this.#readFileInto = readFileInto;
    this.#debt = new TimeDebt({ elapsed, quickMs, waits: diskReads });
  }

  /**
   * A number for a generation. What is known of its blocks outlives its file: bytes are the same whenever they are read, and
   * checked each time.
   */
  numberOf(generation: string): number {
    const known = this.#numbers.get(generation);
    if (known !== undefined) return known;
    this.#count += 1;
    this.#numbers.set(generation, this.#count);
    if (this.#numbers.size > maxGenerations) {
      const [first] = this.#numbers.keys();
      if (first !== undefined) this.#numbers.delete(first);
    }
    return this.#count;
  }

  /** A number for a block, which no other one has of those that have traces. */
  blockNumber(generation: number, index: number): number {
    return generation * blocksOfGeneration + index;
  }

  /** How the pieces of a block are checked; undefined where that is not known (any more). */
  traceOf(generation: number, index: number): Uint32Array | undefined {
    return index < blocksOfGeneration ? this.#traces.get(this.blockNumber(generation, index)) : undefined;
  }

  /** Notes how the pieces of a block are checked that has just been read and is sound. */
  noteTrace(generation: number, index: number, trace: Uint32Array): void {
    if (index >= blocksOfGeneration) return;
    const block = this.blockNumber(generation, index);
    this.checked.forget(block);
    this.#traces.set(block, trace);
    if (this.#traces.size <= maxTraces) return;
    const [first] = this.#traces.keys();
    if (first !== undefined) this.#forget(first);
  }

  /** Forgets a block that is not there any more. */
  forgetTrace(generation: number, index: number): void {
    if (index < blocksOfGeneration) this.#forget(this.blockNumber(generation, index));
  }

  /**
   * Fills the bytes from a file; tells whether it could. Undefined where it was not tried because reads have been slow lately.
   * Never throws.
   */
  read(fd: number, bytes: Uint8Array, position: number): boolean | undefined {
    return this.#tryRead(bytes.length, () => this.#readSync(fd, bytes, 0, bytes.length, position));
  }

  /** As `read`, a file that is not open and has so many bytes. They are in memory of their own, which is taken only where it is tried. */
  readFile(path: string, sizeBytes: number): Uint8Array | undefined {
    let bytes: Uint8Array | undefined;
    const read = () => {
      bytes = Buffer.allocUnsafeSlow(sizeBytes);
      return this.#readFileInto(path, bytes);
    };
    return this.#tryRead(sizeBytes, read) === true ? bytes : undefined;
  }

  #tryRead(sizeBytes: number, read: () => number): boolean | undefined {
    try {
      const count = this.#debt.afford(read);
      return count === undefined ? undefined : count === sizeBytes;
    } catch {
      // Whoever reads the block as a whole learns what is wrong.
      return false;
    }
  }

  #forget(block: number): void {
    this.checked.forget(block);
    this.#traces.delete(block);
  }
}

/** What quick writes are made with. */
export interface QuickWriteOptions {
  /** Milliseconds, in fractions, that never go back. */
  readonly elapsed: () => number;
  /** That of `node:fs`. */
  readonly writeFileSync: typeof writeFileSync;
}

/** A write that takes no longer has not waited for the disk, in milliseconds. */
const quickWriteMs = 1;

/** The quick writes of a store. */
export class QuickWrites {
  readonly #writeFileSync: typeof writeFileSync;
  readonly #debt: TimeDebt;

  constructor({ elapsed, writeFileSync }: QuickWriteOptions) {
    this.#writeFileSync = writeFileSync;
    this.#debt = new TimeDebt({ elapsed, quickMs: quickWriteMs });
  }

  /**
   * Creates a file of these bytes, for this user alone; tells whether it did. It does not when writes have been slow
   * lately. Throws the system's error; a part of the file may be there then.
   */
  create(path: string, bytes: Uint8Array): boolean {
    const write = () => {
      this.#writeFileSync(path, bytes, { flag: 'wx', mode: 0o600 });
      return true;
    };
    return this.#debt.afford(write) ?? false;
  }
}

/** For no longer than this a piece is not checked again, in milliseconds: what was read lately, the system has in memory. */
const soundMs = 60_000;
/** The unit in which it is noted when that was, in milliseconds. */
const tickMs = 100;
/**
 * The checks of some blocks count as up to so many ticks older than they are. Blocks that were checked in one burst are then
 * checked again over half a minute and not in another burst, which would delay all requests of that moment.
 */
const spreadTicks = soundMs / tickMs / 2;

/** By how many ticks the checks of a block count as older. The multiplication spreads neighbours (Knuth's multiplicative hashing). */
function headStart(block: number): number {
  return (Math.imul(block, 0x9e3779b1) >>> 0) % spreadTicks;
}

/** Which file it is, and since which change: the same for no other one. */
export type FileIdentity = string | object;

/** What is known of a block. */
interface Notes {
  readonly file: FileIdentity;
  /** When each piece was checked, in ticks; 0 for those that were not. */
  readonly checkedAt: Uint32Array;
}

/**
 * Notes of pieces by block, 4 bytes for each piece. They are of one file as it is: one that is opened anew under the same name
 * may be another one, or have been changed.
 */
export class CheckedPieces {
  readonly #elapsed: () => number;
  readonly #startedAt: number;
  readonly #notes = new Map<number, Notes>();

  /** `elapsed` tells milliseconds that never go back. */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
    this.#startedAt = elapsed();
  }

  /** Those pieces from `first` up to `end` (exclusive), and what lies between them, that were not checked lately in this file. */
  doubtful(block: number, file: FileIdentity, first: number, end: number): Span | undefined {
    const notes = this.#notes.get(block);
    if (notes?.file !== file) return { start: first, end };
    const { checkedAt } = notes;
    // A tick that has begun counts as a whole one; what was never checked was so before anything.
    const since = Math.max(1, this.#tick - soundMs / tickMs + 1);
    let start = first;
    while (start < end && (checkedAt[start] ?? 0) >= since) start += 1;
    if (start === end) return undefined;
    let stop = end;
    while ((checkedAt[stop - 1] ?? 0) >= since) stop -= 1;
    return { start, end: stop };
  }

  /** Notes that some of so many pieces of a block have just been found sound in this file. */
  note(block: number, file: FileIdentity, { start, end }: Span, pieceCount: number): void {
    let notes = this.#notes.get(block);
    if (notes?.file !== file) {
      notes = { file, checkedAt: new Uint32Array(pieceCount) };
      this.#notes.set(block, notes);
    }
    notes.checkedAt.fill(this.#tick - headStart(block), start, end);
  }

  /** Forgets a block. */
  forget(block: number): void {
    this.#notes.delete(block);
  }

  get #tick(): number {
    return Math.floor((this.#elapsed() - this.#startedAt) / tickMs) + spreadTicks + 1;
  }
}

/** The sizes of buffers: powers of two from the first to the last, in bytes. What is larger is not kept for later. */
const minBytes = 8 * 1024;
const maxBytes = 512 * 1024;
/** What lies ready takes at most so many bytes. */
const maxReadyBytes = 8 * 1024 * 1024;

/**
 * A fresh buffer of some ten KiB costs more than to fill it: the system gives it page by page, and the collector has to see
 * that it goes. One that is never given back is collected like any other.
 */
export class LentBuffers {
  readonly #ready = new Map<number, ArrayBuffer[]>();
  readonly #lent = new WeakSet<ArrayBufferLike>();
  #readyBytes = 0;

  /** Bytes of whatever content, in a buffer that nobody else has. */
  lend(sizeBytes: number): Buffer<ArrayBufferLike> {
    if (sizeBytes > maxBytes) return Buffer.allocUnsafeSlow(sizeBytes);
    const capacity = Math.max(minBytes, 2 ** Math.ceil(Math.log2(sizeBytes)));
    const ready = this.#ready.get(capacity)?.pop();
    if (ready !== undefined) this.#readyBytes -= capacity;
    const buffer = ready ?? Buffer.allocUnsafeSlow(capacity).buffer;
    this.#lent.add(buffer);
    return Buffer.from(buffer, 0, sizeBytes);
  }

  /** Takes back the buffer of these bytes, if it was lent from here and is out still. */
  giveBack({ buffer }: Uint8Array): void {
    if (!(buffer instanceof ArrayBuffer) || !this.#lent.delete(buffer)) return;
    const capacity = buffer.byteLength;
    if (this.#readyBytes + capacity > maxReadyBytes) return;
    this.#readyBytes += capacity;
    const ready = this.#ready.get(capacity);
    if (ready === undefined) this.#ready.set(capacity, [buffer]);
    else ready.push(buffer);
  }
}

/** What a debt is kept with. */
interface TimeDebtOptions {
  /** Milliseconds, in fractions, that never go back. */
  readonly elapsed: () => number;
  /** A call that takes no longer owes nothing, in milliseconds. */
  readonly quickMs: number;
  /**
   * A number that changes when the process has waited for a disk, as far as the system counts that. While it stays the same,
   * a call that took long has most likely waited for the processor, which says nothing about the next one.
   */
  readonly waits?: (() => number) | undefined;
}

/** No call is made while so much is owed, in milliseconds. */
const maxDebtMs = 20;
/** So much of the time may be lost. */
const debtShare = 0.02;
/** What was lost counts for so much where nothing says that it was lost to a disk. Not every file system is counted. */
const doubtfulShare = 0.1;

/**
 * The debt: the time that calls took longer than they should, paid off at a small rate. While it is too high none is made,
 * so that the event loop is held up for `debtShare` of the time at most, and once by a single call that is slow beyond
 * measure.
 */
export class TimeDebt {
  readonly #options: TimeDebtOptions;
  #debtMs = 0;
  /** What `waits` told last. */
  #waits: number | undefined;
  /** When the debt was what it says. */
  #at: number;

  constructor(options: TimeDebtOptions) {
    this.#options = options;
    this.#at = options.elapsed();
  }

  /** Makes a call unless too much is owed; undefined then. Throws what the call throws. */
  afford<T>(call: () => T): T | undefined {
    const { elapsed, quickMs } = this.#options;
    const startedAt = elapsed();
    if (this.#debtAfter(startedAt) >= maxDebtMs) return undefined;
    try {
      return call();
    } finally {
      const endedAt = elapsed();
      const lostMs = endedAt - startedAt - quickMs;
      if (lostMs > 0) this.#owe(lostMs, endedAt);
    }
  }

  #owe(lostMs: number, at: number): void {
    const waits = this.#options.waits?.();
    const isDoubtful = waits !== undefined && waits === this.#waits;
    this.#waits = waits;
    this.#debtMs = this.#debtAfter(at) + lostMs * (isDoubtful ? doubtfulShare : 1);
    this.#at = at;
  }

  #debtAfter(at: number): number {
    return Math.max(0, this.#debtMs - (at - this.#at) * debtShare);
  }
}
