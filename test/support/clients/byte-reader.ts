/** Reads a socket by delimiter or by count, for scripted peers. */

import type { Readable } from 'node:stream';

/** Pulls bytes from a stream, one call at a time. After the end of the stream, reads return fewer bytes. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: Readable) {
    this.#chunks = stream.iterator({ destroyOnReturn: false });
  }

  /** Reads the bytes before the delimiter, and consumes it. Returns undefined when the stream ends first. */
  async until(delimiter: string): Promise<Buffer | undefined> {
    for (;;) {
      const at = this.#rest.indexOf(delimiter, 0, 'latin1');
      if (at >= 0) {
        const bytes = this.#rest.subarray(0, at);
        this.#rest = this.#rest.subarray(at + delimiter.length);
        return bytes;
      }
      if (!(await this.#more())) return undefined;
    }
  }

  /** Reads the next bytes; fewer at the end of the stream. */
  async take(sizeBytes: number): Promise<Buffer> {
    while (this.#rest.length < sizeBytes) if (!(await this.#more())) break;
    const bytes = this.#rest.subarray(0, sizeBytes);
    this.#rest = this.#rest.subarray(sizeBytes);
    return bytes;
  }

  async #more(): Promise<boolean> {
    try {
      const next = await this.#chunks.next();
      if (next.done === true) return false;
      this.#rest = Buffer.concat([this.#rest, next.value]);
      return true;
    } catch {
      // A reset ends the stream like a close does; the origin sees it as `closed`.
      return false;
    }
  }
}
