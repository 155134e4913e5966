/** What a client of any wire sees of one exchange: a head, and bytes of a body that ends whole or breaks off. */

import type { Fields } from '../../../src/http/fields.ts';
import type { InterimResponse } from '../../../src/http/message.ts';

/** A response's head, names in small letters. */
export interface WireHead {
  readonly status: number;
  readonly fields: Fields;
  /** Whether the lines of one name may have come as one, and names in another order. */
  readonly isJoined: boolean;
}

/** Filled by the reader of a connection, emptied by a client. */
export class WireStream {
  readonly interim: InterimResponse[] = [];
  readonly #head = Promise.withResolvers<WireHead>();
  readonly #chunks: Uint8Array[] = [];
  #receivedBytes = 0;
  #end: { readonly error: Error | undefined } | undefined;
  #wake = (): void => {};
  /** Goes away without waiting for the rest; set by the connection. */
  abandon: () => void = () => {};

  constructor() {
    // A client that has left asks for no head.
    this.#head.promise.catch(() => {});
  }

  /** Rejects where the connection ends before. */
  get head(): Promise<WireHead> {
    return this.#head.promise;
  }

  /** Bytes of body that have come, read or not. */
  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** Whether something can be taken, or the end is known. */
  get isReady(): boolean {
    return this.#chunks.length > 0 || this.#end !== undefined;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** The next bytes; undefined at the end of a whole body. Rejects at the end of one that broke off. */
  async take(): Promise<Uint8Array | undefined> {
    while (!this.isReady) await new Promise<void>((resolve) => (this.#wake = resolve));
    const chunk = this.#chunks.shift();
    if (chunk === undefined && this.#end?.error !== undefined) throw this.#end.error;
    return chunk;
  }

  putHead(head: WireHead): void {
    if (head.status < 200) this.interim.push({ status: head.status, fields: head.fields });
    else this.#head.resolve(head);
  }

  put(bytes: Uint8Array): void {
    this.#receivedBytes += bytes.length;
    this.#chunks.push(bytes);
    this.#wake();
  }

  /** The body is whole, or `error` says how it broke off. */
  end(error?: Error): void {
    if (this.isOver) return;
    this.#end = { error };
    if (error !== undefined) this.#head.reject(error);
    this.#wake();
  }
}
