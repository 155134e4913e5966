/** The chunks of a body one by one: at once where they are there, otherwise by a promise. */

import type { BodyStream } from './message.ts';

/** Has content moved to where it goes; gives how many bytes, 0 where it has to be read. */
export interface Mover {
  move?(content: Pick<BodyStream, 'moveTo'>): number;
}

/**
 * What is read of a body that has just been moved, because its socket takes nothing more, in bytes: only who waits with a write
 * is told when there is room again.
 */
const betweenBytes = 8 * 1024;

/** Reads a body once. It is not closed by it. */
export class Chunks {
  readonly #body: BodyStream;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #hasMoved: boolean;

  constructor(body: BodyStream, hasMoved = false) {
    this.#body = body;
    this.#hasMoved = hasMoved;
  }

  /** Has content that comes next moved past this process: how many bytes; undefined where it has to be read. */
  move(outlet: Mover): number | undefined {
    const movedBytes = outlet.move?.(this.#body) ?? 0;
    if (movedBytes === 0) return undefined;
    this.#hasMoved = true;
    return movedBytes;
  }

  /** The next chunk; undefined after the last one. Throws or rejects as the body does. One call at a time. */
  next(): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    const taken = this.#body.take?.(this.#hasMoved ? betweenBytes : undefined) ?? 'later';
    // Where that does not help the moving on, the rest is read as ever.
    this.#hasMoved = false;
    if (taken === 'later') return this.#wait();
    return taken === 'end' ? undefined : taken;
  }

  async #wait(): Promise<Uint8Array | undefined> {
    this.#iterator ??= this.#body[Symbol.asyncIterator]();
    const { done, value } = await this.#iterator.next();
    return done === true ? undefined : value;
  }
}
