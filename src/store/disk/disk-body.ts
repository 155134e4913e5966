/** The body of a generation while it is written: in memory as long as it may stay small, in its files from then on. */

import { ProxyError } from '../../http/proxy-error.ts';
import type { BlockSource } from '../store.ts';
import type { BlockFile } from './block-file.ts';
import type { BlockFileWriter } from './block-file-writer.ts';
import type { DiskParts } from './disk-parts.ts';

/** The blocks of one generation. It is moved to files once, before more than a small body is written. */
export class DiskBody implements BlockSource {
  readonly #generation: string;
  readonly #parts: Pick<DiskParts, 'files' | 'bodies'>;
  /** The length of the whole, as far as it was known at the beginning. */
  readonly #sizeBytes: number | undefined;
  readonly #held = new Map<number, Uint8Array>();
  #file: BlockFile | undefined;
  #loneChecksum: number | undefined;
  #hasLone = false;
  #writer: BlockFileWriter | undefined;

  constructor(parts: Pick<DiskParts, 'files' | 'bodies'>, generation: string, sizeBytes: number | undefined) {
    this.#parts = parts;
    this.#generation = generation;
    this.#sizeBytes = sizeBytes;
  }

  /** Whether it is in files, or on its way there. */
  get isInFiles(): boolean {
    return this.#file !== undefined;
  }

  /** Whether anything of it is on the disk beside the index. */
  get hasFiles(): boolean {
    return this.isInFiles || this.#hasLone;
  }

  /** Whether it is one block in a file without a sidecar. */
  get isLone(): boolean {
    return this.#loneChecksum !== undefined;
  }

  /** All blocks of a body that is in memory, one after the other. */
  get bytes(): Uint8Array {
    const [first] = this.#held.values();
    if (first !== undefined && this.#held.size === 1) return first;
    return Buffer.concat([...this.#held].sort(([a], [b]) => a - b).map(([, bytes]) => bytes));
  }

  /**
   * Opens what is on the disk already; one block without a sidecar with its checksum. Gives what the body takes there, in
   * bytes. Throws `ProxyError` `bytes_gone`.
   */
  async open(sizeBytes: number, blockChecksum?: number): Promise<number> {
    this.#file = await this.#parts.bodies.acquire(this.#generation, sizeBytes, blockChecksum);
    this.#loneChecksum = blockChecksum;
    const allocatedBytes = await this.#file.allocatedBytes();
    if (blockChecksum !== undefined) return allocatedBytes;
    await this.#file.loadSums();
    // Now, for the files may be removed later. What cannot be written can be read nevertheless.
    this.#writer = await this.#parts.files.openForWriting(this.#file).catch(() => undefined);
    return allocatedBytes;
  }

  has(index: number): boolean {
    return this.#held.has(index) || this.#file?.has(index) === true;
  }

  /** Whether a block was there, and turned out to be damaged. */
  hasLost(index: number): boolean {
    return this.#file?.hasLost(index) === true;
  }

  /** Keeps a block in memory. */
  hold(index: number, bytes: Uint8Array): void {
    this.#held.set(index, bytes);
  }

  /** Puts a body of one block into a file without a sidecar, if it is not there; gives its checksum. Throws the system's error. */
  async createLone(): Promise<number> {
    this.#hasLone = true;
    this.#loneChecksum ??= await this.#parts.files.createLone(this.#generation, this.bytes);
    return this.#loneChecksum;
  }

  /** Puts what is in memory into files; tells how many bytes that were. Throws the system's error; may be tried again. */
  async moveToFiles(): Promise<number> {
    let moved = 0;
    if (this.#file !== undefined && this.#held.size === 0) return moved;
    const writer = await this.#openFiles();
    for (const [index, bytes] of this.#held) {
      await writer.write(index, bytes);
      this.#held.delete(index);
      moved += bytes.length;
    }
    return moved;
  }

  /** Writes a block into the files. Throws the system's error. */
  async write(index: number, bytes: Uint8Array): Promise<void> {
    const writer = await this.#openFiles();
    await writer.write(index, bytes);
  }

  peekBlock(index: number): Uint8Array | undefined {
    return this.#held.get(index);
  }

  async readBlock(index: number): Promise<Uint8Array> {
    const block = this.#held.get(index) ?? (this.has(index) ? await this.#file?.read(index) : undefined);
    if (block !== undefined) return block;
    throw new ProxyError('bytes_gone', { detail: `Generation ${this.#generation} has no block ${index} yet.` });
  }

  /** Notes how long the whole is. */
  end(sizeBytes: number): void {
    this.#file?.end(sizeBytes);
  }

  /** Gives the files back. Never rejects. */
  async close(): Promise<void> {
    await this.#writer?.close();
    if (this.#file !== undefined) this.#parts.bodies.release(this.#generation);
  }

  async #openFiles(): Promise<BlockFileWriter> {
    if (this.#writer !== undefined) return this.#writer;
    const { files, bodies } = this.#parts;
    if (this.#file === undefined) {
      this.#writer = await files.create(this.#generation, this.#sizeBytes);
      this.#file = this.#writer.file;
      bodies.share(this.#file);
    } else {
      this.#writer = await files.openForWriting(this.#file);
    }
    return this.#writer;
  }
}
