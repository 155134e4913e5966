/**
 * One body in a file: its blocks at their offsets, and their checksums. `BlockFile` reads and checks blocks, and notes written
 * ones; `QuickFile` reads in the same tick, and moves bytes into a socket (sendfile). Also decides what an error of the file
 * system means for the body.
 */

import { spanOfBlock, spanSize } from '../../../bytes/span.ts';
import { ProxyError } from '../../../http/proxy-error.ts';
import {
  type BlockSum,
  encodeSum,
  isSameSum,
  matchesTrace,
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

/** Unit of `blocks` in stat(2), in bytes. */
const statBlockBytes = 512;

/** Paths of the two files of a generation. */
interface BlockFilePaths {
  readonly body: string;
  readonly sums: string;
}

/** A block that was to be read and is absent. */
export interface LostBlock {
  readonly generation: string;
  readonly detail: string;
  /** Whether the sidecar listed the block as present. */
  readonly isDamaged: boolean;
}

/** Options for opening the files of a generation. */
export interface BlockFileOptions extends BodyListeners {
  readonly generation: string;
  readonly blockSizeBytes: number;
  readonly fileSystem: FileSystem;
  readonly paths: BlockFilePaths;
  /** Whether other processes may write into the files too: the sidecar may then later list blocks that are absent now. */
  readonly isShared?: boolean;
  /** Reads pieces of blocks that were checked before in the same tick; undefined where the thread pool reads everything. */
  readonly quickReads?: QuickReads | undefined;
  /** Called when a block turns out to be absent, once for each damaged block. */
  readonly onBlockLost: (lost: LostBlock) => void;
}

/**
 * An open body, shared by all its readers and writers. Every block that is read is checked against its checksum. A block that
 * does not match is absent from then on, here and in the sidecar.
 */
export class BlockFile {
  readonly generation: string;
  readonly #options: BlockFileOptions;
  readonly #file: OpenFile;
  readonly #sums: Sidecar;
  readonly #lost = new Set<number>();
  /** Those of them that the sidecar may still list as present. */
  readonly #unerased = new Set<number>();
  readonly #reading = new Set<Promise<unknown>>();
  /** The number of the generation in `QuickReads`. */
  readonly #number: number;
  readonly #quick: QuickFile | undefined;
  #sizeBytes: number | undefined;
  #erasing: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /**
   * Takes over an open file, its sidecar, and its length in bytes where it is known. `version` identifies the file across
   * openings; without it, checked pieces are remembered for this object only.
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

  /** Opens the body of an entry for reading, at a cost that does not depend on its length. Throws `ProxyError` `bytes_gone`. */
  static async open(options: BlockFileOptions, sizeBytes: number): Promise<BlockFile> {
    const { fileSystem, paths, blockSizeBytes, isShared } = options;
    let file: OpenFile | undefined;
    try {
      file = await openFile(fileSystem, paths.body, 'read');
      const sums = await Sidecar.open(fileSystem, paths.sums, Math.ceil(sizeBytes / blockSizeBytes), isShared);
      const { move, trustsLateChecks = false } = options.quickReads ?? {};
      // Otherwise no piece is noted as checked.
      const version = move !== undefined || trustsLateChecks ? await fileVersion(file) : undefined;
      return new BlockFile(options, file, sums, sizeBytes, version);
    } catch (error) {
      await file?.close();
      throw lostBody(options.generation, options, error);
    }
  }

  /** Opens a body of one block, whose sum is known, for reading. Throws `ProxyError` `bytes_gone`. */
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

  /** Loads the sums of all blocks. Throws `ProxyError` `bytes_gone`. */
  async loadSums(): Promise<void> {
    try {
      await this.#sums.loadAll();
    } catch (error) {
      throw lostBody(this.generation, this.#options, error);
    }
    const blockCount = Math.ceil((this.#sizeBytes ?? 0) / this.#options.blockSizeBytes);
    if (this.#options.isShared === true && blockCount > 0) await this.#learn(0, blockCount);
  }

  /** Checks whether a block is present, as far as is known without reading it. An opened file needs `loadSums` first. */
  has(index: number): boolean {
    return this.#fits(index, this.#sums.get(index));
  }

  /** Returns the bytes that the body takes on the disk now; 0 where the system cannot tell. */
  async allocatedBytes(): Promise<number> {
    const stats = await this.#file.stat().catch(() => undefined);
    return (stats?.blocks ?? 0) * statBlockBytes;
  }

  /** Whether the body has, or may have, more than one block. */
  get isLong(): boolean {
    return this.#sizeBytes === undefined || this.#sizeBytes > this.#options.blockSizeBytes;
  }

  /** Checks whether a block was present and was found damaged. */
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

  /** Keeps the file open until a read is over. */
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

  /** Reads and moves bytes in the same tick; undefined where that is off or the file is closed. Use it in this tick only. */
  get quick(): QuickFile | undefined {
    return this.#closing === undefined ? this.#quick : undefined;
  }

  /** Returns the sum of a block that is about to be written. A body of one block gets no trace: its next readers have it in memory. */
  sumOf(index: number, bytes: Uint8Array): BlockSum {
    const { generation, quickReads } = this.#options;
    return (quickReads === undefined || !this.isLong ? sumOf : tracedSumOf)(generation, index, bytes);
  }

  /** Notes that a block was written: it is present from now on. */
  note(index: number, sum: BlockSum): void {
    this.#noteTrace(index, sum);
    this.#sums.set(index, sum);
    this.#lost.delete(index);
  }

  /** Sets the length of the body, in bytes, when it was unknown before. */
  end(sizeBytes: number): void {
    this.#sizeBytes = sizeBytes;
  }

  /** Resolves when the sidecar lists lost blocks as absent. Only then may they be written again. */
  whenErased(): Promise<void> {
    return this.#erasing;
  }

  /** Closes the file when the reads in progress are over. Never rejects. */
  close(): Promise<void> {
    // An error here means that written bytes were lost, which their checksums will show.
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

  /**
   * Loads the sum of a block for the next quick read of it. Otherwise only a read of the block does that, and a block in memory
   * is not read.
   */
  #loadSumForLater(index: number): void {
    // The next read of the block reports the error.
    if (this.#closing === undefined) this.#noteReading(this.#sums.load(index)).catch(() => {});
  }

  /** Learns which blocks another process has written since. Blocks stay absent here where that fails. */
  async #learn(start: number, end: number): Promise<void> {
    const { fileSystem, paths } = this.#options;
    const reopen = () => openFile(fileSystem, paths.sums, 'read');
    const sums = await this.#sums.readAgain(start, end, reopen).catch(() => undefined);
    for (let index = start; sums !== undefined && index < end; index += 1) {
      const sum = sums.get(index - start);
      if (sum !== undefined && !this.has(index) && !this.#unerased.has(index)) this.note(index, sum);
    }
  }

  /** Checks whether bytes that were read of a block match its checksum. */
  #isSound(index: number, sum: BlockSum | undefined, bytes: Uint8Array): boolean {
    const { generation, quickReads } = this.#options;
    const read = (quickReads === undefined ? sumOf : tracedSumOf)(generation, index, bytes);
    if (!isSameSum(sum, read)) return false;
    // Not when the block was lost or written again meanwhile.
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

  /** Returns the size that a block must have; 0 where there is no such block, undefined while the length of the body is unknown. */
  #expectedSize(index: number): number | undefined {
    if (this.#sizeBytes === undefined) return undefined;
    if (index < 0) return 0;
    return Math.max(0, spanSize(spanOfBlock(index, this.#options.blockSizeBytes, this.#sizeBytes)));
  }

  /** Makes a block absent, unless it already is or was written again. Returns what to throw. */
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
    // If the sidecar cannot be written, the next reader of the block finds the damage again.
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

/** An open body, for reads in the same tick. */
interface QuickBody {
  /** Descriptor of the file. It is not used after `BlockFile.close`, because `quick` is undefined from then on. */
  readonly fd: number;
  /** The file for which its pieces are noted as checked. */
  readonly identity: FileIdentity;
  /** The number of the generation in `QuickReads`. */
  readonly number: number;
  readonly blockSizeBytes: number;
  /** Returns the length of a block in bytes; 0 for an absent block. */
  sizeOfBlock(index: number): number;
  /** Returns the checksum of a block in the sidecar; undefined for a block that is absent or has another length. */
  checksumOf(index: number): number | undefined;
  /** Checks whether these are all the bytes of a block, by its checksum; notes their trace. */
  checkBlock(index: number, bytes: Uint8Array): boolean;
}

/** A range of bytes within one block. `sizeBytes` is the length of the block. */
interface Place {
  readonly index: number;
  /** Offset of the block in the file, in bytes. */
  readonly blockStart: number;
  /** End of the range within the block (exclusive), in bytes. */
  readonly stop: number;
  /** The first piece of the range, and the piece after its last one. */
  readonly firstPiece: number;
  readonly endPiece: number;
  readonly sizeBytes: number;
}

/** A larger block, in bytes, is not read as a whole in the same tick: checking it takes as long as some requests do. */
const maxWholeBytes = 512 * 1024;

/** Maximum number of bytes moved at once: other connections wait for their turn. */
const maxMoveBytes = 1024 * 1024;

/** Number of moved bytes after which a piece of them is checked again, which costs a few microseconds. */
const recheckIntervalBytes = 512 * 1024;

/** Reads and moves bytes in the same tick. Never throws. */
class QuickFile {
  readonly #body: QuickBody;
  readonly #quickReads: QuickReads;
  /** Bytes moved since a piece was last checked again. */
  #movedBytes = 0;
  /** Where in the moved bytes the next piece is checked again, as a fraction from 0 up to 1 (exclusive). */
  #recheckAt = 0;

  constructor(body: QuickBody, quickReads: QuickReads) {
    this.#body = body;
    this.#quickReads = quickReads;
  }

  /**
   * Reads bytes from `offset` up to `end` (exclusive), at most to the end of their block. Reads the pieces that contain them, or
   * the whole block where its trace is unknown. Checks what it reads; with `trustsLateChecks`, only pieces that were not checked
   * lately. Returns undefined where that is not possible, or not known to be quick.
   */
  read(offset: number, end: number): Uint8Array | undefined {
    const place = this.#placeOf(offset, end);
    const bytes = place && this.#readPieces(place);
    const start = (place?.firstPiece ?? 0) * pieceBytes;
    return place && bytes?.subarray(offset - place.blockStart - start, place.stop - start);
  }

  /** Checks whether all bytes from `offset` up to `end` (exclusive) can be moved now: they were checked lately, or are checked now. */
  canMove(offset: number, end: number): boolean {
    return this.#quickReads.move !== undefined && this.#soundEnd(offset, end) === end;
  }

  /**
   * Has the system put `head` into a socket, and then bytes of the file from `offset` up to `end` (exclusive), as far as they can
   * be moved. Returns how many bytes of both together the socket took.
   */
  move(socket: number, head: Uint8Array, offset: number, end: number): number {
    if (this.#quickReads.move === undefined) return 0;
    return this.moveChecked(socket, head, offset, this.#soundEnd(offset, Math.min(end, offset + maxMoveBytes)));
  }

  /** As `move`, for bytes for which `canMove` returned true in this tick. */
  moveChecked(socket: number, head: Uint8Array, offset: number, end: number): number {
    const { move } = this.#quickReads;
    if (move === undefined || end <= offset) return 0;
    const taken = move(socket, head, this.#body.fd, offset, end - offset);
    this.#recheck(offset, taken - head.length);
    return taken;
  }

  /**
   * Checks a piece of the moved bytes again from time to time, so that damage to bytes that are sent over and over is found
   * before their minute (`soundMs`) is over. After damage the block is no longer moved. The golden ratio spreads the positions
   * evenly over the bytes.
   */
  #recheck(offset: number, sizeBytes: number): void {
    if (sizeBytes <= 0) return;
    this.#movedBytes += sizeBytes;
    if (this.#movedBytes < recheckIntervalBytes) return;
    this.#movedBytes = 0;
    this.#recheckAt = (this.#recheckAt + (Math.sqrt(5) - 1) / 2) % 1;
    const at = offset + Math.floor(this.#recheckAt * sizeBytes);
    const place = this.#placeOf(at, at + 1);
    if (place === undefined || this.#quickReads.traceOf(this.#body.number, place.index) === undefined) return;
    const bytes = this.#readPieces(place, true);
    if (bytes !== undefined) this.#quickReads.buffers.giveBack(bytes);
  }

  /** Returns the end of the sound bytes from `offset` on, at most `end`. Pieces that were not checked lately are checked. */
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
    const doubtful = checked.uncheckedPieces(block, this.#body.identity, place.firstPiece, place.endPiece);
    if (doubtful === undefined) return this.#traceOf(place.index) !== undefined;
    const { start: firstPiece, end: endPiece } = doubtful;
    const bytes = this.#readPieces({ ...place, firstPiece, endPiece });
    if (bytes === undefined) return false;
    buffers.giveBack(bytes);
    checked.note(block, this.#body.identity, doubtful, Math.ceil(place.sizeBytes / pieceBytes));
    return true;
  }

  /** Returns the trace of a block, where it is known and agrees with the checksum in the sidecar. */
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

  /** Checks whether bytes that were just read from pieces of a block are sound. `wantsCheck` forces a new check. */
  #areSound(
    { index, firstPiece, endPiece, sizeBytes }: Place,
    trace: Uint32Array,
    bytes: Uint8Array,
    wantsCheck: boolean,
  ): boolean {
    const { checked, trustsLateChecks } = this.#quickReads;
    const block = this.#quickReads.blockNumber(this.#body.number, index);
    if (wantsCheck || !trustsLateChecks) return matchesTrace(trace, firstPiece, bytes);
    if (checked.uncheckedPieces(block, this.#body.identity, firstPiece, endPiece) === undefined) return true;
    if (!matchesTrace(trace, firstPiece, bytes)) return false;
    const pieces = { start: firstPiece, end: endPiece };
    checked.note(block, this.#body.identity, pieces, Math.ceil(sizeBytes / pieceBytes));
    return true;
  }

  /** Returns all bytes of the pieces, checked, in a lent buffer. */
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
    // A mismatch is left to a read of the whole block, which finds and reports it. Until then nothing of the block is moved,
    // although its pieces were found sound before.
    if (isRead !== undefined) this.#quickReads.checked.forget(this.#quickReads.blockNumber(this.#body.number, index));
    return undefined;
  }

  /** As `#readPieces`, for a block that can only be checked as a whole. */
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

/** Listeners for problems of a body. */
interface BodyListeners {
  /** Called when the body cannot be opened, or its sidecar cannot be read, because it is damaged or gone. */
  readonly onBodyLost: (generation: string, detail: string) => void;
  /** Called when a file that is no longer needed cannot be removed. */
  readonly onNotRemoved: (path: string, error: unknown) => void;
  /** Called when the body cannot be opened, or its sidecar cannot be read, for now: the error says nothing about the files. */
  readonly onBodyClosed: (detail: string) => void;
}

/** Errors of the system that say nothing about a file: the system lacks resources to read it now, or access is not allowed. */
const passingCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EACCES', 'EPERM']);

/** Errors of the system for a path without a file, or with something else in its place. */
const absentCodes: ReadonlySet<string> = new Set(['ENOENT', 'EISDIR', 'ELOOP', 'ENXIO', 'ENODEV', 'ENOTDIR']);

/** Checks whether an error says that there is no file, or something else in its place: a directory, a link, a pipe, a device. */
export function isAbsence(error: unknown): boolean {
  return error instanceof NotAFile || absentCodes.has(systemCode(error) ?? '');
}

/** Reports that a body is lost, or that it cannot be opened now. Returns what to throw. */
function lostBody(generation: string, listeners: BodyListeners, error: unknown): ProxyError {
  const detail = `Generation ${generation} cannot be opened: ${String(error)}`;
  if (isPassing(error)) listeners.onBodyClosed(detail);
  else listeners.onBodyLost(generation, detail);
  return gone(detail, error);
}

/** Checks whether an error only says that a file cannot be read now, and nothing about the file. */
function isPassing(error: unknown): boolean {
  return passingCodes.has(systemCode(error) ?? '');
}

/** Returns the error for bytes that are absent. */
function gone(detail: string, cause?: unknown): ProxyError {
  return new ProxyError('bytes_gone', { detail, cause });
}
