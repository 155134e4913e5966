/** Buffers that are used again when those who had them say that nobody reads them any more. */

/** The sizes of buffers: powers of two from the first to the last, in bytes. What is larger is not kept for later. */
const minBytes = 8 * 1024;
const maxBytes = 512 * 1024;
/** What lies ready takes at most so many bytes. */
const maxReadyBytes = 8 * 1024 * 1024;

/**
 * A fresh buffer of some ten KiB costs more than to fill it: the system gives it page by page, and the collector has to see
 * that it goes. One that is never given back is collected like any other.
 */
export class LentBuffers {
  readonly #ready = new Map<number, ArrayBuffer[]>();
  readonly #lent = new WeakSet<ArrayBufferLike>();
  #readyBytes = 0;

  /** Bytes of whatever content, in a buffer that nobody else has. */
  lend(sizeBytes: number): Buffer<ArrayBufferLike> {
    if (sizeBytes > maxBytes) return Buffer.allocUnsafeSlow(sizeBytes);
    const capacity = Math.max(minBytes, 2 ** Math.ceil(Math.log2(sizeBytes)));
    const ready = this.#ready.get(capacity)?.pop();
    if (ready !== undefined) this.#readyBytes -= capacity;
    const buffer = ready ?? Buffer.allocUnsafeSlow(capacity).buffer;
    this.#lent.add(buffer);
    return Buffer.from(buffer, 0, sizeBytes);
  }

  /** Takes back the buffer of these bytes, if it was lent from here and is out still. */
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
