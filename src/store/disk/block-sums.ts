/** One checksum per block of a body: what a sidecar file holds. */

import { crc32 } from 'node:zlib';

/** A record: the block's length and its checksum, 32 bits each, little-endian. Length 0: the block is absent. */
const recordBytes = 8;

/**
 * The checksums of one generation's blocks. A checksum covers the block's bytes, its index and its generation, so that
 * right bytes in a wrong place are found out too.
 */
export class BlockSums {
  readonly #generation: string;
  #records: DataView<ArrayBuffer>;
  #count: number;

  /** The sums of a new body, or those that `encode` gave; what is cut off at the end of them is absent. */
  constructor(generation: string, encoded: Uint8Array = new Uint8Array()) {
    this.#generation = generation;
    this.#records = new DataView(new Uint8Array(encoded).buffer);
    this.#count = Math.floor(encoded.length / recordBytes);
  }

  /** Notes the checksum of a block. */
  note(index: number, bytes: Uint8Array): void {
    this.#growTo(index + 1);
    this.#records.setUint32(index * recordBytes, bytes.length, true);
    this.#records.setUint32(index * recordBytes + 4, blockSum(this.#generation, index, bytes), true);
  }

  /** The length of a block in bytes; 0 when it is absent. */
  lengthOf(index: number): number {
    return index < this.#count ? this.#records.getUint32(index * recordBytes, true) : 0;
  }

  /** Whether these are the bytes that were noted for the block. */
  match(index: number, bytes: Uint8Array): boolean {
    return (
      bytes.length > 0 &&
      bytes.length === this.lengthOf(index) &&
      blockSum(this.#generation, index, bytes) === this.#records.getUint32(index * recordBytes + 4, true)
    );
  }

  /** The sums as a sidecar file holds them. */
  encode(): Uint8Array {
    return new Uint8Array(this.#records.buffer, 0, this.#count * recordBytes);
  }

  #growTo(count: number): void {
    this.#count = Math.max(this.#count, count);
    const neededBytes = this.#count * recordBytes;
    if (neededBytes <= this.#records.byteLength) return;
    const grown = new Uint8Array(Math.max(neededBytes, 2 * this.#records.byteLength));
    grown.set(new Uint8Array(this.#records.buffer));
    this.#records = new DataView(grown.buffer);
  }
}

/** The checksum of a block in its place: CRC-32 of its bytes, begun with that of its generation and index. */
export function blockSum(generation: string, index: number, bytes: Uint8Array): number {
  return crc32(bytes, crc32(`${generation}/${index}`));
}

/** How many bytes the sums of so many blocks take in a sidecar. */
export function sumsSizeBytes(blockCount: number): number {
  return blockCount * recordBytes;
}
