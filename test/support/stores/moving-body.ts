/** A body that the system is made to move, with as much room in the socket as a test wants. */

import { writeSync } from 'node:fs';
import { expect } from 'vitest';
import type { BodyStream, MovableBytes, Taken } from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';

/** Puts bytes into a socket; gives how many it took. */
export type Put = (socket: number, bytes: Uint8Array) => number;

const putIntoSocket: Put = (socket, bytes) => {
  try {
    return writeSync(socket, bytes);
  } catch {
    // It takes nothing now, or nothing ever again.
    return 0;
  }
};

/** What is taken of head and body by the next call; what is behind the last one takes nothing. */
export interface Room {
  readonly headBytes: number;
  readonly bodyBytes: number;
}

/** Everything. */
export const allRoom: Room = { headBytes: Number.POSITIVE_INFINITY, bodyBytes: Number.POSITIVE_INFINITY };

/** Moves as far as there is room, and gives the rest in chunks. */
export class MovingBody implements BodyStream, MovableBytes {
  readonly #bytes: Uint8Array;
  readonly #rooms: Room[];
  readonly #put: Put;
  #offset = 0;
  /** How often it was asked to move. */
  moves = 0;
  isClosed = false;
  /** Whether the rest cannot be read. */
  isGone = false;

  constructor(bytes: Uint8Array, rooms: readonly Room[], put: Put = putIntoSocket) {
    this.#bytes = bytes;
    this.#rooms = [...rooms];
    this.#put = put;
  }

  moveTo(socket: number, head: Uint8Array): number {
    this.moves += 1;
    const { headBytes, bodyBytes } = this.#rooms.shift() ?? { headBytes: 0, bodyBytes: 0 };
    const takenHead = this.#put(socket, head.subarray(0, headBytes));
    if (takenHead < head.length) return takenHead;
    const taken = this.#put(socket, this.#bytes.subarray(this.#offset).subarray(0, bodyBytes));
    this.#offset += taken;
    return takenHead + taken;
  }

  async rest(offset: number): Promise<BodyStream> {
    if (this.isGone) throw new ProxyError('bytes_gone');
    expect(offset).toBe(this.#offset);
    return this;
  }

  take(): Taken {
    if (this.#offset === this.#bytes.length) return 'end';
    const chunk = this.#bytes.subarray(this.#offset, this.#offset + 1000);
    this.#offset += chunk.length;
    return chunk;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, undefined> {
    for (let chunk = this.take(); typeof chunk !== 'string'; chunk = this.take()) yield chunk;
  }

  close(): void {
    this.isClosed = true;
  }
}
