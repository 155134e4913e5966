/** One checksum per block of a body: what a sidecar file holds, and how it says which blocks are there. */

import { crc32 } from 'node:zlib';

/** A record: the block's length and its checksum, 32 bits each, little-endian. Length 0: the block is absent. */
const recordBytes = 8;

/** What is known of one block. */
export interface BlockSum {
  readonly sizeBytes: number;
  readonly checksum: number;
  /** How the pieces of the block are checked, where that is known: see `tracedSumOf`. No sidecar says it. */
  readonly trace?: Uint32Array | undefined;
}

/** The checksums of one body's blocks, as far as they are there. */
export class BlockSums {
  #records: DataView<ArrayBuffer>;
  #count: number;

  /** The sums of a new body, or those of a sidecar; what is cut off at the end of it is absent. */
  constructor(encoded: Uint8Array = new Uint8Array()) {
    this.#records = new DataView(new Uint8Array(encoded).buffer);
    this.#count = Math.floor(encoded.length / recordBytes);
  }

  /** The sum of a block; undefined when the block is absent. */
  get(index: number): BlockSum | undefined {
    if (index < 0 || index >= this.#count) return undefined;
    const sizeBytes = this.#records.getUint32(index * recordBytes, true);
    if (sizeBytes === 0) return undefined;
    return { sizeBytes, checksum: this.#records.getUint32(index * recordBytes + 4, true) };
  }

  /** Notes the sum of a block; undefined makes it absent. */
  set(index: number, sum: BlockSum | undefined): void {
    if (index >= this.#count) {
      if (sum === undefined) return;
      this.#growTo(index + 1);
    }
    this.#records.setUint32(index * recordBytes, sum?.sizeBytes ?? 0, true);
    this.#records.setUint32(index * recordBytes + 4, sum?.checksum ?? 0, true);
  }

  #growTo(count: number): void {
    this.#count = count;
    const neededBytes = this.#count * recordBytes;
    if (neededBytes <= this.#records.byteLength) return;
    const grown = new Uint8Array(Math.max(neededBytes, 2 * this.#records.byteLength));
    grown.set(new Uint8Array(this.#records.buffer));
    this.#records = new DataView(grown.buffer);
  }
}

/** The sum of a block in its place. */
export function sumOf(generation: string, index: number, bytes: Uint8Array): BlockSum {
  return { sizeBytes: bytes.length, checksum: blockSum(generation, index, bytes) };
}

/** Whether two sums are the same. */
export function isSameSum(a: BlockSum | undefined, b: BlockSum | undefined): boolean {
  return a?.sizeBytes === b?.sizeBytes && a?.checksum === b?.checksum;
}

/**
 * The checksum of a block: CRC-32 of its bytes, begun with that of its generation and index, so that right bytes in a
 * wrong place are found out too.
 */
export function blockSum(generation: string, index: number, bytes: Uint8Array): number {
  return crc32(bytes, crc32(`${generation}/${index}`));
}

/**
 * A part of a block that can be checked for itself, in bytes. Smaller ones cost more calls when a whole block is read,
 * larger ones more bytes that a range has to read beside its own.
 */
export const pieceBytes = 8 * 1024;

/**
 * The checksum of a block on its way: what it is before the first piece, and after each. The last value is the block's
 * checksum, so whoever has checked a block can check its pieces later, though the sidecar says nothing of them.
 */
function traceSum(generation: string, index: number, bytes: Uint8Array): Uint32Array {
  const count = Math.ceil(bytes.length / pieceBytes);
  const trace = new Uint32Array(count + 1);
  let sum = crc32(`${generation}/${index}`);
  trace[0] = sum;
  for (let piece = 0; piece < count; piece += 1) {
    sum = crc32(bytes.subarray(piece * pieceBytes, (piece + 1) * pieceBytes), sum);
    trace[piece + 1] = sum;
  }
  return trace;
}

/** The sum of a block in its place, with its trace. */
export function tracedSumOf(generation: string, index: number, bytes: Uint8Array): BlockSum {
  const trace = traceSum(generation, index, bytes);
  return { sizeBytes: bytes.length, checksum: trace.at(-1) ?? 0, trace };
}

/** Whether bytes are those of which a trace was made, from one piece on to the end of another. */
export function isOnTrace(trace: Uint32Array, firstPiece: number, bytes: Uint8Array): boolean {
  return crc32(bytes, trace[firstPiece]) === trace[firstPiece + Math.ceil(bytes.length / pieceBytes)];
}

/** A sum as its record in a sidecar; undefined gives the record of an absent block. */
export function encodeSum(sum: BlockSum | undefined): Uint8Array {
  const record = new DataView(new ArrayBuffer(recordBytes));
  record.setUint32(0, sum?.sizeBytes ?? 0, true);
  record.setUint32(4, sum?.checksum ?? 0, true);
  return new Uint8Array(record.buffer);
}

/** How many bytes the sums of so many blocks take in a sidecar; the record of block `i` begins at that of `i` blocks. */
export function sumsSizeBytes(blockCount: number): number {
  return blockCount * recordBytes;
}
