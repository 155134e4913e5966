/**
 * One body in a file: its blocks at their offsets, and their checksums. `BlockFile` reads, checks and writes; `QuickFile` reads
 * in the same tick, and moves bytes into a socket (sendfile). Also what an error of the file system means for the body.
 */

import { spanOfBlock, spanSize } from '../../../bytes/span.ts';
import { ProxyError } from '../../../http/proxy-error.ts';
import {
  type BlockSum,
  encodeSum,
  isOnTrace,
  isSameSum,
  pieceBytes,
  Sidecar,
  sumOf,
  sumsSizeBytes,
  tracedSumOf,
} from './block-sums.ts';
import {
  type FileSystem,
  fileVersion,
  NotAFile,
  type OpenFile,
  openFile,
  readFully,
  systemCode,
  writeFully,
} from './file-system.ts';
import type { FileIdentity, QuickReads } from './synchronous-io.ts';

/** The unit in which stat(2) tells what a file takes on the disk, in bytes. */
const statBlockBytes = 512;

/** Where the two files of a generation are. */
interface BlockFilePaths {
  readonly body: string;
  readonly sums: string;
}

/** A block that somebody wanted to read and that is not there. */
export interface LostBlock {
  readonly generation: string;
  readonly detail: string;
  /** Whether the sidecar said that it was there. */
  readonly isDamaged: boolean;
}

/** What the files of a generation are opened with. */
export interface BlockFileOptions extends BodyListeners {
  readonly generation: string;
  readonly blockSizeBytes: number;
  readonly fileSystem: FileSystem;
  readonly paths: BlockFilePaths;
  /** Whether other processes may write into the files too: what a sidecar has not said, it may say later. */
  readonly isShared?: boolean;
  /** With them, pieces of blocks that were checked before are read in the same tick. */
  readonly quickReads?: QuickReads | undefined;
  /** Is told when a block turns out to be absent, once for each that is damaged. */
  readonly onBlockLost: (lost: LostBlock) => void;
}

/**
 * An open body, shared by all who read and write it. Every block that is read is checked against its checksum; one that
 * does not match is absent from then on, here and in the sidecar.
 */
export class BlockFile {
  readonly generation: string;
  readonly #options: BlockFileOptions;
  readonly #file: OpenFile;
  readonly #sums: Sidecar;
  readonly #lost = new Set<number>();
  /** Those of them of which the sidecar may still say what it said before. */
  readonly #unerased = new Set<number>();
  readonly #reading = new Set<Promise<unknown>>();
  /** What quick reads know it as. */
  readonly #number: number;
  readonly #quick: QuickFile | undefined;
  #sizeBytes: number | undefined;
  #erasing: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /**
   * Takes over a file that was opened, what its sidecar says, its whole length where it is known, and its version where it
   * was not created just now.
   */
  constructor(options: BlockFileOptions, file: OpenFile, sums: Sidecar, sizeBytes?: number, version?: string) {
    this.generation = options.generation;
    this.#options = options;
    this.#file = file;
    this.#sums = sums;
    this.#sizeBytes = sizeBytes;
    const { quickReads, blockSizeBytes } = options;
    this.#number = quickReads?.numberOf(options.generation) ?? 0;
    const sizeOfBlock = (index: number) => {
      if (!sums.knows(index)) this.#loadSumForLater(index);
      return sums.get(index)?.sizeBytes ?? 0;
    };
    const checksumOf = (index: number) => {
      const sum = sums.get(index);
      return this.#fits(index, sum) ? sum.checksum : undefined;
    };
    const checkBlock = (index: number, bytes: Uint8Array) =>
      this.has(index) && this.#isSound(index, sums.get(index), bytes);
    const identity = version ?? this;
    const body = { fd: file.fd, identity, number: this.#number, blockSizeBytes, sizeOfBlock, checksumOf, checkBlock };
    this.#quick = quickReads && new QuickFile(body, quickReads);
  }

  /**
   * Opens the body of an entry for reading, which costs the same however long it is. Throws `ProxyError` `bytes_gone`.
   */
  static async open(options: BlockFileOptions, sizeBytes: number): Promise<BlockFile> {
    const { fileSystem, paths, blockSizeBytes, isShared } = options;
    let file: OpenFile | undefined;
    try {
      file = await openFile(fileSystem, paths.body, 'read');
      const sums = await Sidecar.open(fileSystem, paths.sums, Math.ceil(sizeBytes / blockSizeBytes), isShared);
      const { move, trustsLateChecks = false } = options.quickReads ?? {};
      // Otherwise nothing is noted as checked.
      const version = move !== undefined || trustsLateChecks ? await fileVersion(file) : undefined;
      return new BlockFile(options, file, sums, sizeBytes, version);
    } catch (error) {
      await file?.close();
      throw lostBody(options.generation, options, error);
    }
  }

  /** Opens a body that is one block, the sum of which is known, for reading. Throws `ProxyError` `bytes_gone`. */
  static async openLone(options: BlockFileOptions, sum: BlockSum): Promise<BlockFile> {
    try {
      const file = await openFile(options.fileSystem, options.paths.body, 'read');
      const sums = Sidecar.empty();
      sums.set(0, sum);
      return new BlockFile(options, file, sums, sum.sizeBytes);
    } catch (error) {
      throw lostBody(options.generation, options, error);
    }
  }

  /** Finds out about all blocks, for those who write. Throws `ProxyError` `bytes_gone`. */
  async loadSums(): Promise<void> {
    try {
      await this.#sums.loadAll();
    } catch (error) {
      throw lostBody(this.generation, this.#options, error);
    }
    const blockCount = Math.ceil((this.#sizeBytes ?? 0) / this.#options.blockSizeBytes);
    if (this.#options.isShared === true && blockCount > 0) await this.#learn(0, blockCount);
  }

  /** Whether a block is there, as far as is known without reading it; needs `loadSums` in a file that was opened. */
  has(index: number): boolean {
    return this.#fits(index, this.#sums.get(index));
  }

  /** What it takes on the disk now, in bytes; 0 where the system cannot tell. */
  async allocatedBytes(): Promise<number> {
    const stats = await this.#file.stat().catch(() => undefined);
    return (stats?.blocks ?? 0) * statBlockBytes;
  }

  /** Whether it is, or may be, of more than one block. */
  get isLong(): boolean {
    return this.#sizeBytes === undefined || this.#sizeBytes > this.#options.blockSizeBytes;
  }

  /** Whether a block was there, and turned out to be damaged. */
  hasLost(index: number): boolean {
    return this.#lost.has(index);
  }

  /** Reads a block and checks it. Throws `ProxyError` `bytes_gone` when it is absent, damaged or cannot be read. */
  async read(index: number): Promise<Uint8Array> {
    const { generation } = this.#options;
    if (this.#closing !== undefined) throw gone(`Generation ${generation} was closed.`);
    if (this.#expectedSize(index) === 0) throw gone(`There is no block ${index} in generation ${generation}.`);
    return await this.#noteReading(this.#read(index));
  }

  /** The file stays open until it is over. */
  async #noteReading<T>(reading: Promise<T>): Promise<T> {
    this.#reading.add(reading);
    try {
      return await reading;
    } finally {
      this.#reading.delete(reading);
    }
  }

  async #read(index: number): Promise<Uint8Array> {
    const { generation, blockSizeBytes } = this.#options;
    const name = `Block ${index} of generation ${generation}`;
    if (!this.#sums.knows(index)) await this.#loadSum(index);
    if (this.#options.isShared === true && !this.has(index)) await this.#learn(index, index + 1);
    const sum = this.#sums.get(index);
    if (!this.#fits(index, sum)) throw this.#lose(index, sum, `${name} is not in the sidecar.`);
    try {
      const bytes = Buffer.allocUnsafeSlow(sum.sizeBytes);
      const count = await readFully(this.#file, bytes, index * blockSizeBytes);
      if (this.#isSound(index, sum, bytes.subarray(0, count))) return bytes;
    } catch (error) {
      if (isPassing(error)) throw gone(`${name} cannot be read now: ${String(error)}`, error);
      throw this.#lose(index, sum, `${name} cannot be read: ${String(error)}`, error);
    }
    throw this.#lose(index, sum, `${name} does not match its checksum.`);
  }

  /** What is read, or moved, in the same tick; undefined where nothing is. To be used in this tick only. */
  get quick(): QuickFile | undefined {
    return this.#closing === undefined ? this.#quick : undefined;
  }

  /** The sum of a block that is about to be written. Whoever wants to read a body of one block soon has it in memory. */
  sumOf(index: number, bytes: Uint8Array): BlockSum {
    const { generation, quickReads } = this.#options;
    return (quickReads === undefined || !this.isLong ? sumOf : tracedSumOf)(generation, index, bytes);
  }

  /** Notes what was written of a block: from now on it is there. */
  note(index: number, sum: BlockSum): void {
    this.#noteTrace(index, sum);
    this.#sums.set(index, sum);
    this.#lost.delete(index);
  }

  /** Notes how long the whole is, when that was not known before. */
  end(sizeBytes: number): void {
    this.#sizeBytes = sizeBytes;
  }

  /** Resolves when the sidecar says of lost blocks that they are absent. Only then they may be written anew. */
  whenErased(): Promise<void> {
    return this.#erasing;
  }

  /** Closes the file when what is being read has been read. Never rejects. */
  close(): Promise<void> {
    // An error here says that written bytes were lost; their checksums will tell.
    this.#closing ??= Promise.allSettled(this.#reading)
      .then(() => this.#erasing)
      .then(() => Promise.allSettled([this.#file.close(), this.#sums.close()]))
      .then(() => {});
    return this.#closing;
  }

  async #loadSum(index: number): Promise<void> {
    try {
      await this.#sums.load(index);
    } catch (error) {
      throw lostBody(this.generation, this.#options, error);
    }
  }

  /** Finds out about a block for whoever asks for it again: who has its bytes in memory reads none of the file. */
  #loadSumForLater(index: number): void {
    // Whoever reads the block learns why it cannot be known.
    if (this.#closing === undefined) this.#noteReading(this.#sums.load(index)).catch(() => {});
  }

  /** Learns which blocks another process has written since. What cannot be learned stays absent here. */
  async #learn(start: number, end: number): Promise<void> {
    const { fileSystem, paths } = this.#options;
    const reopen = () => openFile(fileSystem, paths.sums, 'read');
    const sums = await this.#sums.readAgain(start, end, reopen).catch(() => undefined);
    for (let index = start; sums !== undefined && index < end; index += 1) {
      const sum = sums.get(index - start);
      if (sum !== undefined && !this.has(index) && !this.#unerased.has(index)) this.note(index, sum);
    }
  }

  /** Whether the bytes that were read of a block have its checksum. */
  #isSound(index: number, sum: BlockSum | undefined, bytes: Uint8Array): boolean {
    const { generation, quickReads } = this.#options;
    const read = (quickReads === undefined ? sumOf : tracedSumOf)(generation, index, bytes);
    if (!isSameSum(sum, read)) return false;
    // Unless it was lost meanwhile, or written anew.
    if (isSameSum(sum, this.#sums.get(index))) this.#noteTrace(index, read);
    return true;
  }

  #noteTrace(index: number, { trace }: BlockSum): void {
    if (trace === undefined) this.#options.quickReads?.forgetTrace(this.#number, index);
    else this.#options.quickReads?.noteTrace(this.#number, index, trace);
  }

  #fits(index: number, sum: BlockSum | undefined): sum is BlockSum {
    return sum !== undefined && sum.sizeBytes === (this.#expectedSize(index) ?? sum.sizeBytes);
  }

  /** How long a block must be; 0 when there is none of this index, undefined while that is not known. */
  #expectedSize(index: number): number | undefined {
    if (this.#sizeBytes === undefined) return undefined;
    if (index < 0) return 0;
    return Math.max(0, spanSize(spanOfBlock(index, this.#options.blockSizeBytes, this.#sizeBytes)));
  }

  /** Makes a block absent, unless somebody did before or has written it anew. Gives what to throw. */
  #lose(index: number, sum: BlockSum | undefined, detail: string, cause?: unknown): ProxyError {
    const { generation } = this.#options;
    if (isSameSum(sum, this.#sums.get(index))) {
      if (sum !== undefined) this.#erase(index);
      this.#options.onBlockLost({ generation, detail, isDamaged: sum !== undefined });
    }
    return gone(detail, cause);
  }

  #erase(index: number): void {
    const { fileSystem, paths } = this.#options;
    this.#options.quickReads?.forgetTrace(this.#number, index);
    this.#sums.set(index, undefined);
    this.#lost.add(index);
    this.#unerased.add(index);
    const erase = () => eraseSum(fileSystem, paths.sums, index).then(() => void this.#unerased.delete(index));
    // What the sidecar cannot be told is found out again by the next one who reads the block.
    this.#erasing = this.#erasing.then(erase).catch(() => {});
  }
}

async function eraseSum(fileSystem: FileSystem, path: string, index: number): Promise<void> {
  const file = await openFile(fileSystem, path, 'write');
  try {
    await writeFully(file, encodeSum(undefined), sumsSizeBytes(index));
  } finally {
    await file.close();
  }
}

/** An open body, as far as it is read in the same tick. */
interface QuickBody {
  /** Its descriptor. Who closes it gives out nothing that uses it from then on. */
  readonly fd: number;
  /** What its pieces are noted for as checked. */
  readonly identity: FileIdentity;
  /** What quick reads know its generation as. */
  readonly number: number;
  readonly blockSizeBytes: number;
  /** The length of a block that is there, in bytes; 0 of one that is not. */
  sizeOfBlock(index: number): number;
  /** The checksum of a block, as its sidecar has it; undefined of one that is not there, or of another length. */
  checksumOf(index: number): number | undefined;
  /** Whether these are all the bytes of a block, as its checksum says; notes how its pieces are checked. */
  checkBlock(index: number, bytes: Uint8Array): boolean;
}

/** Bytes that lie in one block. */
interface Place {
  readonly index: number;
  /** Where the block begins in the file, in bytes. */
  readonly blockStart: number;
  /** Where the bytes end in the block, in bytes. */
  readonly stop: number;
  /** The first piece that they lie in, and the one after the last. */
  readonly firstPiece: number;
  readonly endPiece: number;
  readonly sizeBytes: number;
}

/** Of a block that is larger, in bytes, not all is read in the same tick: to check it takes as long as some requests do. */
const maxWholeBytes = 512 * 1024;

/** So much is moved at once at most, in bytes: others wait for their turn. */
const movedBytes = 1024 * 1024;

/** Each time that so much was moved, in bytes, a piece of it is checked again: that costs a few microseconds. */
const recheckedBytes = 512 * 1024;

/** Reads and moves. Never throws. */
class QuickFile {
  readonly #body: QuickBody;
  readonly #quickReads: QuickReads;
  /** Bytes that were moved since a piece was checked again. */
  #movedBytes = 0;
  /** Where in the bytes that are moved the next piece is checked again, from 0 up to 1. */
  #recheckAt = 0;

  constructor(body: QuickBody, quickReads: QuickReads) {
    this.#body = body;
    this.#quickReads = quickReads;
  }

  /**
   * Bytes from `offset` on, up to `end` (exclusive) and at most to the end of their block: the pieces that they lie in are
   * read, and checked unless that was done lately; all of the block where this process does not know yet how they are checked.
   * Undefined where that is not possible, or not known to be quick.
   */
  read(offset: number, end: number): Uint8Array | undefined {
    const place = this.#placeOf(offset, end);
    const bytes = place && this.#readPieces(place);
    const start = (place?.firstPiece ?? 0) * pieceBytes;
    return place && bytes?.subarray(offset - place.blockStart - start, place.stop - start);
  }

  /**
   * Whether all bytes from `offset` up to `end` (exclusive) could be moved now: they were checked lately, or have just
   * been checked for it.
   */
  canMove(offset: number, end: number): boolean {
    return this.#quickReads.move !== undefined && this.#soundEnd(offset, end) === end;
  }

  /**
   * Has the system put `head` into a socket, and then bytes of the file from `offset` on, up to `end` (exclusive), as far as
   * they can be moved. Gives how many of both, together, the socket took.
   */
  move(socket: number, head: Uint8Array, offset: number, end: number): number {
    if (this.#quickReads.move === undefined) return 0;
    return this.moveSound(socket, head, offset, this.#soundEnd(offset, Math.min(end, offset + movedBytes)));
  }

  /** As `move`, of bytes of which `canMove` has told in this tick that they can be moved. */
  moveSound(socket: number, head: Uint8Array, offset: number, end: number): number {
    const { move } = this.#quickReads;
    if (move === undefined || end <= offset) return 0;
    const taken = move(socket, head, this.#body.fd, offset, end - offset);
    this.#recheck(offset, taken - head.length);
    return taken;
  }

  /**
   * Checks a piece of what was moved again, once in a while, so that damage to what is sent over and over is found before
   * its minute is over: nothing of its block is moved then. The golden ratio spreads the places evenly over the bytes.
   */
  #recheck(offset: number, sizeBytes: number): void {
    if (sizeBytes <= 0) return;
    this.#movedBytes += sizeBytes;
    if (this.#movedBytes < recheckedBytes) return;
    this.#movedBytes = 0;
    this.#recheckAt = (this.#recheckAt + (Math.sqrt(5) - 1) / 2) % 1;
    const at = offset + Math.floor(this.#recheckAt * sizeBytes);
    const place = this.#placeOf(at, at + 1);
    if (place === undefined || this.#quickReads.traceOf(this.#body.number, place.index) === undefined) return;
    const bytes = this.#readPieces(place, true);
    if (bytes !== undefined) this.#quickReads.buffers.giveBack(bytes);
  }

  /** Up to where the bytes from `offset` on are sound, at most `end`. What was not checked lately is checked. */
  #soundEnd(offset: number, end: number): number {
    let at = offset;
    while (at < end) {
      const place = this.#placeOf(at, end);
      if (place === undefined || !this.#isSound(place)) break;
      at = place.blockStart + place.stop;
    }
    return at;
  }

  #isSound(place: Place): boolean {
    const { checked, buffers } = this.#quickReads;
    const block = this.#quickReads.blockNumber(this.#body.number, place.index);
    const doubtful = checked.doubtful(block, this.#body.identity, place.firstPiece, place.endPiece);
    if (doubtful === undefined) return this.#traceOf(place.index) !== undefined;
    const { start: firstPiece, end: endPiece } = doubtful;
    const bytes = this.#readPieces({ ...place, firstPiece, endPiece });
    if (bytes === undefined) return false;
    buffers.giveBack(bytes);
    checked.note(block, this.#body.identity, doubtful, Math.ceil(place.sizeBytes / pieceBytes));
    return true;
  }

  /** How the pieces of a block are checked, where that is known and what the sidecar says now agrees with it. */
  #traceOf(index: number): Uint32Array | undefined {
    const trace = this.#quickReads.traceOf(this.#body.number, index);
    return trace !== undefined && trace[trace.length - 1] === this.#body.checksumOf(index) ? trace : undefined;
  }

  #placeOf(offset: number, end: number): Place | undefined {
    const { blockSizeBytes } = this.#body;
    const index = Math.floor(offset / blockSizeBytes);
    const blockStart = index * blockSizeBytes;
    const sizeBytes = this.#body.sizeOfBlock(index);
    const stop = Math.min(end - blockStart, sizeBytes);
    if (stop <= offset - blockStart) return undefined;
    const firstPiece = Math.floor((offset - blockStart) / pieceBytes);
    return { index, blockStart, stop, firstPiece, endPiece: Math.ceil(stop / pieceBytes), sizeBytes };
  }

  /** Whether the bytes, which were just read from the pieces of a block, are sound; by a new check where one is wanted. */
  #areSound(
    { index, firstPiece, endPiece, sizeBytes }: Place,
    trace: Uint32Array,
    bytes: Uint8Array,
    wantsCheck: boolean,
  ): boolean {
    const { checked, trustsLateChecks } = this.#quickReads;
    const block = this.#quickReads.blockNumber(this.#body.number, index);
    if (wantsCheck || !trustsLateChecks) return isOnTrace(trace, firstPiece, bytes);
    if (checked.doubtful(block, this.#body.identity, firstPiece, endPiece) === undefined) return true;
    if (!isOnTrace(trace, firstPiece, bytes)) return false;
    const pieces = { start: firstPiece, end: endPiece };
    checked.note(block, this.#body.identity, pieces, Math.ceil(sizeBytes / pieceBytes));
    return true;
  }

  /** All bytes of the pieces, sound, in a lent buffer. */
  #readPieces(place: Place, wantsCheck = false): Buffer | undefined {
    const { index, blockStart, firstPiece, endPiece, sizeBytes } = place;
    const { buffers } = this.#quickReads;
    const trace = this.#traceOf(index);
    if (trace === undefined) return this.#readWhole(place);
    const start = firstPiece * pieceBytes;
    const bytes = buffers.lend(Math.min(endPiece * pieceBytes, sizeBytes) - start);
    const isRead = this.#quickReads.read(this.#body.fd, bytes, blockStart + start);
    if (isRead === true && this.#areSound(place, trace, bytes, wantsCheck)) return bytes;
    buffers.giveBack(bytes);
    // What does not match is left to whoever reads the block as a whole, who finds it out once more and tells. Until then
    // nothing of it is moved, whatever was found before.
    if (isRead !== undefined) this.#quickReads.checked.forget(this.#quickReads.blockNumber(this.#body.number, index));
    return undefined;
  }

  /** As `#readPieces`, of a block that can be checked as a whole only. */
  #readWhole({ index, blockStart, firstPiece, endPiece, sizeBytes }: Place): Buffer | undefined {
    if (sizeBytes > maxWholeBytes) return undefined;
    const { buffers } = this.#quickReads;
    const bytes = buffers.lend(sizeBytes);
    const isRead = this.#quickReads.read(this.#body.fd, bytes, blockStart);
    if (isRead && this.#body.checkBlock(index, bytes))
      return bytes.subarray(firstPiece * pieceBytes, Math.min(endPiece * pieceBytes, sizeBytes));
    buffers.giveBack(bytes);
    return undefined;
  }
}

/** Who is told of it. */
interface BodyListeners {
  /** Is told when the body cannot be opened, or its sidecar cannot be read, because they are damaged or gone. */
  readonly onBodyLost: (generation: string, detail: string) => void;
  /** Is told when something of a body that is of no use any more cannot be removed. */
  readonly onNotRemoved: (path: string, error: unknown) => void;
  /** Is told when they cannot be opened or read now, which says nothing about them. */
  readonly onBodyClosed: (detail: string) => void;
}

/** Errors of the system that say nothing about a file: there are too few of something to read it now, or it is not allowed. */
const passingCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EACCES', 'EPERM']);

/** Errors of the system that say that there is no file, or something else in its place. */
const absentCodes: ReadonlySet<string> = new Set(['ENOENT', 'EISDIR', 'ELOOP', 'ENXIO', 'ENODEV', 'ENOTDIR']);

/** Whether an error says that there is no file, or something else in its place: a directory, a link, a pipe, a device. */
export function isAbsence(error: unknown): boolean {
  return error instanceof NotAFile || absentCodes.has(systemCode(error) ?? '');
}

/** Tells that nothing of a body can be had, unless that may be otherwise later. Gives what to throw. */
function lostBody(generation: string, listeners: BodyListeners, error: unknown): ProxyError {
  const detail = `Generation ${generation} cannot be opened: ${String(error)}`;
  if (isPassing(error)) listeners.onBodyClosed(detail);
  else listeners.onBodyLost(generation, detail);
  return gone(detail, error);
}

/** Whether an error says that something cannot be had now, and nothing about it. */
function isPassing(error: unknown): boolean {
  return passingCodes.has(systemCode(error) ?? '');
}

/** What is thrown where bytes are not there. */
function gone(detail: string, cause?: unknown): ProxyError {
  return new ProxyError('bytes_gone', { detail, cause });
}
