/** A movable body, with as much room in the socket as a test wants. */

import { writeSync } from 'node:fs';
import { expect } from 'vitest';
import type { BodyStream, MovableBytes, NextChunk } from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';

/** Writes bytes into a socket, and returns how many it took. */
export type Put = (socket: number, bytes: Uint8Array) => number;

const putIntoSocket: Put = (socket, bytes) => {
  try {
    return writeSync(socket, bytes);
  } catch {
    // The socket is full or closed.
    return 0;
  }
};

/** Bytes of head and body that the next move may take. Moves after the last room take nothing. */
export interface Room {
  readonly headBytes: number;
  readonly bodyBytes: number;
}

/** Room for everything. */
export const allRoom: Room = { headBytes: Number.POSITIVE_INFINITY, bodyBytes: Number.POSITIVE_INFINITY };

/** A body that moves as far as there is room, and yields the rest in chunks. */
export class MovingBody implements BodyStream, MovableBytes {
  readonly #bytes: Uint8Array;
  readonly #rooms: Room[];
  readonly #put: Put;
  #offset = 0;
  /** Number of moves. */
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

  take(): NextChunk {
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
