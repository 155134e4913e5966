/**
 * Reads and writes in the same tick. The system almost certainly has the bytes in memory, or only copies them there, and handing
 * such a call to the thread pool and back takes several times as long as the call.
 *
 * Node has no call that tells beforehand whether bytes are in memory, and a slow disk makes a write wait. So the cost of wrong
 * guesses is bounded (`TimeDebt`); beyond that the thread pool does the work. A block that this process has neither written nor
 * read before is read as a whole, because only the whole can be checked; of other blocks only the wanted pieces are read.
 * `CheckedPieces` remembers which pieces were found sound lately; `LentBuffers` reuses buffers.
 */

import type { writeFileSync } from 'node:fs';
import type { Span } from '../../../bytes/span.ts';
import type { MoveToSocket, ReadFileInto, ReadSync } from './file-system.ts';

/** Options of quick reads. */
export interface QuickReadOptions {
  /** Returns milliseconds, with fractions, that never go back. */
  readonly elapsed: () => number;
  readonly readSync: ReadSync;
  readonly readFileInto: ReadFileInto;
  /**
   * Calls `callback` after a delay, without keeping the process alive; returns a function that cancels it. For files that stay
   * open for later reads.
   */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  /** Returns how often the process has waited for a disk to read: see `TimeDebt`. */
  readonly diskReads?: (() => number) | undefined;
  /** Moves bytes that were checked lately into sockets, where the sockets allow that; undefined where nothing is moved. */
  readonly move?: MoveToSocket | undefined;
  /** Whether pieces that were found sound within the last minute are read without another check. */
  readonly trustsLateChecks?: boolean | undefined;
}

/** A read that takes no longer comes from memory, and is cheaper than a read by the thread pool, in milliseconds. */
const quickMs = 0.1;
/** Maximum number of blocks whose traces are remembered, at about 300 bytes each. */
const maxTraces = 32_768;
/** Number of block numbers that each generation has. Blocks beyond it get no trace. */
const blocksOfGeneration = 2 ** 26;
/** Maximum number of generations whose traces are found again when their files are opened again. */
const maxGenerations = 4096;

/** The quick reads of a store. */
export class QuickReads {
  /** The buffers that are read into. */
  readonly buffers = new LentBuffers();
  /** Pieces that need not be checked again before they are moved and, with `trustsLateChecks`, before they are returned. */
  readonly checked: CheckedPieces;
  readonly move: MoveToSocket | undefined;
  readonly trustsLateChecks: boolean;
  readonly #readSync: ReadSync;
  readonly #readFileInto: ReadFileInto;
  readonly #debt: TimeDebt;
  /** The traces by block number; the first one noted is forgotten first. */
  readonly #traces = new Map<number, Uint32Array>();
  /** The numbers of generations; the first one opened is forgotten first. */
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

  /** Returns the number of a generation. The traces of its blocks outlive its open file: the bytes of a generation never change. */
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

  /** Returns the number of a block, which no other block that has a trace shares. */
  blockNumber(generation: number, index: number): number {
    return generation * blocksOfGeneration + index;
  }

  /** Returns the trace of a block; undefined where it is not known (any more). */
  traceOf(generation: number, index: number): Uint32Array | undefined {
    return index < blocksOfGeneration ? this.#traces.get(this.blockNumber(generation, index)) : undefined;
  }

  /** Notes the trace of a block that was just written, or read and found sound. */
  noteTrace(generation: number, index: number, trace: Uint32Array): void {
    if (index >= blocksOfGeneration) return;
    const block = this.blockNumber(generation, index);
    this.checked.forget(block);
    this.#traces.set(block, trace);
    if (this.#traces.size <= maxTraces) return;
    const [first] = this.#traces.keys();
    if (first !== undefined) this.#forget(first);
  }

  /** Forgets the trace of a block that is no longer present. */
  forgetTrace(generation: number, index: number): void {
    if (index < blocksOfGeneration) this.#forget(this.blockNumber(generation, index));
  }

  /**
   * Fills `bytes` from a file; returns whether it could. Returns undefined where it was not tried, because reads have been slow
   * lately. Never throws.
   */
  read(fd: number, bytes: Uint8Array, position: number): boolean | undefined {
    return this.#tryRead(bytes.length, () => this.#readSync(fd, bytes, 0, bytes.length, position));
  }

  /**
   * As `read`, for a file of this size that is not open. Returns its bytes in memory of their own, which is allocated only where
   * the read is tried; undefined otherwise.
   */
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
      // A read of the whole block reports what is wrong.
      return false;
    }
  }

  #forget(block: number): void {
    this.checked.forget(block);
    this.#traces.delete(block);
  }
}

/** Options of quick writes. */
export interface QuickWriteOptions {
  /** Returns milliseconds, with fractions, that never go back. */
  readonly elapsed: () => number;
  /** `writeFileSync` of `node:fs`. */
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
   * Creates a file of these bytes, for this user alone; returns whether it did. Returns false when writes have been slow lately.
   * Throws the system's error; a part of the file may then exist.
   */
  create(path: string, bytes: Uint8Array): boolean {
    const write = () => {
      this.#writeFileSync(path, bytes, { flag: 'wx', mode: 0o600 });
      return true;
    };
    return this.#debt.afford(write) ?? false;
  }
}

/** How long a checked piece needs no other check, in milliseconds: the system has in memory what was read lately. */
const soundMs = 60_000;
/** Unit of the times at which pieces were checked, in milliseconds. */
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

/** Identifies a file and its last change; different for any other file or change. */
export type FileIdentity = string | object;

/** The checks of one block. */
interface Notes {
  readonly file: FileIdentity;
  /** When each piece was checked, in ticks; 0 for a piece that was not checked. */
  readonly checkedAt: Uint32Array;
}

/**
 * Remembers when pieces were checked, by block; 4 bytes for each piece. The times hold for one state of one file: a file that is
 * opened again under the same name may be another file, or may have changed.
 */
export class CheckedPieces {
  readonly #elapsed: () => number;
  readonly #startedAt: number;
  readonly #notes = new Map<number, Notes>();

  /** `elapsed` returns milliseconds that never go back. */
  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
    this.#startedAt = elapsed();
  }

  /**
   * Returns the pieces from `first` up to `end` (exclusive) that were not checked lately in this file, and those between them;
   * undefined where there are none.
   */
  uncheckedPieces(block: number, file: FileIdentity, first: number, end: number): Span | undefined {
    const notes = this.#notes.get(block);
    if (notes?.file !== file) return { start: first, end };
    const { checkedAt } = notes;
    // A tick that has begun counts as a whole one. Time 0, of a piece that was never checked, is always before `since`.
    const since = Math.max(1, this.#tick - soundMs / tickMs + 1);
    let start = first;
    while (start < end && (checkedAt[start] ?? 0) >= since) start += 1;
    if (start === end) return undefined;
    let stop = end;
    while ((checkedAt[stop - 1] ?? 0) >= since) stop -= 1;
    return { start, end: stop };
  }

  /** Notes that pieces of a block were just found sound in this file. The block has `pieceCount` pieces. */
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

/** Buffer sizes are powers of two from the first to the last of these, in bytes. Larger buffers are not reused. */
const minBytes = 8 * 1024;
const maxBytes = 512 * 1024;
/** Maximum size of all buffers that are ready for reuse, in bytes. */
const maxReadyBytes = 8 * 1024 * 1024;

/**
 * Reuses buffers. A new buffer of some tens of KiB costs more than filling it: the system provides it page by page, and the
 * garbage collector has to free it. A buffer that is never given back is collected like any other.
 */
export class LentBuffers {
  readonly #ready = new Map<number, ArrayBuffer[]>();
  readonly #lent = new WeakSet<ArrayBufferLike>();
  #readyBytes = 0;

  /** Returns bytes with arbitrary content, in a buffer that nothing else uses. */
  lend(sizeBytes: number): Buffer<ArrayBufferLike> {
    if (sizeBytes > maxBytes) return Buffer.allocUnsafeSlow(sizeBytes);
    const capacity = Math.max(minBytes, 2 ** Math.ceil(Math.log2(sizeBytes)));
    const ready = this.#ready.get(capacity)?.pop();
    if (ready !== undefined) this.#readyBytes -= capacity;
    const buffer = ready ?? Buffer.allocUnsafeSlow(capacity).buffer;
    this.#lent.add(buffer);
    return Buffer.from(buffer, 0, sizeBytes);
  }

  /** Takes back the buffer of these bytes, if it was lent here and was not given back before. */
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

/** Options of a time debt. */
interface TimeDebtOptions {
  /** Returns milliseconds, with fractions, that never go back. */
  readonly elapsed: () => number;
  /** A call that takes no longer adds no debt, in milliseconds. */
  readonly quickMs: number;
  /**
   * Returns a number that changes when the process has waited for a disk, as far as the system counts that. While it stays the
   * same, a slow call has most likely waited for the processor, which says nothing about the next call.
   */
  readonly waits?: (() => number) | undefined;
}

/** No call is made while the debt is this large, in milliseconds. */
const maxDebtMs = 20;
/** Share of the time that slow calls may cost. */
const debtShare = 0.02;
/** Share of the lost time that counts where nothing shows that it was lost to a disk. Not every file system is counted. */
const doubtfulShare = 0.1;

/**
 * The debt: the time by which calls were slower than they should be, paid off at a small rate. While the debt is too high no call
 * is made. So slow calls hold up the event loop for at most `debtShare` of the time, and once more for a single call that is slow
 * beyond measure.
 */
export class TimeDebt {
  readonly #options: TimeDebtOptions;
  #debtMs = 0;
  /** The last value of `waits`. */
  #waits: number | undefined;
  /** The time at which the debt was `#debtMs`, in milliseconds. */
  #at: number;

  constructor(options: TimeDebtOptions) {
    this.#options = options;
    this.#at = options.elapsed();
  }

  /** Makes a call, or returns undefined while the debt is too high. Throws what the call throws. */
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
