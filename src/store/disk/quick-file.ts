/** What an open body gives in the same tick: bytes that are read, and bytes that the system moves into a socket. */

import { isOnTrace, pieceBytes } from './block-sums.ts';
import type { FileIdentity } from './checked-pieces.ts';
import type { QuickReads } from './quick-reads.ts';

/** An open body, as far as it is read in the same tick. */
export interface QuickBody {
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
export class QuickFile {
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
