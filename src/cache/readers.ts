/** Those who read a generation or are about to: what each wants now, and what it may still ask for. */

import type { Span } from '../bytes/span.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { ByteReader } from './representation.ts';

/** What a reader reads from, and who is told of it. */
export interface ReadSource {
  readonly peek: (offset: number, end: number) => Uint8Array | undefined;
  readonly read: (offset: number, end: number, since: number, signal: AbortSignal) => Promise<Uint8Array | undefined>;
  /** Told when somebody has moved on. */
  readonly onMoved: () => void;
  /** Told once for each reader and each seat, when it has left. */
  readonly onLeft: () => void;
}

interface Reading {
  /** All that it may ask for; everything for a seat that has not been taken to read from. */
  readonly hull: Span;
  /** The offset that was asked for last; undefined for a seat. */
  floor: number | undefined;
}

/** The readers of one generation, and the seats of those who will open it. */
export class Readers {
  readonly #readings = new Set<Reading>();
  readonly #source: ReadSource;

  constructor(source: ReadSource) {
    this.#source = source;
  }

  get size(): number {
    return this.#readings.size;
  }

  /** Takes a seat: what is asked for later begins anywhere. Gives the function that leaves it. */
  sit(): () => void {
    return this.#enter({ hull: { start: 0, end: Number.POSITIVE_INFINITY }, floor: undefined });
  }

  /**
   * Adds a reader that begins at `offset` and asks for nothing outside of `hull`. `since` is passed on with what it reads.
   */
  add(offset: number, hull: Span, since: number): ByteReader {
    const reading: Reading = { hull, floor: offset };
    const closing = new AbortController();
    const leave = this.#enter(reading);
    const move = (start: number) => {
      if (start === reading.floor) return;
      reading.floor = start;
      this.#source.onMoved();
    };
    return {
      peek: (from, end) => {
        move(from);
        return this.#source.peek(from, end);
      },
      read: (from, end) => {
        move(from);
        return this.#source.read(from, end, since, closing.signal);
      },
      close: () => {
        closing.abort(new ProxyError('client_gone'));
        leave();
      },
    };
  }

  /** Whether one of them may ask for some of these bytes. */
  want({ start, end }: Span): boolean {
    return [...this.#readings].some(({ hull }) => hull.end > start && hull.start < end);
  }

  /** The lowest offset, of `from` and more, that one of them may ask for next; undefined when there is no such reader. */
  lowest(from: number): number | undefined {
    let lowest: number | undefined;
    for (const { floor = from } of this.#readings) {
      if (floor >= from && (lowest === undefined || floor < lowest)) lowest = floor;
    }
    return lowest;
  }

  #enter(reading: Reading): () => void {
    this.#readings.add(reading);
    return () => {
      if (this.#readings.delete(reading)) this.#source.onLeft();
    };
  }
}
