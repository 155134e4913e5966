/** Whether the bytes of a generation are the ones that somebody has stated a digest of (RFC 9530). */

import { ProxyError } from '../http/proxy-error.ts';
import type { Digest } from '../semantics/digest.ts';
import { BodyHashes } from './body-hashes.ts';

/** Hashes a body as its blocks come, and verifies it before its last block can be read. */
export class BodyCheck {
  readonly #stated: Digest | undefined;
  readonly #known: string | undefined;
  /** Undefined where nobody asks for a digest: most bodies are never hashed. */
  readonly #hashes: BodyHashes | undefined;
  #digest: string | undefined;

  /**
   * `stated` is what the origin says; `known` the SHA-256 of the very bytes, hexadecimal, where they were whole before.
   * `wantsDigest` tells whether the SHA-256 is wanted, whatever is stated.
   */
  constructor(stated: Digest | undefined, wantsDigest: boolean, known?: string) {
    const isWanted = wantsDigest || known !== undefined;
    this.#stated = stated;
    this.#known = known;
    if (isWanted || stated !== undefined) {
      const wanted = isWanted ? (['sha256'] as const) : [];
      this.#hashes = new BodyHashes(new Set([...wanted, ...(stated === undefined ? [] : [stated.algorithm])]));
    }
  }

  /** Whether there is nothing to verify or to tell. */
  get isIdle(): boolean {
    return this.#hashes === undefined;
  }

  /** Whether the last block has to be held back until the body is verified. */
  get isVerifying(): boolean {
    return this.#stated !== undefined || this.#known !== undefined;
  }

  /** Takes note of a block that has come. */
  add(index: number, bytes: Uint8Array): void {
    this.#hashes?.add(index, bytes);
  }

  /** Whether blocks up to this one (exclusive) have come in order. */
  hasAll(blockCount: number): boolean {
    return (this.#hashes?.count ?? 0) >= blockCount;
  }

  /** The SHA-256 of the whole, hexadecimal, once it was verified; undefined where it was not wanted. */
  get digest(): string | undefined {
    return this.#digest;
  }

  /**
   * Verifies the whole; once is enough, and more does no harm. Throws `ProxyError` `origin_digest_mismatch`,
   * `generation_changed`, and what `readBlock` throws.
   */
  async verify(blockCount: number, readBlock: (index: number) => Promise<Uint8Array>): Promise<void> {
    if (this.#hashes === undefined) return;
    const hashes = await this.#hashes.finish(blockCount, readBlock);
    const sha256 = hashes.get('sha256');
    if (this.#stated !== undefined && hashes.get(this.#stated.algorithm) !== this.#stated.hex) {
      const detail = `the ${this.#stated.algorithm} of the whole is another`;
      throw new ProxyError('origin_digest_mismatch', { detail });
    }
    if (this.#known !== undefined && sha256 !== this.#known) {
      throw new ProxyError('generation_changed', { detail: 'the whole has another digest than it had' });
    }
    this.#digest = sha256;
  }
}
