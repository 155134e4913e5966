/** Those who read a generation or are about to: what each wants now, and what it may still ask for. */

import type { Span } from '../bytes/span.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { ByteReader } from './representation.ts';

/** What a reader reads from, and who is told of it. */
export interface ReadSource {
  readonly peek: (offset: number, end: number) => Uint8Array | undefined;
  readonly read: (offset: number, end: number, since: number, signal: AbortSignal) => Promise<Uint8Array | undefined>;
  /** Told when somebody has come to `offset`, on the way to `end`. */
  readonly onMoved: (offset: number, end: number, since: number) => void;
  /** Told once for each reader and each seat, when it has left. */
  readonly onLeft: () => void;
}

interface Reading {
  /** All that it may ask for; everything for a seat that has not been taken to read from. */
  readonly spans: readonly Span[];
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
    return this.#enter({ spans: [{ start: 0, end: Number.POSITIVE_INFINITY }], floor: undefined });
  }

  /** Adds a reader that asks for these spans in their order, and nothing else. `since` is passed on with what it reads. */
  add(spans: readonly Span[], since: number): ByteReader {
    const reading: Reading = { spans, floor: spans[0]?.start ?? 0 };
    const closing = new AbortController();
    const leave = this.#enter(reading);
    let toldOffset: number | undefined;
    const move = (offset: number, end: number) => {
      if (offset === toldOffset) return;
      toldOffset = offset;
      reading.floor = offset;
      this.#source.onMoved(offset, end, since);
    };
    return {
      peek: (from, end) => {
        move(from, end);
        return this.#source.peek(from, end);
      },
      read: (from, end) => {
        move(from, end);
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
    return [...this.#readings].some(({ spans }) => spans.some((span) => span.end > start && span.start < end));
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
