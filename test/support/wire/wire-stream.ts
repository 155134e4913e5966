/** One response as a client of any wire receives it: a head, and a body that is complete or breaks off. */

import type { Fields } from '../../../src/http/fields.ts';
import type { InterimResponse } from '../../../src/http/message.ts';

/** The head of a response; names are in lower case. */
export interface WireHead {
  readonly status: number;
  readonly fields: Fields;
  /** Whether lines of one name may be joined, and names reordered. */
  readonly isJoined: boolean;
}

/** A queue that the reader of a connection fills and a client empties. */
export class WireStream {
  readonly interim: InterimResponse[] = [];
  readonly #head = Promise.withResolvers<WireHead>();
  readonly #chunks: Uint8Array[] = [];
  #receivedBytes = 0;
  #end: { readonly error: Error | undefined } | undefined;
  #wake = (): void => {};
  /** Abandons the exchange without waiting for the rest; set by the connection. */
  abandon: () => void = () => {};

  constructor() {
    // A client that has left does not await the head.
    this.#head.promise.catch(() => {});
  }

  /** Rejects where the connection ends before the head. */
  get head(): Promise<WireHead> {
    return this.#head.promise;
  }

  /** Received bytes of the body, read or not. */
  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** Whether a chunk can be taken or the end is known. */
  get isReady(): boolean {
    return this.#chunks.length > 0 || this.#end !== undefined;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** Takes the next chunk. Returns undefined at the end of a complete body. Rejects at the end of a broken one. */
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

  /** Ends the body: complete, or broken with `error`. */
  end(error?: Error): void {
    if (this.isOver) return;
    this.#end = { error };
    if (error !== undefined) this.#head.reject(error);
    this.#wake();
  }
}
