/** Those who read a generation or are about to: what each wants now, and what it may still ask for. */

import type { Span } from '../bytes/span.ts';
import type { ByteReader } from './representation.ts';

/** Who reads. */
export interface Visitor {
  /** The name of the client, for those who limit what one may cost. */
  readonly client: string;
  /** How many transfers had failed when it came: those are no matter of its own. */
  readonly since: number;
  /** Where and when it began to read an open-ended range (epoch milliseconds); undefined for every other reader. */
  readonly open?: { readonly from: number; readonly at: number } | undefined;
}

/** Who will read. */
export interface Seat extends Pick<Visitor, 'client'> {
  /** Whether an open-ended range was asked for: its client may leave long before the end. */
  readonly isOpenEnded: boolean;
}

/** What a reader reads with, and who is told of it. */
export interface ReadSource {
  /** Makes what one reader gets its bytes from. */
  readonly createReader: (visitor: Visitor) => ByteReader;
  /** Told when somebody has come to `offset`, on the way to `end`. */
  readonly onMoved: (offset: number, end: number, visitor: Visitor) => void;
  /** Told once for each reader and each seat, when it has left. */
  readonly onLeft: () => void;
}

interface Reading {
  readonly client: string;
  /** All that it may ask for; everything for a seat that has not been taken to read from. */
  readonly spans: readonly Span[];
  /** The index of the span that it is at: those before it are over. */
  at: number;
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
  sit({ client }: Omit<Seat, 'isOpenEnded'>): () => void {
    const everything = { start: 0, end: Number.POSITIVE_INFINITY };
    return this.#enter({ client, spans: [everything], at: 0, floor: undefined });
  }

  /** Adds a reader that asks for these spans in their order, and nothing else. `visitor` is passed on with what it reads. */
  add(spans: readonly Span[], visitor: Visitor): ByteReader {
    const { client } = visitor;
    const reading: Reading = { client, spans, at: 0, floor: spans[0]?.start ?? 0 };
    const reader = this.#source.createReader(visitor);
    const leave = this.#enter(reading);
    let toldOffset: number | undefined;
    const move = (offset: number, end: number) => {
      if (offset === toldOffset) return;
      toldOffset = offset;
      reading.at = indexOfSpan(reading, offset);
      reading.floor = offset;
      this.#source.onMoved(offset, end, visitor);
    };
    return {
      peek: (from, end) => {
        move(from, end);
        return reader.peek(from, end);
      },
      read: (from, end) => {
        move(from, end);
        return reader.read(from, end);
      },
      close: () => {
        reader.close();
        leave();
      },
    };
  }

  /** Whether one of them may ask for some of these bytes. */
  want(bytes: Span): boolean {
    return [...this.#readings].some((reading) => mayAskFor(reading, bytes));
  }

  /** The clients of those who may ask for some of these bytes. */
  wanters(bytes: Span): readonly string[] {
    return [...this.#readings].filter((reading) => mayAskFor(reading, bytes)).map(({ client }) => client);
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

/** The index of the span that it is at when it asks for `offset`: no byte is in two of them. */
function indexOfSpan({ spans, at }: Reading, offset: number): number {
  const index = spans.findIndex(({ start, end }) => start <= offset && offset < end);
  return index === -1 ? at : index;
}

/** Whether some of these bytes are in what is left of its spans. */
function mayAskFor({ spans, at, floor }: Reading, { start, end }: Span): boolean {
  return spans.some((span, place) => {
    if (place < at) return false;
    const from = place === at ? Math.max(span.start, floor ?? span.start) : span.start;
    return Math.max(from, start) < Math.min(span.end, end);
  });
}
