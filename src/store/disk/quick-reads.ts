/**
 * Reads in the same tick what the system has in memory almost certainly, for handing such a read to the thread pool and
 * back takes several times as long as the read.
 *
 * No system call of Node tells beforehand whether bytes are in memory, so what it costs to be wrong is bounded (see
 * `TimeDebt`); the thread pool reads then. Of a block that this process has neither written nor read before, all is read,
 * for only that can be checked; of others the pieces that are wanted.
 */

import { CheckedPieces } from './checked-pieces.ts';
import type { MoveToSocket, ReadFileInto, ReadSync } from './file-system.ts';
import { LentBuffers } from './lent-buffers.ts';
import { TimeDebt } from './time-debt.ts';

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
